from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from embed_bench import Bench, Poisoned, steps_of

from headwater.flows.embed_steps import EmbedReport
from headwater.schemas import limits
from headwater.schemas.errors import BusyError, StoreError
from headwater.schemas.events import ItemKind, Kind
from headwater.schemas.ids import content_hash
from headwater.schemas.jobs import JobCounts, JobRequest
from headwater.storage.faults import Plan, planned
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.locks import hold_lock
from headwater.storage.vectors import VectorStore, lock_name


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty home."""
    made = Bench(tmp_path / "h")
    yield made
    made.outbox.close()


class TestRun:
    """What a run does with jobs."""

    def test_every_job_gets_its_vectors(self, bench: Bench) -> None:
        """All due jobs are done when a run ends, more than one claim's worth, and are found by their text."""
        ids = bench.add(*[f"text number {n} about topic{n}" for n in range(120)])
        assert bench.run() == EmbedReport(processed=120, succeeded=120)
        assert bench.outbox.counts() == JobCounts(done=120)
        assert bench.sets() == {
            id_: content_hash(f"text number {n} about topic{n}") for n, id_ in enumerate(ids)
        }
        query = bench.encoder.encode_query("topic77 text number 77 about")
        found = bench.vectors.nearest(bench.encoder.version, query, "project = 'p' AND kind = 'prompt'", 1)
        assert found.select("item_kind", "item_id", "content").row(0) == (
            "entry",
            ids[77],
            "text number 77 about topic77",
        )

    def test_nothing_to_do_ends_at_once(self, bench: Bench) -> None:
        """A run without jobs, and one over a home without tables, ends with an empty report."""
        assert bench.run() == EmbedReport()
        bench.add("done")
        bench.run()
        assert bench.run() == EmbedReport()

    def test_changed_text_replaces_its_vectors(self, bench: Bench) -> None:
        """A longer and then a shorter text leave the chunks of the newest one only."""
        (item,) = bench.add("first")
        bench.run()
        bench.add(" ".join(f"word{n}" for n in range(500)))
        bench.run()
        assert len(bench.chunks(item)) == 3
        bench.add("last")
        bench.run()
        assert bench.chunks(item) == ["last"]
        assert bench.sets() == {item: content_hash("last")}

    def test_empty_text_is_done_without_a_vector(self, bench: Bench) -> None:
        """An empty text ends done, and takes older vectors away."""
        item, other = bench.add("something", "   \n")
        bench.run()
        assert set(bench.sets()) == {item}
        bench.add("")
        assert bench.run() == EmbedReport(processed=1, succeeded=1)
        assert bench.sets() == {}
        assert bench.outbox.counts() == JobCounts(done=2)
        assert bench.chunks(other) == []

    def test_chunks_by_kind(self, bench: Bench) -> None:
        """A long tool text gives its head and its tail; other items give up to sixteen chunks."""
        text = " ".join(f"w{n}" for n in range(20_000))
        (prompt,) = bench.add(text)
        (tool,) = bench.add(text, kind=Kind.TOOL, start=1)
        bench.run()
        assert len(bench.chunks(prompt)) == limits.CHUNKS_ITEM
        head, tail = bench.chunks(tool)
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head.split()) == len(tail.split()) == limits.CHUNK_TOKENS

    def test_missing_content_fails_with_its_name(self, bench: Bench) -> None:
        """A job whose item is not there fails, tries again later, and ends failed; others are not touched."""
        bench.add("here")
        bench.ask(("evt_gone", "h"))
        bench.ask(("mem_1", "h"), kind=ItemKind.MEMORY)
        report = bench.run()
        assert (report.processed, report.succeeded, report.failed) == (3, 1, 2)
        assert [error["error"] for error in report.errors] == [
            "Content not found: entry:evt_gone",
            "Content not found: memory:mem_1",
        ]
        bench.wear_out(bench.encoder)
        assert bench.outbox.counts() == JobCounts(done=1, failed=2)

    def test_oldest_job_first(self, bench: Bench) -> None:
        """Jobs are worked off in the order in which they were asked for."""
        ids = bench.add(*[f"t{n}" for n in range(30)])
        order: list[str] = []
        steps = steps_of(bench)
        while jobs := steps.claim_jobs():
            order += [job.item_id for job in jobs]
            steps.mark_done([steps.load_items(jobs)])
        assert order == ids

    def test_only_jobs_of_the_version(self, bench: Bench) -> None:
        """Jobs of another embedding version stay where they are."""
        bench.add("mine")
        bench.outbox.enqueue_batch([JobRequest(ItemKind.ENTRY, "evt_0000", "other-64-0123456789ab", "h")])
        assert bench.run().processed == 1
        assert bench.outbox.counts("other-64-0123456789ab") == JobCounts(pending=1)


class TestFailures:
    """What goes wrong stays small."""

    def test_one_bad_item_fails_alone(self, bench: Bench) -> None:
        """The other items of its batch get their vectors; it fails with the model's error."""
        ids = bench.add("good one", "some poison here", "good two")
        report = bench.run(Poisoned())
        assert (report.processed, report.succeeded, report.failed) == (3, 2, 1)
        assert "got poison" in report.errors[0]["error"]
        assert set(bench.sets()) == {ids[0], ids[2]}

    def test_bad_item_ends_failed(self, bench: Bench) -> None:
        """After its tries it is given up, and no run takes it again."""
        bench.add("poison")
        assert bench.run(Poisoned()).failed == 1
        bench.wear_out(Poisoned())
        assert bench.outbox.counts() == JobCounts(failed=1)
        assert bench.run() == EmbedReport()

    def test_broken_model_fails_every_job_with_its_error(self, bench: Bench) -> None:
        """A model that fails for everything leaves all jobs to be tried again, and a report that stays small."""
        bench.add(*[f"t{n}" for n in range(150)])
        report = bench.run(Poisoned("t"))
        assert (report.processed, report.failed) == (150, 150)
        assert len(report.errors) == limits.EMBED_ERRORS_KEPT
        assert bench.outbox.counts().done == 0
        bench.clock.move(60)
        assert bench.run().succeeded == 150

    def test_item_that_cannot_be_written_fails_alone(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A store that refuses one item takes the others; nothing of the refused one is left half."""
        ids = bench.add("one", "two", "three")
        put = VectorStore.put

        def picky(store: VectorStore, kind: str, version: str, sets: list, now: datetime) -> None:  # type: ignore[type-arg]
            if any(one.item_id == ids[1] for one in sets):
                raise StoreError("table", "refused", "none")
            put(store, kind, version, sets, now)

        monkeypatch.setattr(VectorStore, "put", picky)
        report = bench.run()
        assert (report.succeeded, report.failed) == (2, 1)
        assert set(bench.sets()) == {ids[0], ids[2]}

    def test_broken_store_ends_the_run(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """When nothing can be written, the run ends with the store's error; all jobs keep their tries."""
        bench.add(*[f"t{n}" for n in range(60)])

        def full(*_: object) -> None:
            raise StoreError("table", "no space left", "free disk space")

        with monkeypatch.context() as patch:
            patch.setattr(VectorStore, "put", full)
            with pytest.raises(StoreError, match="no space left"):
                bench.run()
        assert bench.outbox.counts() == JobCounts(pending=60)
        assert {job.retry_count for job in bench.outbox.pending_jobs()} == {0}
        bench.clock.move(limits.OUTAGE_WAIT_S)
        assert bench.run().succeeded == 60

    def test_one_job_on_a_full_disk_keeps_its_tries(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether the item or the disk is to blame is seen by writing to the disk."""
        bench.add("one")

        def full(*_: object) -> None:
            raise StoreError("table", "no space left", "free disk space")

        monkeypatch.setattr(VectorStore, "put", full)
        with monkeypatch.context() as patch:
            patch.setattr(VectorStore, "check_writable", full)
            with pytest.raises(StoreError, match="no space left"):
                bench.run()
        (job,) = bench.outbox.pending_jobs()
        assert (job.retry_count, job.error) == (0, "table: no space left. Fix: free disk space")
        bench.clock.move(limits.OUTAGE_WAIT_S)
        assert bench.run().failed == 1

    def test_a_disk_that_takes_nothing_is_seen(self, bench: Bench, tmp_path: Path) -> None:
        """Writing to it is tried; what was written for that does not stay."""
        assert limits.DISK_PROBE_BYTES > 0
        bench.vectors.check_writable()
        assert list(bench.home.vectors.iterdir()) == []
        bench.home.vectors.rmdir()
        bench.home.vectors.write_text("in the way")
        with pytest.raises(StoreError, match="cannot be written"):
            bench.vectors.check_writable()

    @pytest.mark.parametrize("point", ["embed.claimed", "embed.encoded", "embed.trimmed", "embed.written"])
    def test_crash_leaves_one_vector_set_after_the_next_run(self, bench: Bench, point: str) -> None:
        """A run that ends anywhere, also between vectors and done, is completed by the next, without a second set."""
        bench.add(" ".join(f"old{n}" for n in range(500)))
        bench.run()
        bench.add("new text", "another")
        with planned(Plan(point, 1)) as plan, pytest.raises(StoreError):
            bench.run()
        assert plan.fired
        bench.clock.move(60)
        report = bench.run()
        assert report.failed == 0
        assert bench.outbox.counts() == JobCounts(done=2)
        assert set(bench.sets().values()) == {content_hash("new text"), content_hash("another")}

    def test_second_worker_of_a_version_is_refused(self, bench: Bench) -> None:
        """Two runs never write one version at a time."""
        held = hold_lock(bench.home.run / lock_name(bench.encoder.version), "embedding")
        with held, pytest.raises(BusyError):
            bench.run()


class TestLeases:
    """Whose job it is."""

    def test_job_that_changes_meanwhile_is_not_marked(self, bench: Bench) -> None:
        """A text that changes while it is embedded is embedded again, and not counted as done before."""
        (item,) = bench.add("before")

        class Late(HashEncoder):
            def encode_documents(
                self, texts: Sequence[str], between: Callable[[], None] | None = None
            ) -> npt.NDArray[np.float32]:
                if texts == ["before"]:
                    bench.add("after")
                return super().encode_documents(texts, between)

        report = bench.run(Late())
        assert (report.processed, report.succeeded, report.failed) == (2, 1, 0)
        assert bench.sets() == {item: content_hash("after")}

    def test_leases_are_renewed_while_a_batch_lasts(self, bench: Bench) -> None:
        """A batch that lasts longer than a lease keeps its jobs."""
        bench.add("one", "two")
        taken: list[int] = []

        class Slow(HashEncoder):
            def encode_documents(
                self, texts: Sequence[str], between: Callable[[], None] | None = None
            ) -> npt.NDArray[np.float32]:
                for _ in range(5):
                    bench.clock.move(limits.LEASE_S / 2)
                    assert between is not None
                    between()
                    taken.append(len(bench.outbox.claim_jobs("thief", 9, bench.encoder.version)))
                return super().encode_documents(texts)

        assert bench.run(Slow()).succeeded == 2
        assert taken == [0] * 5
