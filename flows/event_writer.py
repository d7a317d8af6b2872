"""The two writing steps of the ingest flow: events into their table, then jobs into the outbox and fates on record.

Order: intents, table, outbox, fates, and last the snapshot of the flow. A crash anywhere leads to a repeat of the lines
without a fate, and a repeat changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.flows.fork_copies import ForkCopies
from headwater.flows.merge import merge
from headwater.flows.moments import Change, Seen, matter_of
from headwater.flows.task_titles import task_titles
from headwater.schemas import clock as clock_module
from headwater.schemas.columns import event_from_row, events_to_arrow
from headwater.schemas.events import Draft, Dropped, Event, Fate, ItemKind, Kind, Part, Position
from headwater.schemas.ids import content_hash, occurrence_event_id
from headwater.schemas.jobs import JobRequest
from headwater.storage.faults import fault_point
from headwater.storage.known_ids import Known
from headwater.storage.log_register import Clearing
from headwater.storage.tables import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from headwater.schemas.clock import Clock
    from headwater.storage.known_ids import KnownIds
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.tables import LanceTable

EMBEDDED_KINDS = (Kind.PROMPT, Kind.RESPONSE, Kind.TOOL, Kind.COMPACT, Kind.NOTE, Kind.INSIGHT)

_CLEARED = ("SessionEnd:clear", "SessionStart:clear")
_BEST = (Fate.EVENT, Fate.MERGED, Fate.DUPLICATE)  # of a line with several facts


@dataclass(frozen=True, slots=True)
class Written:
    """One batch that is in the table and not yet settled."""

    events: tuple[Event, ...] = ()  # new, merged, or not known to have got their job
    parts: dict[str, Part] = field(default_factory=dict)
    fates: dict[Position, Fate] = field(default_factory=dict)
    gone: tuple[str, ...] = ()  # ids of rows that were taken out: copies whose originals came
    seen: tuple[Seen, ...] = ()  # what memory is to know of


class RepeatCounter:
    """Numbers facts that carry no id by counting equal ones before them in their source file."""

    def __init__(self, known: KnownIds) -> None:
        """Count in the given register."""
        self._known = known

    def number_repeats(self, draft: Draft) -> Draft:
        """Return the draft with its final id. Idempotent: the same record gets the same number."""
        if draft.occurrence is None:
            return draft
        at_us = clock_module.to_us(draft.event.at)
        n = self._known.occurrence(
            draft.source_file,
            draft.occurrence,
            draft.delivery,
            draft.source_offset,
            at_us,
            apart=bool(draft.told),  # an agent's own log tells each thing once
        )
        return replace(
            draft, event=replace(draft.event, id=occurrence_event_id(draft.occurrence, n)), occurrence=None
        )


class EventWriter:
    """Writes drafts into the events table, each fact once.

    `complete` is False when the table has lost rows that the register has seen written: their lines have a fate and are
    not read again, so the journal has to be read from its start with an empty register.
    """

    def __init__(self, table: LanceTable, known: KnownIds, *, tells_again: bool = True) -> None:
        """Make the register agree with the table first: see `reconcile`.

        `tells_again`: memory is told of events whose lines had a fate before; not so when only one project is built.
        """
        self._table = table
        self._known = known
        self._copies = ForkCopies(table, known)
        self._tells_again = tells_again
        self._open: dict[Position, Fate] = {}  # of lines whose last fact is not here yet
        self.complete = self.reconcile()

    def reconcile(self) -> bool:
        """Drop intents that did not reach the table, keep those that did, adopt ids that only the table knows.

        Return whether the table holds every row that was ever written to it. Idempotent.
        """
        intents = self._known.intents()
        if intents:
            there = set(self._table.by_ids(intents, ["id"])["id"].to_list())
            self._known.forget(id_ for id_ in intents if id_ not in there)
            self._known.settle(
                {id_: known.parts for id_, known in self._known.lookup(sorted(there)).items()}, {}
            )
        if self._table.count() == self._known.count_ids():
            return True
        rows = self._table.scan(["id", "parts"])
        parts = dict(zip(rows["id"].to_list(), rows["parts"].to_list(), strict=True))
        lost = self._known.all_ids() - parts.keys()
        self._known.forget(lost)
        self._known.adopt({id_: Part(part or 0) for id_, part in parts.items()})
        return not lost

    def write_events(self, drafts: Sequence[Draft]) -> list[Written]:
        """Write what is new, merge what is told again; lines with a fate are passed over. Durable when it returns."""
        settled = self._known.fates([draft.position for draft in drafts])
        again = self._again(drafts, settled) if settled else ()
        drafts = [draft for draft in drafts if draft.position not in settled]
        if not drafts:
            return [Written(seen=again)] if again else []
        copies = self._copies.settle(drafts)
        again = (*again, *self._take_out(copies.gone))
        links = self._links(drafts)
        known = self._known.lookup(list(dict.fromkeys([*(draft.event.id for draft in drafts), *links])))
        batch = _Batch(known, self._stored(drafts, known, links), self._open)
        for n, draft in enumerate(drafts):
            batch.take(draft, is_told=n in copies.told)
        batch.link(links)
        # noted with what the first line tells alone: after a crash, the lines behind it are merged once more
        self._known.forget(id_ for id_ in batch.first if id_ in known)
        self._known.intend(batch.first)
        fault_point("ingest.intended")
        self._table.add(events_to_arrow(batch.new()))
        fault_point("ingest.added")
        self._table.upsert(events_to_arrow(batch.changed()))
        fault_point("ingest.upserted")
        self._known.logs.note(batch.told)  # not later: the next batch may hold copies of these
        gone = tuple(sorted(copies.gone))
        seen = (*again, *batch.seen())
        return [Written(tuple(batch.events.values()), batch.parts(), batch.fates, gone, seen)]

    def _take_out(self, ids: set[str]) -> list[Seen]:
        """Delete rows of copies: from the register first, so that a crash in between leaves rows to delete again."""
        if not ids:
            return []
        gone = [event_from_row(row) for row in self._table.by_ids(sorted(ids)).iter_rows(named=True)]
        self._known.retract(ids)
        self._table.delete(f"id IN ({', '.join(quote(id_) for id_ in sorted(ids))})")
        self._copies.forget(ids)
        return [Seen(event, Change.GONE) for event in gone]

    def _again(self, drafts: Sequence[Draft], settled: dict[Position, Fate]) -> tuple[Seen, ...]:
        """Return the events of lines that had their fate before: memory may not have got to its snapshot by then.

        A line that only told more of an event may have changed it, which memory must look at as a whole.
        """
        changes: dict[str, Change] = {}
        for draft in drafts:
            fate = settled.get(draft.position)
            if fate is Fate.MERGED:
                changes[draft.event.id] = Change.CHANGED
            elif fate is Fate.EVENT:
                changes.setdefault(draft.event.id, Change.AGAIN)
        if not changes or not self._tells_again:
            return ()
        rows = self._table.by_ids(list(changes))
        return tuple(Seen(event_from_row(row), changes[row["id"]]) for row in rows.iter_rows(named=True))

    def _links(self, drafts: Sequence[Draft]) -> dict[str, str]:
        """Return event id of a session's start -> session before it, for those that a person cleared."""
        ends: list[Clearing] = []
        starts: list[Clearing] = []
        for draft in drafts:
            event = draft.event
            if event.role in _CLEARED and Part.HOOK in event.parts:
                found = Clearing(
                    event.agent, event.cwd or "", clock_module.to_us(event.at), event.session_id, event.id
                )
                (starts if event.kind is Kind.SESSION_START else ends).append(found)
        return self._known.logs.cleared(ends, starts)

    def _stored(
        self, drafts: Sequence[Draft], known: dict[str, Known], links: dict[str, str]
    ) -> dict[str, Event]:
        """Return the rows of facts that are told again, unless it adds nothing."""
        again = {draft.event.id for draft in drafts if _adds(draft, known.get(draft.event.id))}
        again |= links.keys() & known.keys()
        rows = self._table.by_ids(sorted(again)) if again else None
        return {} if rows is None else {row["id"]: event_from_row(row) for row in rows.iter_rows(named=True)}


class _Batch:
    """Facts of one batch, merged among themselves and with what is stored; and the fate of each line."""

    def __init__(
        self, known: dict[str, Known], stored: dict[str, Event], waiting: dict[Position, Fate]
    ) -> None:
        self._waiting = waiting
        self._repeated: dict[str, Change] = {}  # ids in the table whose lines are read once more
        self._before = known
        self._known = dict(known)
        self._stored = stored
        self.events: dict[str, Event] = {}
        self.first: dict[str, Known] = {}  # ids whose first line is in this batch, with what that line told
        self.fates: dict[Position, Fate] = {}
        self.told: list[str] = []

    def take(self, draft: Draft, *, is_told: bool = False) -> None:
        """Take a fact in, unless it is told otherwise; its line gets the best fate of its facts, with the last."""
        own = Fate.DUPLICATE if is_told else self._fate(draft)
        fate = min(own, self._waiting.pop(draft.position, Fate.DUPLICATE), key=_BEST.index)
        if not draft.last:
            self._waiting[draft.position] = fate
            return
        self.fates[draft.position] = fate
        if draft.told:
            self.told.append(draft.told)

    def link(self, links: dict[str, str]) -> None:
        """Tell starts of sessions which session they go on from."""
        for id_, session_id in links.items():
            held = self.events.get(id_) or self._stored.get(id_)
            if held is not None and held.prev_session_id != session_id:
                self.events[id_] = replace(held, prev_session_id=session_id)

    def _fate(self, draft: Draft) -> Fate:
        event, position = draft.event, draft.position
        known = self._known.get(event.id)
        if known is None or not known.position.file:  # unknown, or known from the table alone
            fate = Fate.EVENT
            self.first[event.id] = self._known[event.id] = Known(event.parts, position)
            self._repeated.setdefault(event.id, Change.AGAIN)
        elif known.position == position:
            fate = Fate.EVENT  # this very line wrote it before a crash
            self._repeated.setdefault(event.id, Change.AGAIN)
        elif event.parts in known.parts:
            return Fate.DUPLICATE
        else:
            fate = Fate.MERGED
            stored = self._stored.get(event.id)
            if stored is not None and event.parts in stored.parts:
                self._repeated[event.id] = Change.CHANGED  # merged before a crash: memory may not know
            self._known[event.id] = Known(known.parts | event.parts, known.position)
        held = self.events.get(event.id) or self._stored.get(event.id)
        self.events[event.id] = event if held is None else merge(held, event)
        return fate

    def new(self) -> list[Event]:
        """Return the events that the table does not hold."""
        return [event for id_, event in self.events.items() if id_ not in self._before]

    def changed(self) -> list[Event]:
        """Return the events that the table holds otherwise."""
        return [
            event
            for id_, event in self.events.items()
            if id_ in self._before and event != self._stored.get(id_)
        ]

    def seen(self) -> Iterator[Seen]:
        """Yield what became of each event for memory; one that went to another project is gone from its own."""
        for id_, event in self.events.items():
            stored = self._stored.get(id_)
            if id_ not in self._before:
                yield Seen(event, Change.NEW)
            elif stored is None or id_ in self._repeated:
                yield Seen(event, self._repeated.get(id_, Change.CHANGED))
            else:
                if stored.project != event.project:
                    yield Seen(stored, Change.GONE)
                is_same = matter_of(stored) == matter_of(event)
                yield Seen(event, Change.SAME if is_same else Change.CHANGED)

    def parts(self) -> dict[str, Part]:
        """Return the deliveries of each event that lines with a fate have told."""
        return {id_: self._known[id_].parts for id_ in self.events}


def _adds(draft: Draft, known: Known | None) -> bool:
    """Whether a draft tells more of a stored fact, or wrote it and may not have been settled."""
    if known is None:
        return False
    return draft.event.parts not in known.parts or known.position == draft.position or not known.position.file


class Settler:
    """The last step: vector jobs, then the fates of lines, then the table's upkeep."""

    def __init__(
        self,
        table: LanceTable,
        known: KnownIds,
        outbox: VectorOutbox,
        embedding_version: str | Callable[[], str | None] | None,
        quarantine: Path,
        *,
        clock: Clock = clock_module.SYSTEM,
    ) -> None:
        """`embedding_version` None: no model can be used now; the missing jobs are found when one can.

        As a function it is asked for each batch: the version may be switched while the flow runs.
        """
        self._table = table
        self._known = known
        self._outbox = outbox
        self._version = embedding_version
        self._quarantine = quarantine
        self._clock = clock

    def enqueue(self, batches: Sequence[Written]) -> None:
        """Ask for vectors of new and changed texts, record the fates, look after the table. Durable when it returns."""
        for written in batches:
            version = self.embedding_version()
            if version is not None:
                self._outbox.enqueue_batch(vector_requests(written.events, version))
            if written.gone:
                self._outbox.remove(ItemKind.ENTRY, written.gone)
                self._outbox.ask_to_reconcile()  # their vectors go as well
            fault_point("ingest.enqueued")
            self._known.settle(written.parts, written.fates)
            fault_point("ingest.settled")
        if batches:
            self._table.maintain(self._clock.now())

    def embedding_version(self) -> str | None:
        """Return the version that items get vectors of now; None: none for now."""
        return self._version() if callable(self._version) else self._version

    def record_dropped(self, items: Sequence[Draft | Dropped]) -> None:
        """Record noise, and write quarantined lines to their file. A crash between the two may repeat a line there."""
        dropped = [item for item in items if isinstance(item, Dropped)]  # the branch lets no other through
        fates = self._known.fates([one.position for one in dropped])
        fresh = {one.position: one for one in dropped if one.position not in fates}
        bad = [one for one in fresh.values() if one.fate is Fate.QUARANTINED]
        if bad:
            at = clock_module.iso(self._clock.now())
            with self._quarantine.open("a", encoding="utf-8") as file:
                file.writelines(
                    json.dumps(
                        {
                            "at": at,
                            "file": one.position.file,
                            "offset": one.position.offset,
                            "reason": one.reason,
                            "excerpt": one.excerpt,
                        },
                        ensure_ascii=False,
                    )
                    + "\n"
                    for one in bad
                )
            fault_point("ingest.quarantined")
        self._known.settle({}, {position: one.fate for position, one in fresh.items()})


def vector_requests(events: Sequence[Event], embedding_version: str) -> list[JobRequest]:
    """Return the vector jobs of events that have a text worth one, and of the titles of tasks in them."""
    requests = []
    for event in events:
        if event.kind in EMBEDDED_KINDS and event.content.strip():
            requests.append(JobRequest(ItemKind.ENTRY, event.id, embedding_version, event.content_hash))
        for item_id, title in task_titles(
            event.id, event.tool.name if event.tool else None, event.content
        ).items():
            requests.append(JobRequest(ItemKind.TASK_TITLE, item_id, embedding_version, content_hash(title)))
    return requests
