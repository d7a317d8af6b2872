"""Putting items, jobs and vectors right with each other: what `vector reconcile` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.flows.missing import enqueue_missing, missing_requests, orphaned_vectors
from headwater.schemas import limits
from headwater.schemas.events import ItemKind
from headwater.storage.vectors import VectorStore
from headwater.storage.worker_lock import version_lock

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.worker_lock import WorkerLock


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What was put right, or with a dry run would be.

    `recovered`: jobs taken back from workers that are gone; `reset`: failed jobs that are pending again; `missing`:
    items that have no vectors; `enqueued`: those of them whose job is new or begins again; `orphans`: items that are
    gone and whose vectors were there; `deleted`: those of them whose vectors are gone now, the others are left to the
    running worker, which was asked to; `failed`: jobs that stay failed; `tries`: the `retries_max` that would try all
    of these again, 0 when there are none.
    """

    recovered: int
    reset: int
    missing: int
    enqueued: int
    orphans: int
    deleted: int
    failed: int
    tries: int
    dry_run: bool


def reconcile(
    home: Home,
    outbox: VectorOutbox,
    embedding_version: str,
    *,
    retries_max: int = limits.RETRIES_MAX,
    dry_run: bool = False,
    lock: WorkerLock | None = None,
) -> ReconcileReport:
    """Take back stuck jobs, reset failed ones, and compare items and vectors of a version both ways. Idempotent.

    Works beside a running worker: the vectors that are to go are then left to it. `lock`: the version's, for a caller
    who holds it and goes on holding it. Raises what the stores raise.
    """
    own = version_lock(home, embedding_version)
    is_worker = not dry_run and (lock is not None or own.acquire())
    try:
        missing = missing_requests(home, embedding_version)
        if dry_run:
            recovered, reset = outbox.count_stuck(), outbox.count_retryable(retries_max)
            enqueued = outbox.count_new(missing, lost=True)
        else:
            recovered = outbox.recover_stuck()
            recovered += outbox.recover_abandoned(embedding_version) if is_worker else 0
            reset = outbox.reconcile_failed(retries_max)
            enqueued = enqueue_missing(home, outbox, embedding_version, is_worker=is_worker)
        orphans = orphaned_vectors(home, embedding_version).height
        deleted = delete_orphans(home, outbox, embedding_version) if is_worker else 0
        if orphans and not dry_run and not is_worker:
            outbox.ask_to_reconcile(embedding_version)
    finally:
        own.release()
    left = [job.retry_count + 1 for job in outbox.failed_jobs(limit=-1) if job.retry_count >= retries_max]
    return ReconcileReport(
        recovered=recovered,
        reset=reset,
        missing=len(missing),
        enqueued=enqueued,
        orphans=orphans,
        deleted=deleted,
        failed=len(left),
        tries=max(left, default=0),
        dry_run=dry_run,
    )


def delete_orphans(home: Home, outbox: VectorOutbox, embedding_version: str) -> int:
    """Delete vectors whose item is gone, and the jobs for it; return of how many items. For the version's worker."""
    found = orphaned_vectors(home, embedding_version)
    store = VectorStore(home)
    for (kind,), rows in found.group_by("item_kind"):
        item_ids = rows.get_column("item_id").to_list()
        store.delete_items(str(kind), item_ids, embedding_version)
        outbox.remove(ItemKind(str(kind)), item_ids)
    outbox.note_compared(embedding_version, both_ways=True)
    return found.height
