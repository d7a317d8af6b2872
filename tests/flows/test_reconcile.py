from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from embed_bench import Bench, Poisoned

from headwater.flows.missing import orphaned_vectors
from headwater.flows.reconcile import ReconcileReport, reconcile
from headwater.flows.vector_worker import VectorWorker
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.jobs import JobCounts
from headwater.storage.tables import LanceStore
from headwater.storage.worker_lock import version_lock

NOTHING = ReconcileReport(0, 0, 0, 0, 0, 0, 0, 0, dry_run=False)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty home."""
    made = Bench(tmp_path / "h")
    yield made
    made.outbox.close()


def put_right(
    bench: Bench, retries_max: int = limits.RETRIES_MAX, *, dry_run: bool = False
) -> ReconcileReport:
    """Reconcile the bench's version."""
    return reconcile(
        bench.home, bench.outbox, bench.encoder.version, retries_max=retries_max, dry_run=dry_run
    )


def delete_event(bench: Bench, item: str) -> None:
    """Take an item away and nothing else."""
    LanceStore(bench.home.lance).open(EVENTS).delete(f"id = '{item}'")


def test_nothing_to_put_right(bench: Bench) -> None:
    """An empty home, and one where all is well, give zeros."""
    assert put_right(bench) == NOTHING
    bench.add("one")
    bench.run()
    assert put_right(bench) == NOTHING


def test_all_four_at_once(bench: Bench) -> None:
    """Stuck jobs are taken back, failed ones reset, lacking vectors asked for, orphaned ones deleted with their job."""
    ids = bench.add("stuck", "poison", "lost", "gone")
    bench.outbox.claim_jobs("dead", 1, bench.encoder.version)
    bench.clock.move(limits.LEASE_S)
    bench.run(Poisoned())
    bench.add("stuck again")  # the same item with another text
    bench.outbox.claim_jobs("dead", 1, bench.encoder.version)
    bench.vectors.delete_items("entry", [ids[2]])
    delete_event(bench, ids[3])
    want = ReconcileReport(1, 1, 3, 1, 1, 0, 0, 0, dry_run=True)
    assert put_right(bench, dry_run=True) == replace(
        want, recovered=0
    )  # that its owner is dead shows only in the lock
    before = bench.outbox.counts()
    assert put_right(bench, dry_run=True).recovered == 0
    assert bench.outbox.counts() == before
    assert put_right(bench) == replace(want, deleted=1, dry_run=False)
    assert bench.outbox.counts() == JobCounts(pending=3)
    bench.run()
    assert set(bench.sets()) == set(ids[:3])
    assert put_right(bench) == NOTHING


def test_deleted_outbox_brings_all_back(bench: Bench) -> None:
    """Without an outbox, what has vectors keeps them and gets no job; what has none gets one."""
    ids = bench.add("one", "two")
    bench.run()
    bench.add("three", start=2)
    bench.outbox.close()
    for path in bench.home.root.glob("outbox.sqlite*"):
        path.unlink()
    assert put_right(bench) == replace(NOTHING, missing=1, enqueued=1)
    assert bench.run().processed == 1
    assert set(bench.sets()) == {*ids, "evt_0002"}


def test_used_up_jobs_stay_until_more_tries_are_given(bench: Bench) -> None:
    """The report says how many stay failed, and with how many tries they would go on."""
    bench.add("poison")
    bench.run(Poisoned())
    bench.wear_out(Poisoned())
    done = put_right(bench)
    assert (done.reset, done.missing, done.enqueued, done.failed, done.tries) == (0, 1, 0, 1, 4)
    assert put_right(bench, done.tries).reset == 1
    assert bench.run().succeeded == 1


def test_a_running_worker_deletes_orphans_itself(bench: Bench) -> None:
    """Only the worker writes vectors: what has to go is left to it, and gone after its next pass."""
    ids = bench.add("gone", "stays")
    bench.run()
    delete_event(bench, ids[0])
    with VectorWorker(bench.home, bench.encoder, clock=bench.clock) as worker:
        worker.compare()
        assert not worker.has_work()
        assert put_right(bench) == replace(NOTHING, orphans=1)
        assert set(bench.sets()) == set(ids)
        assert worker.has_work()
        worker.process_all()
        assert not worker.has_work()
    assert set(bench.sets()) == {ids[1]}


def test_the_workers_own_jobs_are_left_to_it(bench: Bench) -> None:
    """Jobs that a living worker has leased are not taken back."""
    bench.add("one")
    bench.outbox.claim_jobs("living", 1, bench.encoder.version)
    with version_lock(bench.home, bench.encoder.version):
        assert put_right(bench).recovered == 0
    assert put_right(bench).recovered == 1


def test_a_caller_who_holds_the_lock_says_so(bench: Bench) -> None:
    """Then the orphans are deleted at once, and the lock stays held."""
    (item,) = bench.add("gone")
    bench.run()
    delete_event(bench, item)
    with version_lock(bench.home, bench.encoder.version) as lock:
        done = reconcile(bench.home, bench.outbox, bench.encoder.version, lock=lock)
        assert (done.orphans, done.deleted) == (1, 1)
        assert lock.is_mine


def test_without_a_table_of_events_nothing_is_an_orphan(bench: Bench) -> None:
    """A table that was moved aside is made again from the journal; its vectors wait for it."""
    bench.add("one")
    bench.run()
    (bench.home.lance / "events.lance").rename(bench.home.root / "aside")
    assert orphaned_vectors(bench.home, bench.encoder.version).is_empty()
    assert put_right(bench).deleted == 0


def test_a_text_that_became_empty_keeps_no_vectors(bench: Bench) -> None:
    """Also when the job that would have taken them away is lost with the outbox."""
    (item,) = bench.add("something")
    bench.run()
    bench.add("  ")
    bench.outbox.close()
    for path in bench.home.root.glob("outbox.sqlite*"):
        path.unlink()
    assert orphaned_vectors(bench.home, bench.encoder.version).rows() == [("entry", item)]
    assert put_right(bench).deleted == 1
    assert bench.sets() == {}
    assert put_right(bench) == NOTHING
