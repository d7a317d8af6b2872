from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import job_id
from headwater.schemas.jobs import ALLOWED, Job, JobCounts, JobRequest, JobStatus
from headwater.storage.outbox import VectorOutbox

V = "v1"
NAMES = {item: job_id("entry", item, V) for item in ("e1", "e2")}
CALLS = ("enqueue", "change", "claim", "done", "fail", "renew", "recover", "reconcile", "wait", "expire")
STEPS = st.lists(
    st.tuples(st.sampled_from(CALLS), st.sampled_from(list(NAMES)), st.sampled_from(["a", "b"])), max_size=40
)


def request(item: str, content: str = "h1") -> JobRequest:
    """Return a request for one item."""
    return JobRequest(ItemKind.ENTRY, item, V, content)


def make_calls(outbox: VectorOutbox, clock: FakeClock) -> dict[str, Callable[[str, str], object]]:
    """Return every way to change an outbox, and the passing of time."""
    content = itertools.count()
    return {
        "enqueue": lambda item, _: outbox.enqueue_batch([request(item)]),
        "change": lambda item, _: outbox.enqueue_batch([request(item, f"h{next(content)}")]),
        "claim": lambda _, owner: outbox.claim_jobs(owner, 1, V),
        "done": lambda item, owner: outbox.mark_done(owner, [NAMES[item]]),
        "fail": lambda item, owner: outbox.mark_failed(owner, NAMES[item], "bad"),
        "renew": lambda item, owner: outbox.renew(owner, [NAMES[item]]),
        "recover": lambda *_: outbox.recover_stuck(),
        "reconcile": lambda *_: outbox.reconcile_failed(),
        "wait": lambda *_: clock.move(1),
        "expire": lambda *_: clock.move(limits.LEASE_S),
    }


def is_allowed(call: str, old: JobStatus, new: JobStatus) -> bool:
    """Whether a call may lead from one state to the other; a claim may make a job pending first."""
    if old is new or (old, new) in ALLOWED:
        return True
    return call == "claim" and {(old, JobStatus.PENDING), (JobStatus.PENDING, new)} <= ALLOWED


@given(STEPS)
def test_no_other_moves_are_made(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]]
) -> None:
    """Whatever is called in whatever order, jobs make only allowed moves, and their fields fit their state."""
    clock = FakeClock()
    outbox = VectorOutbox(tmp_path_factory.mktemp("outbox") / "o.sqlite", clock)
    calls = make_calls(outbox, clock)
    before: dict[str, Job] = {}
    for call, item, owner in steps:
        calls[call](item, owner)
        after = {name: found for name in NAMES.values() if (found := outbox.get_job(name)) is not None}
        assert before.keys() <= after.keys()
        for name, new in after.items():
            assert name not in before or is_allowed(call, before[name].status, new.status)
            is_leased = new.status is JobStatus.PROCESSING
            assert (new.lease_owner is not None, new.lease_until is not None) == (is_leased, is_leased)
            assert 0 <= new.retry_count <= limits.RETRIES_MAX
        before = after
    outbox.close()


WORKER = """
import sys
from pathlib import Path
from headwater.storage.outbox import VectorOutbox
outbox = VectorOutbox(Path(sys.argv[1]))
sys.stdin.read()
while jobs := outbox.claim_jobs(sys.argv[2], 7, "v1"):
    for job in jobs:
        print(job.job_id)
    assert outbox.mark_done(sys.argv[2], [job.job_id for job in jobs]) == len(jobs)
outbox.close()
"""


def test_many_workers_share_the_work(tmp_path: Path) -> None:
    """Several processes claim at once: each job goes to exactly one of them, and all get done."""
    path = tmp_path / "outbox.sqlite"
    outbox = VectorOutbox(path)
    outbox.enqueue_batch([request(f"e{n}") for n in range(300)])
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), f"w{n}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.stdin = None
    claimed: list[str] = []
    for worker in workers:
        out, err = worker.communicate(timeout=60)
        assert err == ""
        claimed += out.split()
    assert len(claimed) == len(set(claimed)) == 300
    assert outbox.counts() == JobCounts(done=300)
    outbox.close()
