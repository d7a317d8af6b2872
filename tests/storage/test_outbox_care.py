from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from outbox_jobs import V, request

from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import job_id
from headwater.schemas.jobs import JobCounts, JobMetrics, JobRequest, JobStatus
from headwater.storage.outbox import VectorOutbox


def name(item: str, version: str = V) -> str:
    """Return the id of an item's job."""
    return job_id("entry", item, version)


def claimed(outbox: VectorOutbox, owner: str = "a", limit: int = 50) -> list[str]:
    """Claim, and return the items."""
    return [one.item_id for one in outbox.claim_jobs(owner, limit, V)]


class TestSuspects:
    """Jobs whose worker died, of which one may be what killed it."""

    @pytest.mark.parametrize("how", ["abandoned", "expired"])
    def test_they_come_one_by_one(self, outbox: VectorOutbox, clock: FakeClock, how: str) -> None:
        """After a death each job of the batch is claimed alone, oldest first; those never held come together."""
        outbox.enqueue_batch([request(f"e{n}") for n in range(6)])
        assert len(claimed(outbox, limit=3)) == 3
        if how == "abandoned":
            assert outbox.recover_abandoned(V) == 3
        else:
            clock.move(limits.LEASE_S)
        assert claimed(outbox) == ["e0"]
        assert claimed(outbox) == ["e1"]
        outbox.mark_done("a", [name("e0"), name("e1")])
        assert claimed(outbox) == ["e2"]
        assert claimed(outbox) == ["e3", "e4", "e5"]

    def test_an_older_sound_job_brings_no_suspect_along(self, outbox: VectorOutbox, clock: FakeClock) -> None:
        """A claim of several leaves out the suspects between them."""
        outbox.enqueue_batch([request("e1")])
        clock.move(1)
        outbox.enqueue_batch([request("e2")])
        assert claimed(outbox) == ["e1", "e2"]
        outbox.mark_failed("a", name("e1"), "model")
        outbox.recover_abandoned(V)
        clock.move(1)
        outbox.enqueue_batch([request("e3")])
        assert claimed(outbox) == ["e1", "e3"]
        assert claimed(outbox) == ["e2"]

    def test_poison_takes_nobody_with_it(self, outbox: VectorOutbox) -> None:
        """A job that kills each worker ends failed after its tries, and no other of its first batch does."""
        items = [f"e{n}" for n in range(10)]
        outbox.enqueue_batch([request(item) for item in items])
        deaths = 0
        while batch := claimed(outbox):
            if "e4" in batch:
                deaths += 1
                outbox.recover_abandoned(V)
                assert deaths < 20
            else:
                outbox.mark_done("a", [name(item) for item in batch])
        assert deaths == 1 + limits.RETRIES_MAX
        assert outbox.counts() == JobCounts(done=9, failed=1)
        (failed,) = outbox.failed_jobs()
        assert (failed.item_id, failed.error) == ("e4", "the worker died")

    def test_used_up_tries_end_only_alone(self, outbox: VectorOutbox, clock: FakeClock) -> None:
        """A job at its last try that dies in company comes back once more, alone, and ends failed when it dies then."""
        outbox.enqueue_batch([request("e1"), request("e2")])
        for wait_s in limits.BACKOFF_S:
            for item in claimed(outbox):
                outbox.mark_failed("a", name(item), "model down")
            clock.move(wait_s)
        assert claimed(outbox) == ["e1", "e2"]
        outbox.recover_abandoned(V)
        assert outbox.counts() == JobCounts(pending=2)
        assert claimed(outbox) == ["e1"]
        outbox.mark_done("a", [name("e1")])
        assert claimed(outbox) == ["e2"]
        outbox.recover_abandoned(V)
        assert outbox.counts() == JobCounts(done=1, failed=1)

    def test_new_content_is_no_suspect(self, outbox: VectorOutbox) -> None:
        """Another text clears what was held against the old one."""
        outbox.enqueue_batch([request("e1"), request("e2")])
        claimed(outbox)
        outbox.recover_abandoned(V)
        outbox.enqueue_batch([request("e1", "h2"), request("e2", "h2")])
        assert claimed(outbox) == ["e1", "e2"]


class TestMetrics:
    """What the outbox tells of itself."""

    def test_of_nothing(self, outbox: VectorOutbox) -> None:
        """An empty outbox claims no times."""
        assert outbox.metrics() == outbox.metrics(V) == JobMetrics(JobCounts(), None, None, None)

    def test_ages_and_times(self, outbox: VectorOutbox, clock: FakeClock) -> None:
        """Mean time is from claim to done, the oldest pending age counts from when it became pending."""
        outbox.enqueue_batch([request(f"e{n}") for n in range(4)])
        clock.move(10)
        assert outbox.metrics().oldest_pending_s == 10
        claimed(outbox, limit=2)
        clock.move(4)
        outbox.mark_done("a", [name("e0")])
        clock.move(2)
        outbox.mark_done("a", [name("e1")])
        done_at = clock.now()
        clock.move(1)
        outbox.enqueue(request("e0", "h2"))
        assert outbox.metrics(V) == JobMetrics(JobCounts(pending=3, done=1), 17, 5, done_at)
        assert outbox.metrics("v2") == JobMetrics(JobCounts(), None, None, None)

    def test_a_failure_is_processed_but_not_timed(self, outbox: VectorOutbox, clock: FakeClock) -> None:
        """A failed job counts as the last processed one, and not in the mean."""
        outbox.enqueue(request())
        claimed(outbox)
        clock.move(3)
        outbox.mark_failed("a", name("e1"), "bad")
        assert outbox.metrics() == JobMetrics(JobCounts(failed=1), None, None, clock.now())

    def test_times_outlive_the_rows(self, outbox: VectorOutbox, clock: FakeClock) -> None:
        """The mean stays when the done jobs it came from are cleaned up, and goes with its version."""
        outbox.enqueue(request())
        claimed(outbox)
        clock.move(2)
        outbox.mark_done("a", [name("e1")])
        clock.move(limits.JOBS_DONE_KEPT_S + 1)
        assert outbox.cleanup_done() == 1
        assert outbox.metrics().mean_processing_s == 2
        outbox.drop_version(V)
        assert outbox.metrics().mean_processing_s is None

    def test_a_clock_that_went_back(self, outbox: VectorOutbox, clock: FakeClock) -> None:
        """Times are never negative."""
        outbox.enqueue_batch([request("e1"), request("e2")])
        claimed(outbox, limit=1)
        clock.move(-60)
        outbox.mark_done("a", [name("e1")])
        assert outbox.metrics().mean_processing_s == 0
        assert outbox.metrics().oldest_pending_s == 0

    def test_an_older_file_is_read(self, tmp_path: Path, clock: FakeClock) -> None:
        """A file made before there were metrics goes on with its jobs."""
        path = tmp_path / "old.sqlite"
        old = VectorOutbox(path, clock)
        old.enqueue(request())
        old.close()
        connection = sqlite3.connect(path)
        connection.execute("DROP TABLE vector_work")
        connection.close()
        again = VectorOutbox(path, clock)
        assert claimed(again) == ["e1"]
        assert again.mark_done("a", [name("e1")]) == 1
        assert again.metrics().mean_processing_s == 0
        again.close()


class TestCleaning:
    """What is removed, and when."""

    def test_done_jobs_go_after_a_week(self, outbox: VectorOutbox, clock: FakeClock) -> None:
        """Only done jobs, only after seven days, the oldest first up to a limit; the rest stays."""
        outbox.enqueue_batch([request(f"e{n}") for n in range(5)])
        claimed(outbox, limit=4)
        outbox.mark_failed("a", name("e3"), "bad")
        for item in ("e0", "e1", "e2"):
            outbox.mark_done("a", [name(item)])
            clock.move(1)
        clock.move(7 * 86_400 - 2)
        assert outbox.cleanup_done() == 1
        assert outbox.get_job(name("e0")) is None
        clock.move(10)
        assert outbox.cleanup_done(limit=1) == 1
        assert outbox.get_job(name("e1")) is None
        assert outbox.cleanup_done() == 1
        assert outbox.cleanup_done() == 0
        assert outbox.counts() == JobCounts(pending=1, failed=1)

    def test_removed_items_lose_their_jobs(self, outbox: VectorOutbox) -> None:
        """A deleted item has no job of any version; a worker that held one finishes nothing."""
        outbox.enqueue_batch([request(), request(version="v2"), request("e2")])
        claimed(outbox)
        assert outbox.remove(ItemKind.ENTRY, ["e1", "unknown"]) == 2
        assert outbox.remove(ItemKind.MEMORY, ["e2"]) == 0
        assert outbox.mark_done("a", [name("e1"), name("e2")]) == 1
        assert outbox.counts() == JobCounts(done=1)

    def test_a_version_is_dropped_alone(self, outbox: VectorOutbox) -> None:
        """The jobs of one version go, those of the other stay."""
        outbox.enqueue_batch([request(), request("e2"), request(version="v2")])
        assert outbox.versions() == [V, "v2"]
        assert outbox.drop_version(V) == 2
        assert outbox.drop_version(V) == 0
        assert outbox.versions() == ["v2"]


def test_enqueue_says_whether_it_is_new(outbox: VectorOutbox) -> None:
    """The first request of an item is new, the same again is not, another text is."""
    assert [outbox.enqueue(request()), outbox.enqueue(request()), outbox.enqueue(request(content="h2"))] == [
        True,
        False,
        True,
    ]
    assert outbox.counts() == JobCounts(pending=1)


def test_dry_counts_tell_what_would_happen(outbox: VectorOutbox, clock: FakeClock) -> None:
    """Counting what is stuck, retryable or new changes nothing and gives what doing it gives."""
    outbox.enqueue_batch([request("e1"), request("e2"), request("e3")])
    claimed(outbox)
    outbox.mark_failed("a", name("e1"), "bad")
    outbox.mark_done("a", [name("e3")])
    assert outbox.count_stuck() == 0
    clock.move(limits.LEASE_S)
    wanted = [request("e1"), request("e2", "h2"), request("e3"), request("e4")]
    before = [outbox.get_job(name(f"e{n}")) for n in range(5)]
    assert (outbox.count_stuck(), outbox.count_retryable(), outbox.count_retryable(0)) == (1, 1, 0)
    assert (outbox.count_new(wanted), outbox.count_new(wanted, lost=True)) == (2, 3)
    assert [outbox.get_job(name(f"e{n}")) for n in range(5)] == before
    assert (outbox.recover_stuck(), outbox.reconcile_failed()) == (1, 1)
    assert outbox.enqueue_batch(wanted, lost=True) == [False, True, True, True]


def test_failed_jobs_are_told_with_their_errors(outbox: VectorOutbox, clock: FakeClock) -> None:
    """The latest failure comes first; other versions and states are left out."""
    outbox.enqueue_batch([request("e1"), request("e2"), request("e3"), request(version="v2")])
    claimed(outbox)
    for item in ("e1", "e2"):
        clock.move(1)
        outbox.mark_failed("a", name(item), f"error of {item}")
    assert [one.error for one in outbox.failed_jobs(embedding_version=V)] == ["error of e2", "error of e1"]
    assert [one.item_id for one in outbox.failed_jobs(1)] == ["e2"]
    assert outbox.failed_jobs(embedding_version="v2") == []
    assert all(one.status is JobStatus.FAILED for one in outbox.failed_jobs())


def test_a_request_to_reconcile_stays_until_it_is_done(outbox: VectorOutbox) -> None:
    """A comparison one way does not take back that somebody asked for both; one both ways does."""
    assert (outbox.was_compared(V), outbox.is_asked_to_reconcile(V)) == (False, False)
    outbox.note_compared(V)
    assert (outbox.was_compared(V), outbox.is_asked_to_reconcile(V)) == (True, False)
    outbox.ask_to_reconcile(V)
    outbox.note_compared(V)
    assert (outbox.was_compared(V), outbox.is_asked_to_reconcile(V)) == (True, True)
    outbox.note_compared(V, both_ways=True)
    assert (outbox.was_compared(V), outbox.is_asked_to_reconcile(V)) == (True, False)


def test_titles_of_tasks_go_with_their_event(outbox: VectorOutbox) -> None:
    """An event that goes takes the jobs of the titles in it along, and of nothing else."""
    titles = ["evt_1~0", "evt_1~12", "evt_10~0", "evt_1"]
    outbox.enqueue_batch([JobRequest(ItemKind.TASK_TITLE, name, V, "h") for name in titles])
    outbox.enqueue(JobRequest(ItemKind.ENTRY, "evt_1", V, "h"))
    assert outbox.remove(ItemKind.ENTRY, ["evt_1"]) == 3
    assert {job.item_id for job in outbox.pending_jobs()} == {"evt_10~0", "evt_1"}


def test_all_versions_can_be_asked_to_reconcile(outbox: VectorOutbox) -> None:
    """Each that was compared or has jobs is; one that was dropped is not any more."""
    outbox.note_compared("v1")
    outbox.enqueue(JobRequest(ItemKind.ENTRY, "e", "v2", "h"))
    outbox.ask_to_reconcile()
    assert [outbox.is_asked_to_reconcile(name) for name in ("v1", "v2", "v3")] == [True, True, False]
    outbox.drop_version("v1")
    assert not outbox.was_compared("v1")
