"""Which items have no vector and no job for one: the truth about vectors is the anti-join, not the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headwater.flows.event_writer import EMBEDDED_KINDS
from headwater.schemas.columns import EVENTS
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorStore

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.storage.outbox import Outbox


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


def enqueue_missing(home: Home, outbox: Outbox, embedding_version: str) -> int:
    """Enqueue what has no vectors; return how many jobs are new. Idempotent."""
    rows = missing_vectors(home, embedding_version)
    requests = [
        JobRequest(ItemKind.ENTRY, item_id, embedding_version, content_hash)
        for item_id, content_hash in rows.select("item_id", "content_hash").iter_rows()
    ]
    return sum(outbox.enqueue_batch(requests)) if requests else 0
