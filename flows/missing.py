"""Which items have no vector and no job for one: the truth about vectors is the anti-join, not the outbox."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl

from headwater.flows.items import SOURCES, Items
from headwater.schemas.errors import BusyError
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.storage.vectors import VectorStore
from headwater.storage.worker_lock import version_lock

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.storage.outbox import VectorOutbox

_SET = ("item_kind", "item_id", "content_hash")


def missing_vectors(home: Home, embedding_version: str) -> pl.DataFrame:
    """Return item_kind, item_id, content_hash and at of items whose text has no vector set, or an outdated one.

    Of one version; the newest first, equal times by kind and id.
    """
    items = Items(home)
    wanted = pl.concat([_of_kind(items.wanted(kind), kind) for kind in SOURCES])
    have = VectorStore(home).item_ids(embedding_version).select(_SET).unique()
    return wanted.join(have, on=_SET, how="anti").sort(
        "at", "item_kind", "item_id", descending=[True, False, False]
    )


def missing_requests(home: Home, embedding_version: str) -> list[JobRequest]:
    """Return the jobs that `missing_vectors` calls for, in its order."""
    return [
        JobRequest(ItemKind(kind), item_id, embedding_version, content_hash)
        for kind, item_id, content_hash in missing_vectors(home, embedding_version).select(_SET).iter_rows()
    ]


def enqueue_missing(
    home: Home, outbox: VectorOutbox, embedding_version: str, *, is_worker: bool = False
) -> int:
    """Enqueue what has no vectors, or lost them; return how many jobs are new or begin again. Idempotent.

    Vector tables that cannot be read are moved aside first, by the version's worker (`is_worker`: that is the caller,
    who holds its lock) or, when there is none, here.
    """
    if is_worker:
        VectorStore(home).mend(embedding_version)
    else:
        with suppress(BusyError), version_lock(home, embedding_version):
            VectorStore(home).mend(embedding_version)
    requests = missing_requests(home, embedding_version)
    count = sum(outbox.enqueue_batch(requests, lost=True)) if requests else 0
    outbox.note_compared(embedding_version)
    return count


def orphaned_vectors(home: Home, embedding_version: str) -> pl.DataFrame:
    """Return item_kind and item_id of vector sets of the version whose item is not there, or has no text any more.

    Nothing of a kind is an orphan while its table is not there at all: then it is about to be made again.
    """
    # vectors first: whatever has one by now had its item before
    sets = VectorStore(home).item_ids(embedding_version).select("item_kind", "item_id").unique()
    items = Items(home)
    found = [sets.clear()]
    for kind in SOURCES:
        if items.is_there(kind):
            own = sets.filter(pl.col("item_kind") == kind.value)
            found.append(own.join(items.wanted(kind).select("item_id"), on="item_id", how="anti"))
    return pl.concat(found)


def _of_kind(rows: pl.DataFrame, kind: ItemKind) -> pl.DataFrame:
    return rows.select(pl.lit(kind.value).alias("item_kind"), "item_id", "content_hash", "at")
