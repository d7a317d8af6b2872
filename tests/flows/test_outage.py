"""A model or a store that is broken as a whole costs no item a try, and nobody has to lend a hand afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from embed_bench import Bench, Poisoned

from headwater.flows.vector_worker import VectorWorker
from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.errors import ModelError, StoreError
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobCounts, JobRequest
from headwater.storage.faults import Plan, planned
from headwater.storage.outbox import VectorOutbox
from headwater.storage.vectors import VectorSet, VectorStore


class Broken(Poisoned):
    """Encodes nothing until a moment of the clock; then all but poison."""

    def __init__(self, clock: FakeClock, until_s: float) -> None:
        super().__init__()
        self.clock = clock
        self.until_s = until_s

    def encode_documents(
        self, texts: Sequence[str], between: Callable[[], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Refuse everything while broken."""
        if self.clock.monotonic_s() < self.until_s:
            raise ModelError("model", "wanted vectors, got out of memory", "wait")
        return super().encode_documents(texts, between)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty home."""
    made = Bench(tmp_path / "h")
    yield made
    made.outbox.close()


def work(bench: Bench, encoder: Broken, limit_s: float) -> int:
    """Let a worker work for so long, as the server does, and return how often the model was found broken."""
    worker = VectorWorker(bench.home, encoder, owner="w", clock=bench.clock)
    until_s = bench.clock.monotonic_s() + limit_s
    outages = 0
    while bench.clock.monotonic_s() < until_s:
        if worker.has_work():
            try:
                worker.process_all()
            except ModelError:
                outages += 1
        bench.clock.move(limits.POLL_JOBS_S)
    worker.release()
    return outages


def test_a_model_that_fails_for_a_minute_leaves_nothing_behind(bench: Bench) -> None:
    """When it is back, all is embedded without anybody's hand: nothing pending, nothing failed, no try counted."""
    bench.add(*[f"text {n}" for n in range(120)])
    outages = work(bench, Broken(bench.clock, bench.clock.monotonic_s() + 60), 75)
    assert 60 / limits.OUTAGE_WAIT_S / 2 <= outages <= 60 / limits.OUTAGE_WAIT_S
    assert bench.outbox.counts() == JobCounts(done=120)
    assert len(bench.sets()) == 120


def test_while_it_fails_the_error_is_shown(bench: Bench) -> None:
    """Waiting jobs say what they wait for, and stay untried."""
    bench.add("one", "two")
    work(bench, Broken(bench.clock, bench.clock.monotonic_s() + 99), 60)
    jobs = bench.outbox.pending_jobs()
    assert [job.retry_count for job in jobs] == [0, 0]
    assert {job.error for job in jobs} == {"model: wanted vectors, got out of memory. Fix: wait"}


def test_poison_still_ends_failed_beside_an_outage(bench: Bench) -> None:
    """A bad item uses up its own tries while the model is sound, and the others are done."""
    bench.add("good", "poison", "also good")
    work(bench, Broken(bench.clock, bench.clock.monotonic_s() + 60), 120)
    assert bench.outbox.counts() == JobCounts(done=2, failed=1)
    (failed,) = bench.outbox.failed_jobs()
    assert failed.retry_count == limits.RETRIES_MAX
    assert failed.error == "model: wanted a vector, got poison. Fix: none"


def test_a_suspect_stays_one_through_an_outage(bench: Bench) -> None:
    """A job whose worker died is still claimed alone after it was given back."""
    bench.add("one", "two")
    version = bench.encoder.version
    bench.outbox.claim_jobs("dead", 1, version)
    bench.outbox.recover_abandoned(version)
    assert len(bench.outbox.claim_jobs("w", 9, version)) == 1
    assert bench.outbox.release("w", version, 0, "model broken") == 1
    assert [job.item_id for job in bench.outbox.claim_jobs("w", 9, version)] == ["evt_0000"]
    (job,) = bench.outbox.claim_jobs("v", 9, version)
    assert job.item_id == "evt_0001"


def test_release_gives_back_only_ones_own(bench: Bench) -> None:
    """Jobs of another owner stay leased; given back ones wait, are not counted, and can be claimed again."""
    bench.add("one", "two")
    version = bench.encoder.version
    bench.outbox.claim_jobs("a", 1, version)
    bench.outbox.claim_jobs("b", 1, version)
    assert bench.outbox.release("a", version, 5, "disk full") == 1
    assert bench.outbox.release("a", version, 5, "disk full") == 0
    assert bench.outbox.counts() == JobCounts(pending=1, processing=1)
    assert bench.outbox.claim_jobs("a", 9, version) == []
    bench.clock.move(5)
    (job,) = bench.outbox.claim_jobs("a", 9, version)
    assert (job.item_id, job.retry_count) == ("evt_0000", 0)


def test_a_full_outbox_costs_one_try_at_most(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """When jobs cannot even be given back, the run still ends with what was first wrong."""
    bench.add("one", "two")

    def full(*_: object) -> None:
        raise StoreError("outbox", "disk full", "free some")

    with monkeypatch.context() as patch:
        patch.setattr(VectorStore, "put", full)
        patch.setattr(VectorOutbox, "release", full)
        with pytest.raises(StoreError, match="disk full") as caught:
            bench.run()
    assert "stay leased" in caught.value.__notes__[0]
    assert bench.run().succeeded == 2
    assert {job.retry_count for job in bench.outbox.failed_jobs()} == set()


def test_what_a_dead_worker_wrote_is_not_embedded_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between vectors and done, the next run only says done."""
    bench.add(*[f"t{n}" for n in range(5)])
    with planned(Plan("embed.written", 1)), pytest.raises(Exception, match="ended"):
        bench.run()
    assert len(bench.sets()) == 5
    written: list[str] = []
    put = VectorStore.put

    def counted(store: VectorStore, kind: str, version: str, sets: Sequence[VectorSet], now: object) -> None:
        written.extend(one.item_id for one in sets)
        put(store, kind, version, sets, now)  # type: ignore[arg-type]

    monkeypatch.setattr(VectorStore, "put", counted)
    assert bench.run().succeeded == 5
    assert written == []
    bench.add("t0 changed")
    assert bench.run().succeeded == 1
    assert written == ["evt_0000"]
    assert bench.vectors.hashes(ItemKind.ENTRY, bench.encoder.version, ["nobody"]) == {}


def test_newest_first_when_asked(bench: Bench) -> None:
    """What was asked for last is claimed first; what was asked for together keeps its order."""
    version = bench.encoder.version
    bench.add("old one", "old two")
    bench.clock.move(1)
    bench.outbox.enqueue_batch([JobRequest(ItemKind.ENTRY, name, version, "h") for name in ("x", "y")])
    jobs = bench.outbox.claim_jobs("w", 9, version, newest_first=True)
    assert [job.item_id for job in jobs] == ["x", "y", "evt_0001", "evt_0000"]
