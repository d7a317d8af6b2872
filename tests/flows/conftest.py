"""A small real table with its register and outbox, as the writing steps use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.flows.event_writer import EventWriter, RepeatCounter, Settler
from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.flows.sessions import SessionConfig, SessionLogic, SessionState
from headwater.schemas.columns import EVENTS, event_from_row
from headwater.schemas.events import Draft, Dropped, Event, Fate
from headwater.storage.journal import RawLine
from headwater.storage.known_ids import KnownIds
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore

VERSION = "test-4-abc"


class Bench:
    """The steps of the flow without the flow: lines in, table, register and outbox out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = LanceStore(folder / "lance").open(EVENTS)
        self.known = KnownIds(folder / "ids.sqlite")
        self.outbox = VectorOutbox(folder / "outbox.sqlite")
        self.quarantine = folder / "quarantine.jsonl"
        self.start()

    def start(self) -> None:
        """Begin as a new process does: what only lived in memory is gone."""
        self.known.close()
        self.outbox.close()
        self.repeats = RepeatCounter(self.known)
        self.writer = EventWriter(self.table, self.known)
        self.settler = Settler(self.table, self.known, self.outbox, VERSION, self.quarantine)
        self.sessions = SessionLogic(SessionConfig(), SessionState())

    def run(self, lines: list[RawLine]) -> None:
        """Take the lines of one session through all steps, as one batch."""
        made = [one for line in lines for record in parse(line) for one in normalise(record)]
        self.settler.record_dropped([one for one in made if isinstance(one, Dropped)])
        drafts = [self.repeats.number_repeats(one) for one in made if isinstance(one, Draft)]
        self.settler.enqueue(self.writer.write_events([self.sessions.on_draft(draft) for draft in drafts]))

    def events(self) -> dict[str, Event]:
        """Return all events of the table; each id stands in it once."""
        names = [column.name for column in EVENTS.columns]
        rows = list(self.table.scan(names).iter_rows(named=True))
        events = {row["id"]: event_from_row(row) for row in rows}
        assert len(events) == len(rows)
        return events

    def fates(self) -> dict[str, int]:
        """Return how many lines had each fate, but for those that none had."""
        return {fate.value: n for fate, n in self.known.count_fates().items() if n}

    def event_count(self) -> int:
        """Return the lines that made an event."""
        return self.known.count_fates()[Fate.EVENT]

    def jobs(self) -> dict[str, str]:
        """Return item id -> content hash of all jobs."""
        return {job.item_id: job.content_hash for job in self.outbox.pending_jobs(100_000)}

    def close(self) -> None:
        """Close the files."""
        self.known.close()
        self.outbox.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty bench."""
    made = Bench(tmp_path)
    yield made
    made.close()
