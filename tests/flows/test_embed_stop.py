from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main
from embed_bench import Bench, steps_of

from headwater.flows.embed import embed_flow
from headwater.flows.embed_steps import ClaimPace, EmbedReport
from headwater.schemas import limits
from headwater.schemas.jobs import JobCounts
from headwater.storage.hash_encoder import HashEncoder


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty home."""
    made = Bench(tmp_path / "h")
    yield made
    made.outbox.close()


class TestStop:
    """Ending early."""

    def test_stop_ends_within_one_batch(self, bench: Bench) -> None:
        """After `stop` the batch at hand is completed and no other is claimed."""
        bench.add(*[f"t{n}" for n in range(100)])
        stop = threading.Event()

        class Stopping(HashEncoder):
            def encode_documents(
                self, texts: Sequence[str], between: Callable[[], None] | None = None
            ) -> npt.NDArray[np.float32]:
                stop.set()
                return super().encode_documents(texts, between)

        report = bench.run(Stopping(), stop)
        assert report.succeeded == report.processed == limits.EMBED_CLAIM_FIRST
        assert bench.outbox.counts() == JobCounts(pending=100 - report.processed, done=report.processed)

    def test_stop_before_the_start_claims_nothing(self, bench: Bench) -> None:
        """A run that is stopped already touches no job."""
        bench.add("one")
        stop = threading.Event()
        stop.set()
        assert bench.run(stop=stop) == EmbedReport()
        assert bench.outbox.counts() == JobCounts(pending=1)

    def test_one_claim_at_a_time(self, bench: Bench) -> None:
        """The flow does not lease jobs ahead: a claim comes only after the one before is finished."""
        bench.add(*[f"t{n}" for n in range(200)])
        processing: list[int] = []
        steps = steps_of(bench)
        claim = steps.claim_jobs

        def watched() -> list[object]:
            processing.append(bench.outbox.counts().processing)
            return list(claim())

        steps.claim_jobs = watched  # type: ignore[assignment, method-assign]
        run_main(embed_flow(steps))  # type: ignore[no-untyped-call]
        assert steps.report.succeeded == 200
        assert set(processing) == {0}


def test_runs_in_a_thread_beside_another_flow(bench: Bench) -> None:
    """The embed flow runs in a thread while another flow runs in this process."""
    bench.add(*[f"t{n}" for n in range(60)])
    reports: list[EmbedReport] = []
    inside, ended = threading.Event(), threading.Event()

    class Waiting(HashEncoder):
        def encode_documents(
            self, texts: Sequence[str], between: Callable[[], None] | None = None
        ) -> npt.NDArray[np.float32]:
            inside.set()
            assert ended.wait(60)
            return super().encode_documents(texts, between)

    thread = threading.Thread(target=lambda: reports.append(bench.run(Waiting())))
    thread.start()
    assert inside.wait(60)
    out: list[int] = []
    flow = Dataflow("other")
    numbers = op.input("numbers", flow, TestingSource(range(100)))
    op.output("out", numbers, TestingSink(out))
    run_main(flow)  # type: ignore[no-untyped-call]
    assert out == list(range(100))
    ended.set()
    thread.join(60)
    assert [report.succeeded for report in reports] == [60]


def test_claims_follow_the_speed() -> None:
    """Claims grow to the limit on a fast machine, shrink to one on a slow one, and never by more than two."""
    pace = ClaimPace()
    assert pace.jobs == limits.EMBED_CLAIM_FIRST
    for _ in range(10):
        before = pace.jobs
        pace.note(before, 0.0)
        assert before <= pace.jobs <= 2 * before
    assert pace.jobs == limits.CLAIM_JOBS
    for _ in range(10):
        pace.note(pace.jobs, 1_000.0)
    assert pace.jobs == 1
    pace.note(1, limits.EMBED_CLAIM_S)
    assert pace.jobs == 1
