"""The outbox against a model of it: the same calls in the same order leave both with the same jobs."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import job_id
from headwater.schemas.jobs import JobCounts, JobRequest
from headwater.storage.outbox import VectorOutbox

V = "v1"
ITEMS = st.sampled_from([f"e{n}" for n in range(5)])
OWNERS = st.sampled_from(["a", "b"])
DEATHS = ("the worker died", "lease expired: the worker died or hung")


@dataclass
class Expected:
    """One job as it should be; times in seconds of the clock."""

    content: str
    made: int
    since_s: float
    due_s: float
    status: str = "pending"
    tries: int = 0
    owner: str | None = None
    lease_s: float = 0.0
    error: str | None = None

    def to(self, status: str, now_s: float) -> None:
        """Come into a state without a lease."""
        self.status, self.since_s, self.due_s, self.owner = status, now_s, now_s, None


class OutboxMachine(RuleBasedStateMachine):
    """Calls the outbox and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.outbox = VectorOutbox(self.folder / "o.sqlite", self.clock)
        self.jobs: dict[str, Expected] = {}
        self.made = 0

    def teardown(self) -> None:
        """Throw the file away."""
        self.outbox.close()
        shutil.rmtree(self.folder)

    @property
    def now_s(self) -> float:
        """The time."""
        return self.clock.monotonic_s()

    @rule(item=ITEMS, content=st.sampled_from(["h1", "h2"]), lost=st.booleans())
    def enqueue(self, item: str, content: str, lost: bool) -> None:
        """Ask for an item: as before, with another text, or with its vectors lost."""
        said = self.outbox.enqueue_batch([JobRequest(ItemKind.ENTRY, item, V, content)], lost=lost)
        job = self.jobs.get(item)
        is_new = job is None or job.content != content or (lost and job.status == "done")
        assert said == [is_new]
        if not is_new:
            return
        if job is None:
            self.made += 1
            self.jobs[item] = Expected(content, self.made, self.now_s, self.now_s)
        else:
            job.to("pending", self.now_s)
            job.content, job.tries, job.error = content, 0, None

    @rule(owner=OWNERS, limit=st.integers(0, 4))
    def claim(self, owner: str, limit: int) -> None:
        """Claim: deaths and waits that are over come first."""
        found = [job.item_id for job in self.outbox.claim_jobs(owner, limit, V)]
        self._expire()
        for job in self._in("failed"):
            if job.due_s <= self.now_s and job.tries < limits.RETRIES_MAX:
                job.to("pending", self.now_s)
                job.tries += 1
        due = sorted(
            (job for job in self._in("pending") if job.due_s <= self.now_s), key=lambda job: job.made
        )
        due = due[:limit]
        suspects = [job for job in due if job.tries and job.error in DEATHS]
        taken = due[:1] if due[:1] == suspects[:1] else [job for job in due if job not in suspects]
        assert found == [self._item(job) for job in taken]
        for job in taken:
            job.to("processing", self.now_s)
            job.owner, job.lease_s = owner, self.now_s + limits.LEASE_S

    @rule(owner=OWNERS, item=ITEMS)
    def done(self, owner: str, item: str) -> None:
        """Finish a job, which counts only for its owner."""
        job = self._held(owner, item)
        assert self.outbox.mark_done(owner, [job_id("entry", item, V)]) == (job is not None)
        if job is not None:
            job.to("done", self.now_s)
            job.error = None

    @rule(owner=OWNERS, item=ITEMS)
    def fail(self, owner: str, item: str) -> None:
        """Fail a job, which counts only for its owner."""
        job = self._held(owner, item)
        assert self.outbox.mark_failed(owner, job_id("entry", item, V), "bad") == (job is not None)
        if job is not None:
            job.to("failed", self.now_s)
            job.error = "bad"
            if job.tries < limits.RETRIES_MAX:
                job.due_s += limits.BACKOFF_S[job.tries]

    @rule(owner=OWNERS, item=ITEMS)
    def renew(self, owner: str, item: str) -> None:
        """Prolong a lease."""
        job = self._held(owner, item)
        assert self.outbox.renew(owner, [job_id("entry", item, V)]) == (job is not None)
        if job is not None:
            job.lease_s = self.now_s + limits.LEASE_S

    @rule()
    def crash(self) -> None:
        """All workers die, and the next one takes over."""
        held = self._in("processing")
        assert self.outbox.recover_abandoned(V) == len(held)
        self._take_back(held, DEATHS[0])

    @rule()
    def recover(self) -> None:
        """Take back what is stuck."""
        assert self.outbox.count_stuck() == self.outbox.recover_stuck() == self._expire()

    @rule(most=st.integers(1, 4))
    def reconcile(self, most: int) -> None:
        """Try failed jobs again by hand."""
        failed = [job for job in self._in("failed") if job.tries < most]
        assert self.outbox.count_retryable(most) == self.outbox.reconcile_failed(most) == len(failed)
        for job in failed:
            job.to("pending", self.now_s)
            job.tries += 1

    @rule(item=ITEMS)
    def remove(self, item: str) -> None:
        """An item is gone."""
        assert self.outbox.remove(ItemKind.ENTRY, [item]) == (self.jobs.pop(item, None) is not None)

    @rule()
    def cleanup(self) -> None:
        """Old done jobs go."""
        old = [
            self._item(job) for job in self._in("done") if self.now_s - job.since_s > limits.JOBS_DONE_KEPT_S
        ]
        assert self.outbox.cleanup_done() == len(old)
        for item in old:
            del self.jobs[item]

    @rule(duration_s=st.sampled_from([1.0, 5.0, 30.0, limits.LEASE_S, limits.JOBS_DONE_KEPT_S]))
    def wait(self, duration_s: float) -> None:
        """Time passes."""
        self.clock.move(duration_s)

    @invariant()
    def same_jobs(self) -> None:
        """Both have the same jobs in the same states."""
        counts = {status: len(self._in(status)) for status in ("pending", "processing", "done", "failed")}
        assert self.outbox.counts() == JobCounts(**counts)
        for item, want in self.jobs.items():
            job = self.outbox.get_job(job_id("entry", item, V))
            assert job is not None
            got = (job.status, job.retry_count, job.content_hash, job.lease_owner, job.error)
            assert got == (want.status, want.tries, want.content, want.owner, want.error)
            start = self.clock.at.timestamp() - self.now_s
            assert abs(job.next_attempt_at.timestamp() - start - want.due_s) < 0.001

    def _in(self, status: str) -> list[Expected]:
        return [job for job in self.jobs.values() if job.status == status]

    def _item(self, wanted: Expected) -> str:
        return next(item for item, job in self.jobs.items() if job is wanted)

    def _held(self, owner: str, item: str) -> Expected | None:
        job = self.jobs.get(item)
        return job if job is not None and job.owner == owner else None

    def _expire(self) -> int:
        expired = [job for job in self._in("processing") if job.lease_s <= self.now_s]
        self._take_back(expired, DEATHS[1])
        return len(expired)

    def _take_back(self, jobs: list[Expected], why: str) -> None:
        owners = [job.owner for job in jobs]
        for job, owner in zip(jobs, owners, strict=True):
            is_last = job.tries == limits.RETRIES_MAX or job.tries > limits.RETRIES_MAX
            job.to("failed" if is_last and owners.count(owner) == 1 else "pending", self.now_s)
            job.tries += not is_last
            job.error = why


TestOutboxMachine = OutboxMachine.TestCase
