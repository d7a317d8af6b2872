"""Whoever waits for vectors waits for all of them, whoever makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from embed_bench import Bench

from headwater.flows.vector_worker import VectorWorker
from headwater.schemas import limits
from headwater.schemas.clock import SYSTEM
from headwater.schemas.errors import ModelError, StoreError
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobCounts
from headwater.storage import embedder
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.outbox import VectorOutbox
from headwater.storage.worker_lock import version_lock
from headwater.surface.console import Progress
from headwater.surface.pending import embed_pending


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A home whose jobs stand on the machine's clock, and whose model is the built-in one."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    made = Bench(tmp_path / "h")
    made.outbox = VectorOutbox(made.home.outbox_file)
    yield made
    made.outbox.close()


def test_nobody_works_so_it_does(bench: Bench) -> None:
    """Without any worker all is embedded here, also what has no job yet."""
    bench.add("one", "two")
    bench.outbox.remove(ItemKind.ENTRY, ["evt_0000"])
    assert embed_pending(bench.home, Progress("embedding")) == 2
    assert embed_pending(bench.home, Progress("embedding")) == 0


def test_a_running_worker_is_waited_for(bench: Bench) -> None:
    """While another worker holds the lock nothing is embedded here, and the wait ends when its work is done."""
    bench.add("one", "two")
    held, go = threading.Event(), threading.Event()

    def other() -> None:
        with VectorWorker(bench.home, HashEncoder(), owner="other") as worker:
            held.set()
            go.wait(60)
            worker.process_all()

    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(60)
    threading.Timer(0.5, go.set).start()
    assert embed_pending(bench.home, Progress("embedding")) == 2
    thread.join(60)
    assert bench.outbox.counts() == JobCounts(done=2)


def test_another_try_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that fails once is embedded at its second try, and counted; the model is loaded once."""
    failed: list[str] = []
    loaded: list[object] = []

    class Once(HashEncoder):
        def encode_documents(
            self, texts: Sequence[str], between: Callable[[], None] | None = None
        ) -> npt.NDArray[np.float32]:
            if "bad" in texts and len(failed) < 2:  # in its batch, and alone
                failed.append("bad")
                raise ModelError("model", "wanted a vector, got none", "none")
            return super().encode_documents(texts, between)

    def load(*args: object) -> Once:
        loaded.append(args)
        return Once()

    monkeypatch.setattr(embedder, "load", load)
    bench.add("good", "bad")
    started_s = SYSTEM.monotonic_s()
    assert embed_pending(bench.home, Progress("embedding")) == 2
    assert SYSTEM.monotonic_s() - started_s >= limits.BACKOFF_S[0] * 0.9
    assert len(loaded) == 1


def test_a_worker_that_gets_no_further_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever for a worker that hangs."""
    bench.add("one")
    monkeypatch.setattr(limits, "EMBED_WAIT_S", 0.2)
    with (
        version_lock(bench.home, bench.encoder.version),
        pytest.raises(StoreError, match="got no further, 1 items wait"),
    ):
        embed_pending(bench.home, Progress("embedding"))
