"""Which items have no vector and no job for one: the truth about vectors is the anti-join, not the outbox."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl

from headwater.flows.event_writer import EMBEDDED_KINDS
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorStore
from headwater.storage.worker_lock import version_lock

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.storage.outbox import VectorOutbox


def missing_vectors(home: Home, embedding_version: str) -> pl.DataFrame:
    """Return item_id and content_hash of entries whose text has no vector set of the version, or an outdated one."""
    kinds = ", ".join(f"'{kind.value}'" for kind in EMBEDDED_KINDS)
    wanted = (
        LanceStore(home.lance)
        .open(EVENTS, create=False)
        .scan(["id", "content_hash"], f"kind IN ({kinds}) AND regexp_like(content, '\\S')")
    )
    have = VectorStore(home).item_ids(embedding_version).filter(pl.col("item_kind") == ItemKind.ENTRY.value)
    return wanted.rename({"id": "item_id"}).join(
        have.select("item_id", "content_hash").unique(), on=["item_id", "content_hash"], how="anti"
    )


def missing_requests(home: Home, embedding_version: str) -> list[JobRequest]:
    """Return the jobs that `missing_vectors` calls for."""
    rows = missing_vectors(home, embedding_version).select("item_id", "content_hash")
    return [
        JobRequest(ItemKind.ENTRY, item_id, embedding_version, content_hash)
        for item_id, content_hash in rows.iter_rows()
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
    outbox.note_compared()
    return count


def orphaned_vectors(home: Home, embedding_version: str) -> pl.DataFrame:
    """Return item_kind and item_id of vector sets of the version whose item is not there; of entries, so far.

    Nothing is an orphan while there is no table of events at all: then it is about to be made again.
    """
    # vectors first: whatever has one by now had its item before
    have = VectorStore(home).item_ids(embedding_version).filter(pl.col("item_kind") == ItemKind.ENTRY.value)
    events = LanceStore(home.lance).open(EVENTS, create=False)
    sets = have.select("item_kind", "item_id").unique()
    if not events.version:
        return sets.clear()
    return sets.join(events.scan(["id"]), left_on="item_id", right_on="id", how="anti")
