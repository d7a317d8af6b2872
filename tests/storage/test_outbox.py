from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from outbox_jobs import V, request

from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.errors import TransitionError
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import job_id
from headwater.schemas.jobs import Job, JobCounts, JobRequest, JobStatus
from headwater.storage.outbox import VectorOutbox

JOB = job_id("entry", "e1", V)


def job(outbox: VectorOutbox, name: str = JOB) -> Job:
    """Return a job that must exist."""
    found = outbox.get_job(name)
    assert found is not None
    return found


def ids_of(jobs: list[Job]) -> list[str]:
    """Return the items of jobs."""
    return [one.item_id for one in jobs]


def test_enqueue_is_idempotent(outbox: VectorOutbox) -> None:
    """The same item and version is one job: the second request is not new."""
    assert outbox.enqueue_batch([request()]) == [True]
    assert outbox.enqueue_batch([request()]) == [False]
    assert outbox.counts() == JobCounts(pending=1)


def test_versions_and_kinds_have_jobs_of_their_own(outbox: VectorOutbox) -> None:
    """An item has one job per embedding version; twice in one batch is one job."""
    other = JobRequest(ItemKind.MEMORY, "e1", V, "h1")
    assert outbox.enqueue_batch([request(), request(version="v2"), other, request()]) == [
        True,
        True,
        True,
        False,
    ]
    assert outbox.counts() == JobCounts(pending=3)
    assert outbox.counts("v2") == JobCounts(pending=1)


def test_a_batch_of_new_known_and_changed_jobs(outbox: VectorOutbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has its own answer, also about one asked for before in the same batch; the last text counts."""
    monkeypatch.setattr(limits, "IDS_PER_FILTER", 2)
    outbox.enqueue_batch([request("known"), request("changed")])
    again = [
        request("new"),
        request("known"),
        request("changed", content="h2"),
        request("new"),
        request("new", content="h2"),
        request("last"),
    ]
    assert outbox.enqueue_batch(again) == [True, False, True, False, True, True]
    jobs = outbox.pending_jobs()
    assert [(one.item_id, one.content_hash) for one in jobs] == [
        ("known", "h1"),
        ("changed", "h2"),
        ("new", "h2"),
        ("last", "h1"),
    ]


def test_a_new_job(outbox: VectorOutbox, clock: FakeClock) -> None:
    """A job starts pending, due at once, without tries, and is found by its id."""
    outbox.enqueue_batch([request()])
    now = clock.now()
    assert job(outbox) == Job(
        JOB, ItemKind.ENTRY, "e1", V, "h1", JobStatus.PENDING, 0, now, None, None, None, now, now
    )
    assert outbox.pending_jobs() == [job(outbox)]
    assert outbox.get_job("job_none") is None


def test_claim_leases_the_oldest_first(outbox: VectorOutbox, clock: FakeClock) -> None:
    """Jobs are claimed in the order they came, within one batch too, up to the limit, of one version."""
    names = [f"e{n}" for n in range(8)]
    outbox.enqueue_batch([request(name) for name in names[:5]] + [request("x", version="v2")])
    clock.move(1)
    outbox.enqueue_batch([request(name) for name in names[5:]])
    first = outbox.claim_jobs("a", 3, V)
    assert ids_of(first) == names[:3]
    assert ids_of(outbox.pending_jobs()) == [*names[3:5], "x", *names[5:]]
    for one in first:
        assert (one.status, one.lease_owner) == (JobStatus.PROCESSING, "a")
        assert one.lease_until == clock.now() + timedelta(seconds=limits.LEASE_S)
        assert one == job(outbox, one.job_id)
    assert ids_of(outbox.claim_jobs("b", 50, V)) == names[3:]
    assert outbox.claim_jobs("b", 50, V) == []
    assert outbox.claim_jobs("c", -1, "v2") == []
    assert outbox.counts() == JobCounts(pending=1, processing=8)


def test_done(outbox: VectorOutbox, clock: FakeClock) -> None:
    """A job that is done keeps no lease and no error, and marking it again changes nothing."""
    outbox.enqueue_batch([request("e1"), request("e2")])
    outbox.claim_jobs("a", 9, V)
    clock.move(1)
    assert outbox.mark_done("a", [JOB, JOB, "job_none"]) == 1
    assert outbox.mark_done("a", [JOB]) == 0
    done = job(outbox)
    assert (done.status, done.lease_owner, done.lease_until, done.error) == (JobStatus.DONE, None, None, None)
    assert done.updated_at == clock.now()
    assert outbox.enqueue_batch([request()]) == [False]
    assert outbox.counts() == JobCounts(processing=1, done=1)


def test_waits_between_tries(outbox: VectorOutbox, clock: FakeClock) -> None:
    """A failing job is tried again after 1, 5 and 30 s, then stays failed with its last error."""
    outbox.enqueue_batch([request()])
    for n, wait_s in enumerate((1, 5, 30)):
        assert ids_of(outbox.claim_jobs("a", 9, V)) == ["e1"]
        assert outbox.mark_failed("a", JOB, f"error {n}") == 1
        failed = job(outbox)
        assert (failed.status, failed.retry_count, failed.error) == (JobStatus.FAILED, n, f"error {n}")
        assert failed.lease_owner is None
        assert outbox.next_due(V) == failed.next_attempt_at == clock.now() + timedelta(seconds=wait_s)
        clock.move(wait_s - 0.001)
        assert outbox.claim_jobs("a", 9, V) == []
        clock.move(0.001)
    (last,) = outbox.claim_jobs("a", 9, V)
    assert (last.retry_count, last.error) == (limits.RETRIES_MAX, "error 2")
    outbox.mark_failed("a", JOB, "the last")
    assert outbox.next_due(V) is None
    clock.move(10**6)
    assert outbox.claim_jobs("a", 9, V) == []
    assert outbox.enqueue_batch([request()]) == [False]
    assert (job(outbox).status, job(outbox).error) == (JobStatus.FAILED, "the last")


def test_a_failing_job_keeps_nobody_waiting(outbox: VectorOutbox, clock: FakeClock) -> None:
    """While one item waits for its next try, the others go on."""
    outbox.enqueue_batch([request("e1"), request("e2")])
    outbox.claim_jobs("a", 1, V)
    outbox.mark_failed("a", JOB, "bad")
    assert ids_of(outbox.claim_jobs("a", 9, V)) == ["e2"]
    clock.move(1)
    assert ids_of(outbox.claim_jobs("a", 9, V)) == ["e1"]


def test_expired_lease_counts_as_a_try(outbox: VectorOutbox, clock: FakeClock) -> None:
    """A job whose worker died is taken back when its lease ends, not before, and has one try less."""
    outbox.enqueue_batch([request()])
    outbox.claim_jobs("a", 9, V)
    clock.move(limits.LEASE_S - 0.001)
    assert outbox.recover_stuck() == 0
    assert outbox.next_due(V) == clock.now() + timedelta(milliseconds=1)
    clock.move(0.001)
    assert outbox.recover_stuck() == 1
    back = job(outbox)
    assert (back.status, back.retry_count, back.lease_owner) == (JobStatus.PENDING, 1, None)
    assert "lease expired" in (back.error or "")
    assert ids_of(outbox.claim_jobs("b", 9, V)) == ["e1"]


def test_claim_takes_expired_leases_back(outbox: VectorOutbox, clock: FakeClock) -> None:
    """Nobody has to call for it: the next claim hands a dead worker's jobs on."""
    outbox.enqueue_batch([request()])
    outbox.claim_jobs("a", 9, V)
    clock.move(limits.LEASE_S)
    (again,) = outbox.claim_jobs("b", 9, V)
    assert (again.lease_owner, again.retry_count) == ("b", 1)


def test_poison_ends_failed(outbox: VectorOutbox, clock: FakeClock) -> None:
    """An item that kills each worker is not tried for ever."""
    outbox.enqueue_batch([request()])
    tries = 0
    while outbox.claim_jobs("a", 9, V):
        tries += 1
        clock.move(limits.LEASE_S)
        assert tries < 20
    assert tries == 1 + limits.RETRIES_MAX
    assert (job(outbox).status, outbox.next_due(V)) == (JobStatus.FAILED, None)


def test_renewed_lease_lasts(outbox: VectorOutbox, clock: FakeClock) -> None:
    """A worker that renews keeps its jobs; one that lost them renews nothing."""
    outbox.enqueue_batch([request()])
    outbox.claim_jobs("a", 9, V)
    clock.move(limits.LEASE_S - 1)
    assert outbox.renew("a", [JOB]) == 1
    assert outbox.renew("b", [JOB]) == 0
    clock.move(limits.LEASE_S - 1)
    assert outbox.recover_stuck() == 0
    clock.move(1)
    assert outbox.recover_stuck() == 1
    assert outbox.renew("a", [JOB]) == 0


def test_a_lost_lease_finishes_nothing(outbox: VectorOutbox, clock: FakeClock) -> None:
    """A worker that comes back after its lease was given on changes nothing of the new owner's job."""
    outbox.enqueue_batch([request()])
    outbox.claim_jobs("a", 9, V)
    clock.move(limits.LEASE_S)
    outbox.claim_jobs("b", 9, V)
    before = job(outbox)
    assert outbox.mark_done("a", [JOB]) == 0
    assert outbox.mark_failed("a", JOB, "late") == 0
    assert job(outbox) == before
    assert outbox.mark_done("b", [JOB]) == 1


@pytest.mark.parametrize("state", ["pending", "processing", "done", "failed", "failed for good"])
def test_changed_content_starts_anew(outbox: VectorOutbox, clock: FakeClock, state: str) -> None:
    """Another content hash makes the job pending with all its tries, whatever its state, and the claimer loses it."""
    outbox.enqueue_batch([request()])
    if state != "pending":
        outbox.claim_jobs("a", 9, V)
    if state == "done":
        outbox.mark_done("a", [JOB])
    if state.startswith("failed"):
        outbox.mark_failed("a", JOB, "bad")
    while state == "failed for good" and outbox.next_due(V) is not None:
        clock.move(30)
        outbox.claim_jobs("a", 9, V)
        outbox.mark_failed("a", JOB, "bad")
    created = job(outbox).created_at
    clock.move(1)
    assert outbox.enqueue_batch([request(content="h2"), request(content="h2")]) == [True, False]
    fresh = job(outbox)
    assert (fresh.status, fresh.content_hash, fresh.retry_count) == (JobStatus.PENDING, "h2", 0)
    assert (fresh.error, fresh.lease_owner, fresh.lease_until) == (None, None, None)
    assert (fresh.created_at, fresh.next_attempt_at, fresh.updated_at) == (created, clock.now(), clock.now())
    assert outbox.mark_done("a", [JOB]) == 0
    assert [one.content_hash for one in outbox.claim_jobs("b", 9, V)] == ["h2"]


def test_failed_jobs_can_be_tried_at_once(outbox: VectorOutbox, clock: FakeClock) -> None:
    """By hand, failed jobs with tries left go on without their wait; the others only when more tries are given."""
    outbox.enqueue_batch([request("e1"), request("e2")])
    outbox.claim_jobs("a", 9, V)
    for name in ("e1", "e2"):
        outbox.mark_failed("a", job_id("entry", name, V), "bad")
    assert outbox.reconcile_failed() == 2
    assert outbox.counts() == JobCounts(pending=2)
    assert job(outbox).retry_count == 1
    while jobs := outbox.claim_jobs("a", 9, V):
        for one in jobs:
            outbox.mark_failed("a", one.job_id, "bad")
        outbox.reconcile_failed()
    assert outbox.reconcile_failed() == 0
    assert outbox.reconcile_failed(limits.RETRIES_MAX + 1) == 2
    assert len(outbox.claim_jobs("a", 9, V)) == 2


def test_next_due_of_nothing(outbox: VectorOutbox) -> None:
    """Nothing to do means no time; a pending job is due at once; other versions do not count."""
    assert outbox.next_due(V) is None
    outbox.enqueue_batch([request(version="v2")])
    assert outbox.next_due(V) is None
    assert outbox.next_due("v2") is not None


def test_state_is_on_disk(outbox: VectorOutbox, tmp_path: Path, clock: FakeClock) -> None:
    """Another process sees what was enqueued, and goes on with it."""
    outbox.enqueue_batch([request()])
    other = VectorOutbox(tmp_path / "outbox.sqlite", clock)
    assert ids_of(other.claim_jobs("b", 9, V)) == ["e1"]
    assert outbox.counts() == JobCounts(processing=1)
    other.close()


def test_lost_file_is_made_again(tmp_path: Path, clock: FakeClock) -> None:
    """The file is disposable: after its loss, and after damage, which is moved aside, every item is new."""
    path = tmp_path / "outbox.sqlite"
    for _ in range(2):
        outbox = VectorOutbox(path, clock)
        assert outbox.enqueue_batch([request()]) == [True]
        outbox.close()
        path.unlink()
    path.write_bytes(b"no database at all" * 100)
    outbox = VectorOutbox(path, clock)
    assert outbox.enqueue_batch([request()]) == [True]
    outbox.close()
    assert [one.read_bytes()[:11] for one in tmp_path.glob("*.damaged-*")] == [b"no database"]


def test_file_taken_away_under_an_open_outbox_is_made_again(tmp_path: Path, clock: FakeClock) -> None:
    """What another process moved aside is not written any more; the new file says that nobody compared yet."""
    path = tmp_path / "outbox.sqlite"
    outbox = VectorOutbox(path, clock)
    outbox.enqueue_batch([request()])
    assert not outbox.was_compared("v1")
    outbox.note_compared("v1")
    assert outbox.was_compared("v1")
    path.rename(tmp_path / "aside")
    assert outbox.enqueue_batch([request()]) == [True]
    assert not outbox.was_compared("v1")
    outbox.close()


def test_lost_vectors_begin_a_done_job_again(outbox: VectorOutbox) -> None:
    """A done job of equal content stays done, unless its vectors are said to be lost."""
    outbox.enqueue_batch([request()])
    (job,) = outbox.claim_jobs("w", 1, request().embedding_version)
    outbox.mark_done("w", [job.job_id])
    assert outbox.enqueue_batch([request()]) == [False]
    assert outbox.enqueue_batch([request()], lost=True) == [True]
    assert outbox.enqueue_batch([request()], lost=True) == [False]
    assert len(outbox.claim_jobs("w", 1, request().embedding_version)) == 1


def test_a_move_that_is_not_allowed_is_an_error(outbox: VectorOutbox, tmp_path: Path) -> None:
    """A row that somebody else brought into an impossible state is not moved on as if nothing were wrong."""
    outbox.enqueue_batch([request()])
    with sqlite3.connect(tmp_path / "outbox.sqlite") as connection:
        connection.execute("UPDATE vector_outbox SET status = 'done', lease_owner = 'a'")
    connection.close()
    with pytest.raises(TransitionError, match="done -> failed"):
        outbox.mark_failed("a", JOB, "bad")
    assert job(outbox).status is JobStatus.DONE
