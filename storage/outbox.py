"""The vector outbox: which items want a vector, and how far each one is.

Disposable: items and vectors tell the truth.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.jobs import Job, JobCounts, JobMetrics, JobRequest, JobStatus
from headwater.storage import outbox_rows as rows_module
from headwater.storage.outbox_rows import COLUMNS, State, to_job, to_time
from headwater.storage.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headwater.schemas.clock import Clock
    from headwater.schemas.events import ItemKind


class VectorOutbox:
    """Jobs in one SQLite file. Every method is one transaction, durable on return; idempotent where it says so."""

    def __init__(self, path: Path, clock: Clock = clock_module.SYSTEM, *, mends: bool = True) -> None:
        """Open (and make) the file at its first use. One that only looks (`mends` false) leaves a damaged one there."""
        self._db = Database(path, rows_module.SCHEMA, disposable=mends)
        self._clock = clock

    # --- asking for vectors ---

    def enqueue(self, request: JobRequest) -> bool:
        """Ask for the vectors of one item; see `enqueue_batch`."""
        return self.enqueue_batch([request])[0]

    def enqueue_batch(self, requests: Sequence[JobRequest], *, lost: bool = False) -> list[bool]:
        """Ask for vectors. True for each job that is new, or set back to pending because its content changed.

        With `lost`, a job that was done is set back as well: its vectors are not there any more. Idempotent otherwise:
        the same request again gives False and changes nothing. A job that is being worked on is set back
        as well, and then no longer belongs to its worker, whose `mark_done` changes nothing.
        """
        now_us = self._now_us()
        with self._db.transaction() as connection:
            return rows_module.enqueue(connection, requests, now_us, lost=lost)

    def remove(self, item_kind: ItemKind, item_ids: Sequence[str]) -> int:
        """Remove the jobs of items that are gone, of all versions, claimed or not; return how many. Idempotent.

        With an event go the titles of tasks in it. For the items' vectors see `VectorStore.delete_items`; a worker that
        holds such a job deletes what it wrote.
        """
        with self._db.transaction() as connection:
            return sum(rows_module.remove(connection, item_kind, item_id) for item_id in item_ids)

    def drop_version(self, embedding_version: str) -> int:
        """Remove all jobs of a version, and what is known of its work; return how many jobs. Idempotent."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM vector_work WHERE embedding_version = ?", (embedding_version,))
            connection.execute(
                "DELETE FROM vector_compared WHERE embedding_version = ?", (embedding_version,)
            )
            dropped = connection.execute(
                "DELETE FROM vector_outbox WHERE embedding_version = ?", (embedding_version,)
            )
            return dropped.rowcount

    # --- working ---

    def claim_jobs(
        self, owner: str, limit: int, embedding_version: str, *, newest_first: bool = False
    ) -> list[Job]:
        """Lease up to `limit` due jobs of a version to `owner`, oldest first.

        With `newest_first` those asked for last come first; of those asked for together, the first still does.

        Before, expired leases are taken back, and failed jobs of the version whose wait is over are pending again. A
        job whose worker died comes alone, so that one that kills its worker takes no other with it.
        """
        now_us = self._now_us()
        lease_until_us = now_us + int(limits.LEASE_S * 1_000_000)
        with self._db.transaction() as connection:
            rows_module.recover(connection, now_us)
            waited = "embedding_version = ? AND status = 'failed' AND next_attempt_at_us <= ?"
            rows_module.retry(connection, waited, (embedding_version, now_us), now_us)
            jobs = rows_module.due(connection, embedding_version, limit, now_us, newest_first=newest_first)
            for job in jobs:
                state = State(job.job_id, job.status, job.retry_count, job.error)
                rows_module.move(
                    connection, state, JobStatus.PROCESSING, now_us, lease=(owner, lease_until_us)
                )
        return [
            replace(
                job,
                status=JobStatus.PROCESSING,
                next_attempt_at=to_time(now_us),
                lease_owner=owner,
                lease_until=to_time(lease_until_us),
                updated_at=to_time(now_us),
            )
            for job in jobs
        ]

    def renew(self, owner: str, job_ids: Sequence[str]) -> int:
        """Prolong the leases that `owner` still holds; return how many those are."""
        lease_until_us = self._now_us() + int(limits.LEASE_S * 1_000_000)
        with self._db.transaction() as connection:
            return sum(
                connection.execute(
                    "UPDATE vector_outbox SET lease_until_us = ? WHERE job_id = ? AND lease_owner = ?",
                    (lease_until_us, job_id, owner),
                ).rowcount
                for job_id in job_ids
            )

    def mark_done(self, owner: str, job_ids: Sequence[str]) -> int:
        """Mark jobs done that `owner` still holds; return how many. A lost lease is not ours to finish."""
        now_us = self._now_us()
        with self._db.transaction() as connection:
            held = [
                state
                for job_id in dict.fromkeys(job_ids)
                for state in rows_module.held(connection, owner, job_id)
            ]
            for state in held:
                rows_module.move(connection, replace(state, error=None), JobStatus.DONE, now_us)
            rows_module.note_done(connection, held, now_us)
            return len(held)

    def mark_failed(self, owner: str, job_id: str, error: str) -> int:
        """Mark a job failed that `owner` still holds; return how many (0 or 1).

        It is pending again, with one more in `retry_count`, after its wait; after RETRIES_MAX of these it stays failed.
        """
        now_us = self._now_us()
        with self._db.transaction() as connection:
            held = rows_module.held(connection, owner, job_id)
            for state in held:
                rows_module.move(connection, replace(state, error=error), JobStatus.FAILED, now_us)
                rows_module.note_failed(connection, state, now_us)
            return len(held)

    def release(self, owner: str, embedding_version: str, wait_s: float, why: str) -> int:
        """Give back all jobs of a version that `owner` holds: pending again after `wait_s`, uncounted; return how many.

        For what is no fault of theirs: the model or a store is broken. `why` is shown as their error meanwhile.
        """
        now_us = self._now_us()
        with self._db.transaction() as connection:
            held = rows_module.states(
                connection, "lease_owner = ? AND embedding_version = ?", (owner, embedding_version)
            )
            for state in held:
                rows_module.give_back(connection, state, now_us, wait_s, why)
            return len(held)

    # --- putting right ---

    def recover_stuck(self) -> int:
        """Take back jobs whose lease has run out, counted as a try; return how many."""
        with self._db.transaction() as connection:
            return rows_module.recover(connection, self._now_us())

    def recover_abandoned(self, embedding_version: str) -> int:
        """Take back all leased jobs of a version, each counted as a try; return how many.

        Only for whoever holds the version's worker lock: the owners of these leases are dead then.
        """
        with self._db.transaction() as connection:
            left = rows_module.states(
                connection, "status = 'processing' AND embedding_version = ?", (embedding_version,)
            )
            return rows_module.take_back(connection, left, self._now_us(), rows_module.ABANDONED)

    def reconcile_failed(
        self, retries_max: int = limits.RETRIES_MAX, embedding_version: str | None = None
    ) -> int:
        """Make failed jobs of one version or of all pending at once, without their wait; return how many.

        Those with `retries_max` new tries or more stay failed.
        """
        where, values = _of_version(embedding_version)
        with self._db.transaction() as connection:
            return rows_module.retry(
                connection, f"status = 'failed' AND {where}", values, self._now_us(), retries_max
            )

    def cleanup_done(self, older_than_s: float = limits.JOBS_DONE_KEPT_S, limit: int | None = None) -> int:
        """Remove jobs that have been done for so long, the oldest first, at most `limit`; return how many. Idempotent.

        Their vectors stay, and show that nothing is missing.
        """
        before_us = self._now_us() - int(older_than_s * 1_000_000)
        with self._db.transaction() as connection:
            return connection.execute(
                "DELETE FROM vector_outbox WHERE rowid IN (SELECT rowid FROM vector_outbox"
                " WHERE status = 'done' AND updated_at_us < ? ORDER BY updated_at_us LIMIT ?)",
                (before_us, -1 if limit is None else limit),
            ).rowcount

    # --- looking ---

    def counts(self, embedding_version: str | None = None) -> JobCounts:
        """Return how many jobs stand in each state, of one version or of all."""
        where, values = _of_version(embedding_version)
        with self._db.reading() as connection:
            rows = connection.execute(
                f"SELECT status, count(*) FROM vector_outbox WHERE {where} GROUP BY status", values
            ).fetchall()
        return JobCounts(**dict(rows))

    def metrics(self, embedding_version: str | None = None) -> JobMetrics:
        """Return counts, ages and times, of one version or of all."""
        where, values = _of_version(embedding_version)
        with self._db.reading() as connection:
            oldest_us = connection.execute(
                f"SELECT min(updated_at_us) FROM vector_outbox WHERE status = 'pending' AND {where}", values
            ).fetchone()[0]
            jobs, processing_us, last_us = connection.execute(
                f"SELECT sum(jobs_done), sum(processing_us), max(last_processed_at_us) FROM vector_work WHERE {where}",
                values,
            ).fetchone()
        return JobMetrics(
            counts=self.counts(embedding_version),
            oldest_pending_s=None if oldest_us is None else max(0, self._now_us() - oldest_us) / 1_000_000,
            mean_processing_s=processing_us / jobs / 1_000_000 if jobs else None,
            last_processed_at=None if last_us is None else to_time(last_us),
        )

    def count_stuck(self) -> int:
        """Return how many jobs `recover_stuck` would take back."""
        return self._count("status = 'processing' AND lease_until_us <= ?", (self._now_us(),))

    def count_retryable(self, retries_max: int = limits.RETRIES_MAX) -> int:
        """Return how many jobs `reconcile_failed` would make pending."""
        return self._count("status = 'failed' AND retry_count < ?", (retries_max,))

    def count_new(self, requests: Sequence[JobRequest], *, lost: bool = False) -> int:
        """Return for how many of the requests `enqueue_batch` would say True, each taken alone."""
        with self._db.reading() as connection:
            return sum(rows_module.would_enqueue(connection, request, lost=lost) for request in requests)

    def pending_jobs(self, limit: int = 100) -> list[Job]:
        """Return pending jobs, oldest first, due or not."""
        return self._jobs("status = 'pending' ORDER BY created_at_us, rowid LIMIT ?", (limit,))

    def failed_jobs(self, limit: int = 100, embedding_version: str | None = None) -> list[Job]:
        """Return failed jobs with their errors, the latest first, of one version or of all."""
        where, values = _of_version(embedding_version)
        return self._jobs(
            f"status = 'failed' AND {where} ORDER BY updated_at_us DESC, rowid DESC LIMIT ?", (*values, limit)
        )

    def get_job(self, job_id: str) -> Job | None:
        """Return one job, None when there is none of that id."""
        return next(iter(self._jobs("job_id = ?", (job_id,))), None)

    def versions(self) -> list[str]:
        """Return the embedding versions that have jobs, sorted."""
        with self._db.reading() as connection:
            rows = connection.execute("SELECT DISTINCT embedding_version FROM vector_outbox ORDER BY 1")
            return [row[0] for row in rows]

    def next_due(self, embedding_version: str) -> datetime | None:
        """Return when the next job of a version can be claimed.

        That is a pending one, one whose lease runs out, or a failed one that is tried again. None when there is none.
        """
        with self._db.reading() as connection:
            row = connection.execute(
                "SELECT min(CASE status WHEN 'processing' THEN lease_until_us ELSE next_attempt_at_us END)"
                " FROM vector_outbox WHERE embedding_version = ?"
                " AND (status IN ('pending', 'processing') OR (status = 'failed' AND retry_count < ?))",
                (embedding_version, limits.RETRIES_MAX),
            ).fetchone()
        return None if row[0] is None else to_time(row[0])

    # --- comparing with the tables ---

    def was_compared(self, embedding_version: str) -> bool:
        """Return whether a version was compared with the items since this file was made: see `note_compared`."""
        return self._mark(embedding_version) is not None

    def is_asked_to_reconcile(self, embedding_version: str) -> bool:
        """Return whether the version's worker was asked to delete vectors without items: see `ask_to_reconcile`."""
        return bool(self._mark(embedding_version))

    def note_compared(self, embedding_version: str, *, both_ways: bool = False) -> None:
        """Note that every item without a vector has a job here. A file that was lost and made anew does not know.

        `both_ways`: vectors without items were deleted as well; nothing else takes back what `ask_to_reconcile` asked.
        """
        insert = "REPLACE" if both_ways else "IGNORE"
        with self._db.transaction() as connection:
            connection.execute(f"INSERT OR {insert} INTO vector_compared VALUES (?, 0)", (embedding_version,))

    def ask_to_reconcile(self, embedding_version: str | None = None) -> None:
        """Ask a version's worker, who alone writes its vectors, to delete those without items. Idempotent.

        None: the workers of all versions that were ever compared or have jobs, each when it next works.
        """
        known = (
            "SELECT embedding_version FROM vector_compared UNION SELECT embedding_version FROM vector_outbox"
        )
        with self._db.transaction() as connection:
            if embedding_version is None:
                connection.execute(
                    f"INSERT OR REPLACE INTO vector_compared SELECT embedding_version, 1 FROM ({known})"
                )
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO vector_compared VALUES (?, 1)", (embedding_version,)
                )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # --- inside ---

    def _mark(self, embedding_version: str) -> int | None:
        with self._db.reading() as connection:
            row = connection.execute(
                "SELECT is_asked FROM vector_compared WHERE embedding_version = ?", (embedding_version,)
            ).fetchone()
        return None if row is None else int(row[0])

    def _count(self, where: str, values: tuple[object, ...]) -> int:
        with self._db.reading() as connection:
            found = connection.execute(f"SELECT count(*) FROM vector_outbox WHERE {where}", values)
            return int(found.fetchone()[0])

    def _jobs(self, where: str, values: tuple[object, ...]) -> list[Job]:
        with self._db.reading() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM vector_outbox WHERE {where}", values).fetchall()
        return [to_job(row) for row in rows]

    def _now_us(self) -> int:
        return clock_module.to_us(self._clock.now())


def _of_version(embedding_version: str | None) -> tuple[str, tuple[str, ...]]:
    return ("TRUE", ()) if embedding_version is None else ("embedding_version = ?", (embedding_version,))
