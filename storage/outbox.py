"""The vector outbox: which items want a vector, and how far each one is.

Disposable: items and vectors tell the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock as clock_module
from headwater.schemas import ids, limits
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import Job, JobCounts, JobRequest, JobStatus, check_transition
from headwater.storage.sqlite import Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from headwater.schemas.clock import Clock

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector_outbox (
    job_id TEXT PRIMARY KEY,
    item_kind TEXT NOT NULL,
    item_id TEXT NOT NULL,
    embedding_version TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    retry_count INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_us INTEGER NOT NULL,
    lease_owner TEXT,
    lease_until_us INTEGER,
    error TEXT,
    created_at_us INTEGER NOT NULL,
    updated_at_us INTEGER NOT NULL,
    UNIQUE (item_kind, item_id, embedding_version)
);
CREATE INDEX IF NOT EXISTS outbox_counts ON vector_outbox (embedding_version, status);
CREATE INDEX IF NOT EXISTS outbox_pending ON vector_outbox (embedding_version, created_at_us) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS outbox_leased ON vector_outbox (lease_until_us) WHERE status = 'processing';
CREATE INDEX IF NOT EXISTS outbox_failed ON vector_outbox (embedding_version, next_attempt_at_us)
    WHERE status = 'failed';
"""
_COLUMNS = (
    "job_id, item_kind, item_id, embedding_version, content_hash, status, retry_count, next_attempt_at_us,"
    " lease_owner, lease_until_us, error, created_at_us, updated_at_us"
)
_INSERT = """
INSERT INTO vector_outbox (job_id, item_kind, item_id, embedding_version, content_hash, next_attempt_at_us,
                           created_at_us, updated_at_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_MOVE = """
UPDATE vector_outbox SET status = ?, retry_count = ?, next_attempt_at_us = ?, lease_owner = ?, lease_until_us = ?,
                         error = ?, updated_at_us = ?
WHERE job_id = ?
"""
_STATE = "SELECT job_id, status, retry_count, error FROM vector_outbox"
_EXPIRED = "lease expired: the worker died or hung"
_ABANDONED = "the worker died"


class Outbox:
    """Jobs in one SQLite file. Every method is one transaction, durable on return; idempotent where it says so."""

    def __init__(self, path: Path, clock: Clock = clock_module.SYSTEM) -> None:
        """Open (and make) the file at its first use."""
        self._db = Database(path, _SCHEMA)
        self._clock = clock

    def enqueue_batch(self, requests: Sequence[JobRequest]) -> list[bool]:
        """Ask for vectors. True for each job that is new, or set back to pending because its content changed.

        Idempotent: the same request again gives False and changes nothing. A job that is being worked on is set back
        as well, and then no longer belongs to its worker, whose `mark_done` changes nothing.
        """
        now_us = self._now_us()
        with self._db.transaction() as connection:
            return [_enqueue(connection, request, now_us) for request in requests]

    def claim(self, owner: str, limit: int, embedding_version: str) -> list[Job]:
        """Lease up to `limit` due jobs of a version to `owner`, oldest first.

        Before, expired leases are taken back, and failed jobs of the version whose wait is over are pending again.
        """
        now_us = self._now_us()
        lease_until_us = now_us + int(limits.LEASE_S * 1_000_000)
        with self._db.transaction() as connection:
            _recover(connection, now_us)
            due = "embedding_version = ? AND status = 'failed' AND next_attempt_at_us <= ?"
            _retry(connection, due, (embedding_version, now_us), now_us)
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM vector_outbox WHERE embedding_version = ? AND status = 'pending'"
                " AND next_attempt_at_us <= ? ORDER BY created_at_us, rowid LIMIT ?",
                (embedding_version, now_us, max(limit, 0)),
            ).fetchall()
            jobs = [_job(row) for row in rows]
            for job in jobs:
                state = _State(job.job_id, job.status, job.retry_count, job.error)
                _move(connection, state, JobStatus.PROCESSING, now_us, lease=(owner, lease_until_us))
        return [
            replace(
                job,
                status=JobStatus.PROCESSING,
                next_attempt_at=_time(now_us),
                lease_owner=owner,
                lease_until=_time(lease_until_us),
                updated_at=_time(now_us),
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
            held = [state for job_id in dict.fromkeys(job_ids) for state in _held(connection, owner, job_id)]
            for state in held:
                _move(connection, replace(state, error=None), JobStatus.DONE, now_us)
            return len(held)

    def mark_failed(self, owner: str, job_id: str, error: str) -> int:
        """Mark a job failed that `owner` still holds; return how many (0 or 1).

        It is pending again, with one more in `retry_count`, after its wait; after RETRIES_MAX of these it stays failed.
        """
        now_us = self._now_us()
        with self._db.transaction() as connection:
            held = _held(connection, owner, job_id)
            for state in held:
                _move(connection, replace(state, error=error), JobStatus.FAILED, now_us)
            return len(held)

    def recover_expired(self) -> int:
        """Take back jobs whose lease has run out, counted as a try; return how many."""
        with self._db.transaction() as connection:
            return _recover(connection, self._now_us())

    def recover_abandoned(self, embedding_version: str) -> int:
        """Take back all leased jobs of a version, each counted as a try; return how many.

        Only for whoever holds the version's worker lock: the owners of these leases are dead then.
        """
        with self._db.transaction() as connection:
            left = _states(
                connection, "status = 'processing' AND embedding_version = ?", (embedding_version,)
            )
            return _take_back(connection, left, self._now_us(), _ABANDONED)

    def reconcile_failed(self, retries_max: int = limits.RETRIES_MAX) -> int:
        """Make failed jobs of all versions pending at once, without their wait; return how many.

        Those with `retries_max` new tries or more stay failed.
        """
        with self._db.transaction() as connection:
            return _retry(connection, "status = 'failed'", (), self._now_us(), retries_max)

    def counts(self, embedding_version: str | None = None) -> JobCounts:
        """Return how many jobs stand in each state, of one version or of all."""
        where, values = (
            ("WHERE embedding_version = ?", (embedding_version,)) if embedding_version else ("", ())
        )
        with self._db.reading() as connection:
            rows = connection.execute(
                f"SELECT status, count(*) FROM vector_outbox {where} GROUP BY status", values
            ).fetchall()
        return JobCounts(**dict(rows))

    def pending(self, limit: int = 100) -> list[Job]:
        """Return pending jobs, oldest first, due or not."""
        with self._db.reading() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM vector_outbox WHERE status = 'pending' ORDER BY created_at_us, rowid LIMIT ?",
                (limit,),
            ).fetchall()
        return [_job(row) for row in rows]

    def get(self, job_id: str) -> Job | None:
        """Return one job, None when there is none of that id."""
        with self._db.reading() as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM vector_outbox WHERE job_id = ?", (job_id,)
            ).fetchone()
        return None if row is None else _job(row)

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
        return None if row[0] is None else _time(row[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _now_us(self) -> int:
        return clock_module.to_us(self._clock.now())


@dataclass(frozen=True, slots=True)
class _State:
    job_id: str
    status: JobStatus
    retry_count: int
    error: str | None


def _states(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[_State]:
    rows = connection.execute(f"{_STATE} WHERE {where}", values)
    return [_State(row[0], JobStatus(row[1]), row[2], row[3]) for row in rows]


def _held(connection: sqlite3.Connection, owner: str, job_id: str) -> list[_State]:
    return _states(connection, "job_id = ? AND lease_owner = ?", (job_id, owner))


def _move(
    connection: sqlite3.Connection,
    job: _State,
    status: JobStatus,
    now_us: int,
    lease: tuple[str | None, int | None] = (None, None),
) -> None:
    """Give a job a new status: the only place that does. The state's other fields are written as they are given."""
    check_transition(job.job_id, job.status, status)
    wait_s = 0.0
    if status is JobStatus.FAILED and job.retry_count < limits.RETRIES_MAX:
        wait_s = limits.BACKOFF_S[job.retry_count]
    next_us = now_us + int(wait_s * 1_000_000)
    values = (status.value, job.retry_count, next_us, *lease, job.error, now_us, job.job_id)
    connection.execute(_MOVE, values)


def _enqueue(connection: sqlite3.Connection, request: JobRequest, now_us: int) -> bool:
    job_id = ids.job_id(request.item_kind, request.item_id, request.embedding_version)
    old = connection.execute(
        "SELECT status, content_hash FROM vector_outbox WHERE job_id = ?", (job_id,)
    ).fetchone()
    if old is None:
        item = (request.item_kind.value, request.item_id, request.embedding_version, request.content_hash)
        connection.execute(_INSERT, (job_id, *item, now_us, now_us, now_us))
        return True
    if old[1] == request.content_hash:
        return False
    if old[0] != JobStatus.PENDING.value:
        _move(connection, _State(job_id, JobStatus(old[0]), 0, None), JobStatus.PENDING, now_us)
    connection.execute(
        "UPDATE vector_outbox SET content_hash = ?, retry_count = 0, error = NULL, next_attempt_at_us = ?,"
        " updated_at_us = ? WHERE job_id = ?",
        (request.content_hash, now_us, now_us, job_id),
    )
    return True


def _recover(connection: sqlite3.Connection, now_us: int) -> int:
    """Move jobs whose lease has run out to pending, or to failed when their tries are used up."""
    expired = _states(connection, "status = 'processing' AND lease_until_us <= ?", (now_us,))
    return _take_back(connection, expired, now_us, _EXPIRED)


def _take_back(connection: sqlite3.Connection, jobs: list[_State], now_us: int, why: str) -> int:
    """Count a try of leased jobs: pending again, or failed when their tries are used up; return how many."""
    for job in jobs:
        if job.retry_count < limits.RETRIES_MAX:
            tried = replace(job, retry_count=job.retry_count + 1, error=why)
            _move(connection, tried, JobStatus.PENDING, now_us)
        else:
            _move(connection, replace(job, error=why), JobStatus.FAILED, now_us)
    return len(jobs)


def _retry(
    connection: sqlite3.Connection,
    where: str,
    values: tuple[Any, ...],
    now_us: int,
    retries_max: int = limits.RETRIES_MAX,
) -> int:
    """Move failed jobs to pending again that have new tries left."""
    failed = _states(connection, f"{where} AND retry_count < ?", (*values, retries_max))
    for job in failed:
        _move(connection, replace(job, retry_count=job.retry_count + 1), JobStatus.PENDING, now_us)
    return len(failed)


def _time(at_us: int) -> datetime:
    return clock_module.from_ns(at_us * clock_module.NS_PER_US)


def _job(row: tuple[Any, ...]) -> Job:
    return Job(
        job_id=row[0],
        item_kind=ItemKind(row[1]),
        item_id=row[2],
        embedding_version=row[3],
        content_hash=row[4],
        status=JobStatus(row[5]),
        retry_count=row[6],
        next_attempt_at=_time(row[7]),
        lease_owner=row[8],
        lease_until=None if row[9] is None else _time(row[9]),
        error=row[10],
        created_at=_time(row[11]),
        updated_at=_time(row[12]),
    )
