from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from embed_bench import Bench, Poisoned

from headwater.flows.vector_worker import VectorWorker
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import content_hash
from headwater.schemas.jobs import JobCounts
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.tables import LanceStore
from headwater.storage.worker_lock import version_lock

CHILD = Path(__file__).parents[1] / "support" / "poison_child.py"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty home."""
    made = Bench(tmp_path / "h")
    yield made
    made.outbox.close()


def worker(bench: Bench, encoder: HashEncoder | None = None) -> VectorWorker:
    """Return a worker on the bench's clock."""
    return VectorWorker(bench.home, encoder or bench.encoder, owner="w", clock=bench.clock)


def test_all_due_jobs_are_processed(bench: Bench) -> None:
    """The result counts what was done, and a second pass finds nothing."""
    bench.add("one", "two")
    made = worker(bench)
    assert made.has_work()
    assert made.process_all() == {"processed": 2, "succeeded": 2, "failed": 0, "errors": []}
    assert not made.has_work()
    assert made.process_all() == {"processed": 0, "succeeded": 0, "failed": 0, "errors": []}
    made.release()


def test_errors_name_their_jobs(bench: Bench) -> None:
    """A failing item is in the result with its job and error, and due again after its wait."""
    bench.add("good", "poison")
    made = worker(bench, Poisoned())
    result = made.process_all()
    assert (result["processed"], result["succeeded"], result["failed"]) == (2, 1, 1)
    (error,) = result["errors"]
    job = bench.outbox.get_job(error["job_id"])
    assert job is not None
    assert (job.item_id, job.error) == ("evt_0001", error["error"])
    assert not made.has_work()
    bench.clock.move(limits.BACKOFF_S[0])
    assert made.has_work()
    made.release()


def test_one_worker_at_a_time(bench: Bench) -> None:
    """A worker in a block keeps others out for all of it; without one it does for each call."""
    bench.add("one")
    with worker(bench) as first:
        second = worker(bench)
        assert not second.acquire()
        with pytest.raises(BusyError), second:
            pass
        with pytest.raises(BusyError):
            second.process_all()
        assert first.process_all()["succeeded"] == 1
    assert second.process_all()["processed"] == 0
    assert second.acquire()
    assert second.acquire()
    second.release()


def test_a_lock_that_is_held_already_is_used(bench: Bench) -> None:
    """Whoever took the lock before the model was loaded hands it over."""
    bench.add("one")
    lock = version_lock(bench.home, bench.encoder.version)
    assert lock.acquire()
    with VectorWorker(bench.home, bench.encoder, lock=lock, clock=bench.clock) as made:
        assert made.process_all()["succeeded"] == 1
    assert not lock.is_mine


def test_a_stop_ends_it(bench: Bench) -> None:
    """A worker that is told to stop leaves the jobs pending."""
    bench.add("one")
    stop = threading.Event()
    stop.set()
    made = VectorWorker(bench.home, bench.encoder, stop=stop, clock=bench.clock)
    assert made.process_all()["processed"] == 0
    assert bench.outbox.counts() == JobCounts(pending=1)
    made.release()


def test_lost_outbox_is_filled_again(bench: Bench) -> None:
    """A worker whose outbox is deleted asks for what has no vectors, and embeds nothing twice."""
    bench.add("one", "two")
    made = worker(bench)
    made.process_all()
    bench.add("three", start=2)
    bench.outbox.close()
    for path in bench.home.root.glob("outbox.sqlite*"):
        path.unlink()
    assert made.has_work()
    assert made.process_all()["processed"] == 1
    assert len(bench.sets()) == 3
    made.release()


def test_old_done_jobs_are_cleaned_up(bench: Bench) -> None:
    """Now and then done jobs of last week go; their vectors stay and are not made again."""
    bench.add("one")
    with worker(bench) as made:
        made.process_all()
        bench.clock.move(limits.JOBS_DONE_KEPT_S + 1)
        assert made.process_all()["processed"] == 0
        assert bench.outbox.counts() == JobCounts()
        assert made.compare() == 0
    assert len(bench.sets()) == 1


def test_an_item_deleted_while_it_is_embedded_keeps_no_vectors(bench: Bench) -> None:
    """Its job is gone when it is to be marked, and what was written for it goes as well."""
    ids = bench.add("goes", "stays")
    events = LanceStore(bench.home.lance).open(EVENTS)

    class Deleting(HashEncoder):
        def encode_documents(
            self, texts: Sequence[str], between: Callable[[], None] | None = None
        ) -> npt.NDArray[np.float32]:
            events.delete(f"id = '{ids[0]}'")
            bench.outbox.remove(ItemKind.ENTRY, ids[:1])
            return super().encode_documents(texts, between)

    result = worker(bench, Deleting()).process_all()
    assert (result["processed"], result["succeeded"], result["failed"]) == (2, 1, 0)
    assert bench.sets() == {ids[1]: content_hash("stays")}


def test_poison_that_kills_the_process_ends_failed_alone(bench: Bench) -> None:
    """Workers die at one item: it ends failed after its tries, all others of its batches are done."""
    bench.add("a", "b", "poison", *[f"t{n}" for n in range(9)])
    deaths = 0
    while (
        done := subprocess.run(
            [sys.executable, str(CHILD), str(bench.home.root)], capture_output=True, timeout=60, check=False
        )
    ).returncode:
        assert done.returncode == -signal.SIGKILL, done.stderr
        deaths += 1
        assert deaths < 10
    assert deaths == 1 + limits.RETRIES_MAX
    assert json.loads(done.stdout)["failed"] == 0  # it failed before: nobody marked it
    assert bench.outbox.counts() == JobCounts(done=11, failed=1)
    (failed,) = bench.outbox.failed_jobs()
    assert (failed.item_id, failed.retry_count) == ("evt_0002", limits.RETRIES_MAX)
    assert len(bench.sets()) == 11
