"""Going from one model to another: beside the old one, in any number of runs, nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from embed_bench import Bench, Poisoned

from headwater.flows.probe import compare
from headwater.flows.reembed import ReembedReport, reembed
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError, HeadwaterError, ModelError
from headwater.schemas.jobs import JobCounts
from headwater.storage.faults import Plan, planned
from headwater.storage.tables import LanceStore
from headwater.storage.worker_lock import version_lock

NEW = "other-64-0123456789ab"


class Other(Poisoned):
    """The built-in hashing under another version; it counts what it encodes."""

    def __init__(self, during: Callable[[Sequence[str]], None] | None = None) -> None:
        super().__init__()
        self.encoded: list[str] = []
        self.during = during

    @property
    def version(self) -> str:
        """A version of its own, of the same dimension."""
        return NEW

    def encode_documents(
        self, texts: Sequence[str], between: Callable[[], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Hash, mirrored, so that the vectors are not those of the old version."""
        if self.during is not None:
            self.during(texts)
        found = -super().encode_documents(texts, between)
        self.encoded += texts
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A home with ten prompts that have vectors of the old version."""
    made = Bench(tmp_path / "h")
    made.add(*[f"text {n} about topic{n % 3}" for n in range(10)])
    made.run()
    yield made
    made.outbox.close()


def run(bench: Bench, encoder: Other, **more: object) -> ReembedReport:
    """Embed with another model on the bench's clock."""
    return reembed(bench.home, encoder, clock=bench.clock, **more)  # type: ignore[arg-type]


def sets(bench: Bench) -> set[str]:
    """Return the items with vectors of the new version; each has one set."""
    ids = bench.vectors.item_ids(NEW).get_column("item_id").to_list()
    assert len(ids) == len(set(ids))
    return set(ids)


def test_all_items_get_vectors_of_the_new_version(bench: Bench) -> None:
    """The old ones stay as they were, and progress counts what this run embeds."""
    told: list[tuple[int, int]] = []
    report = run(bench, Other(), update=lambda done, total: told.append((done, total)))
    assert (report.embedded, report.items, report.left, report.failed) == (10, 10, 0, 0)
    assert report.is_complete
    assert told[0] == (0, 10)
    assert limits.REEMBED_TELL_S <= limits.REEMBED_COMPARE_S
    assert told[-1] == (10, 10)
    assert sets(bench) == set(bench.sets())
    again = run(bench, Other())
    assert (again.embedded, again.items, again.is_complete) == (0, 10, True)


def test_the_newest_come_first(bench: Bench) -> None:
    """Also what comes in while it runs: it is the newest of all."""
    bench.add(*[f"more {n}" for n in range(30)], start=10)

    def late(texts: Sequence[str]) -> None:
        if not encoder.encoded:
            bench.add("came in later", start=99)
            bench.clock.move(limits.REEMBED_COMPARE_S)

    encoder = Other(late)
    assert run(bench, encoder).embedded == 41
    first = encoder.encoded[: limits.EMBED_CLAIM_FIRST]
    assert first == [f"more {n}" for n in range(29, 29 - limits.EMBED_CLAIM_FIRST, -1)]
    assert encoder.encoded[limits.EMBED_CLAIM_FIRST] == "came in later"
    assert encoder.encoded[-1] == "text 0 about topic0"


@pytest.mark.parametrize("points", [("embed.encoded", "embed.written"), ("embed.claimed", "embed.written")])
def test_killed_twice_nothing_that_was_written_is_embedded_twice(
    bench: Bench, points: tuple[str, str]
) -> None:
    """Each run goes on where the one before ended; what it had not written yet is all that is done again."""
    texts = [f"text {n} about topic{n % 3}" for n in range(10)] + [f"more {n}" for n in range(30)]
    bench.add(*texts[10:], start=10)
    text_of = {f"evt_{n:04d}": text for n, text in enumerate(texts)}
    encoder = Other()
    written: list[set[str]] = [set()]
    for point in points:
        before = len(encoder.encoded)
        with planned(Plan(point, 2)) as plan, pytest.raises(HeadwaterError):
            run(bench, encoder)
        assert plan.fired
        held = sets(bench)
        assert held > written[-1]
        assert not {text_of[item_id] for item_id in written[-1]} & set(encoder.encoded[before:])
        written.append(held)
        assert bench.outbox.counts(NEW).failed == 0
    before = len(encoder.encoded)
    report = run(bench, encoder)
    assert report.is_complete
    assert len(sets(bench)) == 40
    assert len(encoder.encoded[before:]) == 40 - len(written[-1])


def test_a_stop_ends_it_and_the_next_run_goes_on(bench: Bench) -> None:
    """A stop is no error; what is done is kept."""
    bench.add(*[f"more {n}" for n in range(30)], start=10)
    stop = threading.Event()
    report = run(bench, Other(lambda _texts: stop.set()), stop=stop)
    assert not report.is_complete
    assert (report.embedded, report.items, report.left) == (8, 8, 32)
    assert run(bench, Other()).embedded == 32


def test_poison_stays_behind_and_is_tried_again_by_the_next_run(bench: Bench) -> None:
    """It holds up nothing, is counted, and a new run gives it new tries."""
    bench.add("poison", start=10)
    report = run(bench, Other())
    assert (report.embedded, report.failed, report.left, report.is_complete) == (10, 1, 1, True)
    assert run(bench, Other()).failed == 1
    bench.add("cured", start=10)
    assert run(bench, Other()).failed == 0


def test_a_model_that_fails_for_a_minute_is_waited_for(bench: Bench) -> None:
    """No item loses a try, and the run ends well."""
    start_s = bench.clock.monotonic_s()

    def broken(_texts: Sequence[str]) -> None:
        if bench.clock.monotonic_s() < start_s + 60:
            raise ModelError("model", "out of memory", "wait")

    report = run(bench, Other(broken))
    assert (report.embedded, report.failed) == (10, 0)
    assert report.elapsed_s >= 60


def test_a_model_that_stays_broken_is_told(bench: Bench) -> None:
    """After EMBED_WAIT_S nobody waits any longer; the jobs stay."""

    def broken(_texts: Sequence[str]) -> None:
        raise ModelError("model", "out of memory", "wait")

    with pytest.raises(ModelError, match="out of memory"):
        run(bench, Other(broken))
    assert bench.outbox.counts(NEW) == JobCounts(pending=10)
    assert run(bench, Other()).embedded == 10


def test_one_at_a_time(bench: Bench) -> None:
    """A second run, or a worker of that version, keeps it out; the old version's worker does not."""
    with version_lock(bench.home, NEW), pytest.raises(BusyError):
        run(bench, Other())
    with version_lock(bench.home, bench.encoder.version):
        assert run(bench, Other()).embedded == 10


def test_what_was_deleted_meanwhile_leaves_no_vectors(bench: Bench) -> None:
    """An item that goes while the new version is built is not in it."""
    events = LanceStore(bench.home.lance).open(EVENTS)
    run(bench, Other())
    events.delete("id = 'evt_0003'")
    run(bench, Other())
    assert "evt_0003" not in sets(bench)
    assert "evt_0003" in bench.sets()  # the old version's own worker sees to that


class TestProbe:
    """How alike two versions see the stored prompts."""

    def test_the_same_vectors_have_the_same_neighbours(self, bench: Bench) -> None:
        """Mirrored vectors have the same distances: all neighbours are shared."""
        run(bench, Other())
        probe = compare(bench.home, bench.encoder.version, NEW, neighbours=3)
        assert (probe.prompts, probe.neighbours) == (10, 3)
        assert probe.overlap is not None
        assert probe.overlap >= 0.6  # equal distances may come in another order
        assert limits.PROBE_PROMPTS >= 10 <= limits.PROBE_NEIGHBOURS

    def test_other_vectors_have_others(self, bench: Bench) -> None:
        """With chance for vectors hardly any neighbour is shared."""
        bench.add(*[f"more {n} of thing{n % 7}" for n in range(60)], start=10)
        bench.run()

        class Chance(Other):
            def encode_documents(
                self, texts: Sequence[str], between: Callable[[], None] | None = None
            ) -> npt.NDArray[np.float32]:
                vectors = np.random.default_rng(len(texts)).normal(size=(len(texts), self.dim))
                found: npt.NDArray[np.float32] = (
                    vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
                ).astype(np.float32)
                return found

        run(bench, Chance())
        probe = compare(bench.home, bench.encoder.version, NEW, prompts=20)
        assert probe.prompts == 20
        assert probe.overlap is not None
        assert probe.overlap < 0.4

    def test_nothing_to_compare(self, bench: Bench) -> None:
        """Without vectors of one of the two there is no figure."""
        probe = compare(bench.home, bench.encoder.version, NEW)
        assert (probe.prompts, probe.overlap, probe.same_first) == (0, None, None)
