"""Rows of the vector outbox inside a transaction: the table, its moves, and a row as a `Job`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock as clock_module
from headwater.schemas import ids, limits
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import Job, JobRequest, JobStatus, check_transition

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# vector_compared: versions whose items and vectors were compared since the file was made, and whether its worker is
# asked to delete orphans; vector_work: what is left of jobs once their rows are cleaned up, the sums behind metrics
SCHEMA = """
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
CREATE TABLE IF NOT EXISTS vector_compared (
    embedding_version TEXT PRIMARY KEY,
    is_asked INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS vector_work (
    embedding_version TEXT PRIMARY KEY,
    jobs_done INTEGER NOT NULL,
    processing_us INTEGER NOT NULL,
    last_processed_at_us INTEGER NOT NULL
);
"""
COLUMNS = (
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
_STATE = "SELECT job_id, status, retry_count, error, embedding_version, updated_at_us, lease_owner FROM vector_outbox"
_NOTE = """
INSERT INTO vector_work VALUES (?, ?, ?, ?)
ON CONFLICT (embedding_version) DO UPDATE SET
    jobs_done = jobs_done + excluded.jobs_done,
    processing_us = processing_us + excluded.processing_us,
    last_processed_at_us = max(last_processed_at_us, excluded.last_processed_at_us)
"""
EXPIRED = "lease expired: the worker died or hung"
ABANDONED = "the worker died"


@dataclass(frozen=True, slots=True)
class State:
    """What decides about a job's next move. `since_us`: when it came into this state."""

    job_id: str
    status: JobStatus
    retry_count: int
    error: str | None
    version: str = ""
    since_us: int = 0
    owner: str | None = None


def states(connection: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[State]:
    """Return the states of the jobs that a condition lets through."""
    rows = connection.execute(f"{_STATE} WHERE {where}", values)
    return [State(row[0], JobStatus(row[1]), *row[2:]) for row in rows]


def held(connection: sqlite3.Connection, owner: str, job_id: str) -> list[State]:
    """Return the state of a job when that owner holds it, else nothing."""
    return states(connection, "job_id = ? AND lease_owner = ?", (job_id, owner))


def move(
    connection: sqlite3.Connection,
    job: State,
    status: JobStatus,
    now_us: int,
    *,
    lease: tuple[str | None, int | None] = (None, None),
    wait_s: float = 0.0,
) -> None:
    """Give a job a new status: the only place that does. The state's other fields are written as they are given."""
    check_transition(job.job_id, job.status, status)
    if status is JobStatus.FAILED and job.retry_count < limits.RETRIES_MAX:
        wait_s = limits.BACKOFF_S[job.retry_count]
    next_us = now_us + int(wait_s * 1_000_000)
    values = (status.value, job.retry_count, next_us, *lease, job.error, now_us, job.job_id)
    connection.execute(_MOVE, values)


def due(
    connection: sqlite3.Connection, embedding_version: str, limit: int, now_us: int, *, newest_first: bool
) -> list[Job]:
    """Return the pending jobs to claim next, oldest or newest first.

    One whose worker died comes alone: when it is what kills workers, no other job is lost with it. Such jobs are left
    out of a claim of several.
    """
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM vector_outbox WHERE embedding_version = ? AND status = 'pending'"
        f" AND next_attempt_at_us <= ? ORDER BY created_at_us {'DESC' if newest_first else 'ASC'}, rowid LIMIT ?",
        (embedding_version, now_us, max(limit, 0)),
    ).fetchall()
    jobs = [to_job(row) for row in rows]
    return jobs[:1] if jobs and _is_suspect(jobs[0]) else [job for job in jobs if not _is_suspect(job)]


def _is_suspect(job: Job) -> bool:
    return job.retry_count > 0 and job.error in (EXPIRED, ABANDONED)


def enqueue(
    connection: sqlite3.Connection, requests: Sequence[JobRequest], now_us: int, *, lost: bool
) -> list[bool]:
    """Make jobs, or set those back to pending whose content changed, or (with `lost`) that were done.

    Return for each request whether it did. Most of a batch are new jobs, which are one statement.
    """
    keys = [ids.job_id(one.item_kind, one.item_id, one.embedding_version) for one in requests]
    known = _known(connection, keys)
    new: dict[str, int] = {}
    for n, job_id in enumerate(keys):
        if job_id not in known:
            new.setdefault(job_id, n)
    connection.executemany(
        _INSERT, [(job_id, *_item(requests[n]), now_us, now_us, now_us) for job_id, n in new.items()]
    )
    return [
        new.get(job_id) == n or _ask_again(connection, job_id, request, now_us, lost=lost)
        for n, (job_id, request) in enumerate(zip(keys, requests, strict=True))
    ]


def _item(request: JobRequest) -> tuple[str, str, str, str]:
    return request.item_kind.value, request.item_id, request.embedding_version, request.content_hash


def _known(connection: sqlite3.Connection, job_ids: Sequence[str]) -> set[str]:
    """Return those of the ids that have a job."""
    found: set[str] = set()
    for start in range(0, len(job_ids), limits.IDS_PER_FILTER):
        part = job_ids[start : start + limits.IDS_PER_FILTER]
        marks = ",".join("?" * len(part))
        rows = connection.execute(f"SELECT job_id FROM vector_outbox WHERE job_id IN ({marks})", part)
        found.update(row[0] for row in rows)
    return found


def _ask_again(
    connection: sqlite3.Connection, job_id: str, request: JobRequest, now_us: int, *, lost: bool
) -> bool:
    """Set a job back to pending when the request calls for it; return whether it did."""
    old = _old(connection, job_id)
    if old is None or not _is_new(old, request, lost=lost):
        return False
    if old[0] != JobStatus.PENDING.value:
        move(connection, State(job_id, JobStatus(old[0]), 0, None), JobStatus.PENDING, now_us)
    connection.execute(
        "UPDATE vector_outbox SET content_hash = ?, retry_count = 0, error = NULL, next_attempt_at_us = ?,"
        " updated_at_us = ? WHERE job_id = ?",
        (request.content_hash, now_us, now_us, job_id),
    )
    return True


def would_enqueue(connection: sqlite3.Connection, request: JobRequest, *, lost: bool) -> bool:
    """Return what `enqueue` would, without doing it."""
    job_id = ids.job_id(request.item_kind, request.item_id, request.embedding_version)
    return _is_new(_old(connection, job_id), request, lost=lost)


def _old(connection: sqlite3.Connection, job_id: str) -> tuple[str, str] | None:
    """Return status and content hash of a job."""
    found: tuple[str, str] | None = connection.execute(
        "SELECT status, content_hash FROM vector_outbox WHERE job_id = ?", (job_id,)
    ).fetchone()
    return found


def _is_new(old: tuple[str, str] | None, request: JobRequest, *, lost: bool) -> bool:
    return old is None or old[1] != request.content_hash or (lost and old[0] == JobStatus.DONE.value)


def remove(connection: sqlite3.Connection, item_kind: ItemKind, item_id: str) -> int:
    """Remove the jobs of an item, and of the titles that an event holds; return how many."""
    where = "DELETE FROM vector_outbox WHERE item_kind = ? AND "
    count = connection.execute(f"{where} item_id = ?", (item_kind.value, item_id)).rowcount
    if item_kind is ItemKind.ENTRY:
        first = ids.task_title_id(item_id, 0)[:-1]
        of_event = (ItemKind.TASK_TITLE.value, first, first + ":")  # the sign after the digits
        count += connection.execute(f"{where} item_id >= ? AND item_id < ?", of_event).rowcount
    return count


def recover(connection: sqlite3.Connection, now_us: int) -> int:
    """Take back jobs whose lease has run out; return how many."""
    expired = states(connection, "status = 'processing' AND lease_until_us <= ?", (now_us,))
    return take_back(connection, expired, now_us, EXPIRED)


def take_back(connection: sqlite3.Connection, jobs: list[State], now_us: int, why: str) -> int:
    """Count a try of leased jobs whose worker died: pending again, or failed; return how many.

    Only a job that its worker held alone fails, once its tries are used up: of several, nobody knows which one it was,
    and each will come alone the next time (see `due`).
    """
    together = Counter(job.owner for job in jobs)
    for job in jobs:
        if job.retry_count < limits.RETRIES_MAX:
            tried = replace(job, retry_count=job.retry_count + 1, error=why)
            move(connection, tried, JobStatus.PENDING, now_us)
        else:
            status = JobStatus.FAILED if together[job.owner] == 1 else JobStatus.PENDING
            move(connection, replace(job, error=why), status, now_us)
    return len(jobs)


def give_back(connection: sqlite3.Connection, job: State, now_us: int, wait_s: float, why: str) -> None:
    """Make a leased job pending again without counting a try; one whose worker died before stays a suspect."""
    error = job.error if job.error in (EXPIRED, ABANDONED) else why
    move(connection, replace(job, error=error), JobStatus.PENDING, now_us, wait_s=wait_s)


def retry(
    connection: sqlite3.Connection,
    where: str,
    values: tuple[Any, ...],
    now_us: int,
    retries_max: int = limits.RETRIES_MAX,
) -> int:
    """Move failed jobs to pending again that have new tries left; return how many."""
    failed = states(connection, f"{where} AND retry_count < ?", (*values, retries_max))
    for job in failed:
        move(connection, replace(job, retry_count=job.retry_count + 1), JobStatus.PENDING, now_us)
    return len(failed)


def note_done(connection: sqlite3.Connection, jobs: Sequence[State], now_us: int) -> None:
    """Add claimed jobs, which are done now, to the sums of their versions."""
    for job in jobs:
        connection.execute(_NOTE, (job.version, 1, max(0, now_us - job.since_us), now_us))


def note_failed(connection: sqlite3.Connection, job: State, now_us: int) -> None:
    """Note that a job of that version ended failed now."""
    connection.execute(_NOTE, (job.version, 0, 0, now_us))


def to_time(at_us: int) -> datetime:
    """Return the aware UTC time of so many microseconds since the epoch."""
    return clock_module.from_ns(at_us * clock_module.NS_PER_US)


def to_job(row: tuple[Any, ...]) -> Job:
    """Return a row of `COLUMNS` as a job."""
    return Job(
        job_id=row[0],
        item_kind=ItemKind(row[1]),
        item_id=row[2],
        embedding_version=row[3],
        content_hash=row[4],
        status=JobStatus(row[5]),
        retry_count=row[6],
        next_attempt_at=to_time(row[7]),
        lease_owner=row[8],
        lease_until=None if row[9] is None else to_time(row[9]),
        error=row[10],
        created_at=to_time(row[11]),
        updated_at=to_time(row[12]),
    )
