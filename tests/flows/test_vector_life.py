"""Items, jobs and vectors through all that may happen to them, over real tables and a clock of the test's own."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path

from embed_bench import NOW
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.flows.embed_steps import EmbedSteps
from headwater.flows.items import Items
from headwater.flows.missing import missing_vectors, orphaned_vectors
from headwater.flows.reconcile import reconcile
from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import Event, ItemKind, Kind
from headwater.schemas.ids import content_hash
from headwater.schemas.jobs import JobRequest
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.home import Home
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorStore

ITEMS = st.sampled_from([f"evt_{n}" for n in range(4)])
LONG = " ".join(f"w{n}" for n in range(300))
TEXTS = st.sampled_from(["short", "other", " ", LONG])
STAGES = ("claimed", "loaded", "encoded", "written")


class Life(RuleBasedStateMachine):
    """A home in which items come, change and go, while workers work, fail and die."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Home.open(Path(tempfile.mkdtemp()))
        self.clock = FakeClock(NOW)
        self.encoder = HashEncoder()
        self.events = LanceStore(self.home.lance).open(EVENTS)
        self.vectors = VectorStore(self.home)
        self.outbox = VectorOutbox(self.home.outbox_file, self.clock)
        self.live: dict[str, str] = {}  # the model: what is there, with its text
        self.workers = 0

    @initialize()
    def begin(self) -> None:
        """Some items have their vectors, one of them several."""
        for n, text in enumerate(("short", LONG)):
            self.write(f"evt_{n}", text, asked=True)
        self.work("done", None, gone=False)
        assert self.vectors.count_items(self.encoder.version) == 2

    @rule(item=ITEMS, text=TEXTS, asked=st.sampled_from([True, True, False]))
    def write(self, item: str, text: str, asked: bool) -> None:
        """An item is new or has another text; its writer may die before it asks for vectors."""
        event = Event(
            id=item,
            agent="a",
            session_id="s",
            project="p",
            at=NOW,
            kind=Kind.PROMPT,
            content=text,
            content_hash=content_hash(text),
        )
        self.events.upsert(events_to_arrow([event]))
        self.live[item] = text
        if asked:
            self.outbox.enqueue(JobRequest(ItemKind.ENTRY, item, self.encoder.version, event.content_hash))

    @rule(item=ITEMS, whole=st.sampled_from([False, False, True]))
    def delete(self, item: str, whole: bool) -> None:
        """An item goes; whoever deletes it may die before its job and vectors are gone."""
        self.events.delete(f"id = '{item}'")
        self.live.pop(item, None)
        if whole:
            self.outbox.remove(ItemKind.ENTRY, [item])
            self.vectors.delete_items(ItemKind.ENTRY, [item])

    @rule(
        stage=st.sampled_from(["done"] * 6 + [*STAGES]),
        changes=st.none() | st.none() | ITEMS,
        gone=st.booleans(),
    )
    def work(self, stage: str, changes: str | None, gone: bool) -> None:
        """A worker takes one claim as far as a stage, then dies; meanwhile an item may change or go."""
        steps = self._steps()
        jobs = steps.claim_jobs()
        if not jobs or stage == "claimed":
            return
        work = steps.load_items(jobs)
        if stage == "loaded":
            return
        work = steps.encode_batch(steps.chunk_items(work))
        if changes is not None and changes in self.live:
            if gone:
                self.delete(changes, whole=True)
            else:
                self.write(changes, f"changed {self.workers}", asked=True)
        if stage == "encoded":
            return
        work = steps.write_vectors(work)
        if stage == "done":
            steps.mark_done([work])

    @rule(wait_s=st.sampled_from([0.0, limits.OUTAGE_WAIT_S]), newest=st.booleans())
    def outage(self, wait_s: float, newest: bool) -> None:
        """A model or disk that is broken as a whole: what was claimed is given back, and no try is counted."""
        version = self.encoder.version
        jobs = self.outbox.claim_jobs("out", 2, version, newest_first=newest)
        assert self.outbox.release("out", version, wait_s, "disk full") == len(jobs)
        for job in jobs:
            now = self.outbox.get_job(job.job_id)
            assert now is not None
            assert (now.status, now.retry_count) == ("pending", job.retry_count)

    @rule()
    def fail(self) -> None:
        """A worker whose model is broken fails all it takes."""
        for job in self.outbox.claim_jobs("broken", 9, self.encoder.version):
            self.outbox.mark_failed("broken", job.job_id, "model broken")

    @rule(duration_s=st.sampled_from([1.0, 30.0, limits.LEASE_S]))
    def wait(self, duration_s: float) -> None:
        """Time passes; leases may run out."""
        self.clock.move(duration_s)

    @rule()
    def take_over(self) -> None:
        """A new worker finds what a dead one had leased."""
        self.outbox.recover_abandoned(self.encoder.version)

    @rule()
    def put_right(self) -> None:
        """Somebody reconciles."""
        reconcile(self.home, self.outbox, self.encoder.version)

    @rule()
    def lose_outbox(self) -> None:
        """The outbox is deleted."""
        self.outbox.close()
        for path in self.home.root.glob("outbox.sqlite*"):
            path.unlink()

    @rule()
    def lose_vectors(self) -> None:
        """The vectors are deleted."""
        self.vectors.drop(self.encoder.version)

    @invariant()
    def one_set_each(self) -> None:
        """No item ever has two vector sets, or half of one."""
        rows = self.vectors._table("entry", self.encoder.version).scan(["item_id", "chunk_n", "content_hash"])
        for _, chunks in rows.group_by("item_id"):
            assert chunks["content_hash"].n_unique() == 1
            assert sorted(chunks["chunk_n"]) == list(range(chunks.height))

    def teardown(self) -> None:
        """In the end each live text has exactly one set of vectors, of this text, and nothing else has any."""
        try:
            reconcile(self.home, self.outbox, self.encoder.version, retries_max=99)
            while self.outbox.next_due(self.encoder.version) is not None:
                steps = self._steps()
                while jobs := steps.claim_jobs():
                    work = steps.encode_batch(steps.chunk_items(steps.load_items(jobs)))
                    steps.mark_done([steps.write_vectors(work)])
                self.clock.move(60)
            sets = self.vectors.item_ids(self.encoder.version).select("item_id", "content_hash").rows()
            wanted = {(item, content_hash(text)) for item, text in self.live.items() if text.strip()}
            assert sorted(sets) == sorted(wanted)
            assert missing_vectors(self.home, self.encoder.version).is_empty()
            assert orphaned_vectors(self.home, self.encoder.version).is_empty()
        finally:
            with closing(self.outbox):
                shutil.rmtree(self.home.root)

    def _steps(self) -> EmbedSteps:
        self.workers += 1
        return EmbedSteps(
            self.outbox,
            Items(self.home),
            self.vectors,
            self.encoder,
            owner=f"w{self.workers}",
            clock=self.clock,
        )


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=min(settings().max_examples // 2, 50),  # each writes real tables
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
