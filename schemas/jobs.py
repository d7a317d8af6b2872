"""Jobs of the vector outbox: states and the moves between them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from headwater.schemas.errors import TransitionError
from headwater.schemas.events import ItemKind


class JobStatus(StrEnum):
    """State of a job."""

    PENDING = "pending"
    PROCESSING = "processing"
    DONE = "done"
    FAILED = "failed"


ALLOWED: frozenset[tuple[JobStatus, JobStatus]] = frozenset(
    {
        (JobStatus.PENDING, JobStatus.PROCESSING),  # claimed
        (JobStatus.PROCESSING, JobStatus.DONE),
        (JobStatus.PROCESSING, JobStatus.FAILED),
        (JobStatus.PROCESSING, JobStatus.PENDING),  # the lease ran out; counted as a try
        (JobStatus.FAILED, JobStatus.PENDING),  # tried again while retry_count is below the limit
        (JobStatus.DONE, JobStatus.PENDING),  # the content changed
    }
)


@dataclass(frozen=True, slots=True)
class Job:
    """One row of the outbox: times are aware UTC, `lease_until` is None unless processing.

    `updated_at` is when the job came into its state: of a processing one, when it was claimed.
    """

    job_id: str
    item_kind: ItemKind
    item_id: str
    embedding_version: str
    content_hash: str
    status: JobStatus
    retry_count: int
    next_attempt_at: datetime
    lease_owner: str | None
    lease_until: datetime | None
    error: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class JobRequest:
    """An item that wants a vector: what `enqueue` takes."""

    item_kind: ItemKind
    item_id: str
    embedding_version: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class JobCounts:
    """How many jobs stand in each state."""

    pending: int = 0
    processing: int = 0
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """How the outbox does, of one version or of all. None: there is nothing yet that it could be told from.

    `oldest_pending_s`: for how long the oldest pending job has been pending; `mean_processing_s`: from claim to done,
    over all jobs since the file was made (jobs claimed together share their time); `last_processed_at`: when a job last
    ended done or failed.
    """

    counts: JobCounts
    oldest_pending_s: float | None
    mean_processing_s: float | None
    last_processed_at: datetime | None


class ProcessResult(TypedDict):
    """What working off jobs did; `errors` rows are {"job_id", "error"}, the first EMBED_ERRORS_KEPT of them."""

    processed: int
    succeeded: int
    failed: int
    errors: list[dict[str, str]]


def check_transition(job_id: str, old: JobStatus, new: JobStatus) -> None:
    """Raise TransitionError unless the move is one of `ALLOWED`."""
    if (old, new) not in ALLOWED:
        raise TransitionError(
            f"vector job {job_id}",
            f"wanted a move that is allowed, got {old} -> {new}",
            "run: headwater doctor",
        )
