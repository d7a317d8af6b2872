"""Lines that a forked session copied: its events as long as nobody else tells them, and never beside the originals.

A fork's transcript begins with lines of the session it was forked from, under the fork's own name. Such a line is an
event of the fork while no line of the origin tells the same fact; when one comes, the copy goes. What stays in the end
depends on what was told, and not on which came first:

- the same fact is the same line (uuid), the same call, or the same words in the session that the copy names;
- of copies of one line in several forks, that of the least session id stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.schemas.events import Kind
from headwater.schemas.ids import tool_event_id
from headwater.storage.tables import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.schemas.events import Draft, Event
    from headwater.storage.known_ids import KnownIds
    from headwater.storage.tables import LanceTable

_SAID = (Kind.PROMPT, Kind.RESPONSE, Kind.COMPACT)


@dataclass(slots=True)
class Settled:
    """What one batch means for copies: those that are none (by their place in it), and rows that have to go."""

    told: set[int] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)


class ForkCopies:
    """Compares copies with what else was told; everything it needs lies in the register and the table."""

    def __init__(self, table: LanceTable, known: KnownIds) -> None:
        """Look whether there are any copies at all: without them a batch costs nothing."""
        self._table = table
        self._known = known
        self._any = known.logs.has_copies()

    def settle(self, drafts: Sequence[Draft]) -> Settled:
        """Return what becomes of the copies of a batch, and of older ones; notes the new ones. Idempotent."""
        copies = [n for n, draft in enumerate(drafts) if draft.copy_line]
        found = Settled()
        if not copies and not self._any:
            return found
        originals = [draft for draft in drafts if not draft.copy_line]
        found.gone |= self._known.logs.copies_of(
            {mark for one in originals for mark in _marks_of(one)}
        ).keys()
        if copies:
            self._sort_out(drafts, copies, {mark for one in originals for mark in _marks_of(one)}, found)
        found.told |= {n for n in copies if drafts[n].event.id in found.gone}
        return found

    def forget(self, ids: Iterable[str]) -> None:
        """Drop copies whose rows are gone."""
        self._known.logs.drop_copies(ids)

    def _sort_out(
        self, drafts: Sequence[Draft], copies: Sequence[int], marks: set[str], found: Settled
    ) -> None:
        """Leave out the copies that are told otherwise, and note the others."""
        self._any = True
        marks = marks | self._stored([drafts[n] for n in copies])
        for n in copies:
            draft = drafts[n]
            others = self._known.logs.copies_of({_line(draft.copy_line)}, but=draft.event.session_id)
            first = min(others.values(), default=draft.event.session_id)
            if not marks.isdisjoint(_marks_of_copy(draft)) or first < draft.event.session_id:
                found.told.add(n)
                continue
            found.gone |= others.keys()
            self._known.logs.note_copy(draft.event.id, draft.event.session_id, _marks_of_copy(draft))

    def _stored(self, copies: Sequence[Draft]) -> set[str]:
        """Return marks of what is told already: of lines, calls, and all words of the sessions that copies name."""
        marks = {_line(one.copy_line) for one in copies if self._known.logs.told(one.copy_line)}
        calls = {_call(one.event, one.copy_of): one for one in copies if one.event.tool is not None}
        ids = {
            tool_event_id(one.event.agent, one.copy_of, one.event.tool.use_id): mark
            for mark, one in calls.items()
            if one.event.tool is not None and one.event.tool.use_id
        }
        marks |= {ids[id_] for id_ in self._known.lookup(list(ids))}
        sessions = {(one.event.agent, one.copy_of) for one in copies}
        for agent, session_id in sorted(sessions):
            where = f"agent = {quote(agent)} AND session_id = {quote(session_id)}"
            rows = self._table.scan(["kind", "content_hash"], where)
            marks |= {
                _words(agent, session_id, kind, content_hash)
                for kind, content_hash in rows.iter_rows()
                if kind in _SAID
            }
        return marks


def _marks_of(draft: Draft) -> set[str]:
    """Return by what a copy of this fact is known."""
    event = draft.event
    marks = {_line(draft.told)} if draft.told else set()
    if event.tool is not None:
        return marks | {_call(event, event.session_id)}
    if event.kind in _SAID:
        marks.add(_words(event.agent, event.session_id, event.kind, event.content_hash))
    return marks


def _marks_of_copy(draft: Draft) -> set[str]:
    """Return by what the original of this copy is known."""
    event = draft.event
    marks = {_line(draft.copy_line)}
    if event.tool is not None:
        return marks | {_call(event, draft.copy_of)}
    if event.kind in _SAID:
        marks.add(_words(event.agent, draft.copy_of, event.kind, event.content_hash))
    return marks


def _line(key: str) -> str:
    return f"line {key}"


def _call(event: Event, session_id: str) -> str:
    use_id = event.tool.use_id if event.tool is not None else None
    return f"call {event.agent} {session_id} {use_id or event.id}"


def _words(agent: str, session_id: str, kind: str, content_hash: str) -> str:
    return f"{kind} {agent} {session_id} {content_hash}"
