"""A home with an outbox and items, for tests of the embed flow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headwater.flows.embed_run import run_embed
from headwater.flows.embed_steps import EmbedReport, EmbedSteps
from headwater.flows.items import Items
from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.errors import ModelError
from headwater.schemas.events import Event, ItemKind, Kind
from headwater.schemas.ids import content_hash
from headwater.schemas.jobs import JobRequest
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.home import Home
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorStore

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Poisoned(HashEncoder):
    """Fails for every call that holds a poisoned text."""

    def __init__(self, poison: str = "poison") -> None:
        super().__init__()
        self.poison = poison

    def encode_documents(
        self, texts: Sequence[str], between: Callable[[], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Refuse the poison, else hash."""
        if any(self.poison in text for text in texts):
            raise ModelError("model", "wanted a vector, got poison", "none")
        return super().encode_documents(texts, between)


class Bench:
    """A home with events and jobs, and runs of the flow over them on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = Home.open(folder)
        self.clock = FakeClock(NOW)
        self.encoder = HashEncoder()
        self.outbox = VectorOutbox(self.home.outbox_file, self.clock)
        self.vectors = VectorStore(self.home)

    def add(self, *texts: str, kind: Kind = Kind.PROMPT, start: int = 0) -> list[str]:
        """Store events with these texts and ask for their vectors; return their ids."""
        events = [
            Event(
                id=f"evt_{start + n:04d}",
                agent="a",
                session_id="s",
                project="p",
                at=NOW + timedelta(seconds=start + n),
                kind=kind,
                content=text,
                content_hash=content_hash(text),
            )
            for n, text in enumerate(texts)
        ]
        LanceStore(self.home.lance).open(EVENTS).upsert(events_to_arrow(events))
        self.ask(*[(event.id, event.content_hash) for event in events])
        return [event.id for event in events]

    def ask(self, *items: tuple[str, str], kind: ItemKind = ItemKind.ENTRY) -> None:
        """Enqueue jobs; each a moment later, so that their order is known."""
        for item_id, text_hash in items:
            self.clock.move(0.001)
            self.outbox.enqueue_batch([JobRequest(kind, item_id, self.encoder.version, text_hash)])

    def run(self, encoder: HashEncoder | None = None, stop: threading.Event | None = None) -> EmbedReport:
        """Run the flow to its end."""
        return run_embed(self.home, encoder or self.encoder, owner="w", stop=stop, clock=self.clock)

    def wear_out(self, encoder: HashEncoder) -> None:
        """Run until the tries of every failing job are used up."""
        for _ in range(limits.RETRIES_MAX + 1):
            self.clock.move(60)
            self.run(encoder)

    def sets(self) -> dict[str, str]:
        """Item id -> content hash of the vector sets; each item has one."""
        rows = self.vectors.item_ids(self.encoder.version).select("item_id", "content_hash").rows()
        assert len(dict(rows)) == len(rows)
        return dict(rows)

    def chunks(self, item_id: str) -> list[str]:
        """Chunks of an item, in order."""
        table = self.vectors._table("entry", self.encoder.version)
        rows = table.by_ids([item_id], ["chunk_n", "content"], id_column="item_id").sort("chunk_n")
        return rows.get_column("content").to_list()


def steps_of(bench: Bench) -> EmbedSteps:
    """Return the steps of a run over the bench."""
    return EmbedSteps(
        bench.outbox, Items(bench.home), bench.vectors, bench.encoder, owner="w", clock=bench.clock
    )
