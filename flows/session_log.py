"""Step `summarise_sessions`: what a session was about, told when it ends or falls silent. No Bytewax.

A Stop comes with every answer and a session's end may never come: neither is waited for nor taken for the other. A
session that goes on after its row was told has its row told again, with the same id; one that wakes up after a day gets
a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.flows.consolidate import top_topics
from headwater.flows.memory_rows import with_words
from headwater.flows.moments import Ordered, Passed, Rebuilt
from headwater.flows.sessions import session_key
from headwater.flows.summary import summarise
from headwater.flows.threads import Assigned
from headwater.flows.windows import Piece, piece
from headwater.schemas import clock, ids, limits
from headwater.schemas.events import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDED, IDLE = "session_end", "idle"


@dataclass(frozen=True, slots=True)
class SessionRules:
    """`idle_s`: a session silent for so long is told of; `forget_s`: it then has left, see the module."""

    idle_s: float = 1800.0
    forget_s: float = limits.SESSION_IDLE_S
    max_summary_chars: int = limits.MEMORY_CHARS


@dataclass(slots=True)
class Stretch:
    """A session, or the part of it since it woke up: what was said, its head and its tail, and counts."""

    agent: str
    session_id: str
    first_id: str
    first_at: datetime
    last_at: datetime
    prev_session_id: str | None = None
    prompts: int = 0
    events: int = 0
    is_told: bool = False
    head: list[Piece] = field(default_factory=list)
    tail: list[Piece] = field(default_factory=list)

    def hear(self, said: Piece) -> None:
        """Keep a piece: the first ones and the last ones stay."""
        if len(self.head) < limits.SESSION_HEAD_PIECES:
            self.head.append(said)
        else:
            self.tail = [*self.tail, said][-limits.SESSION_TAIL_PIECES :]

    def plain(self) -> list[Any]:
        """Return the stretch as plain data."""
        times = [clock.to_ns(self.first_at), clock.to_ns(self.last_at)]
        counts = [self.prompts, self.events, self.is_told]
        said = [[one.plain() for one in self.head], [one.plain() for one in self.tail]]
        return [self.agent, self.session_id, self.first_id, *times, self.prev_session_id, *counts, *said]

    @classmethod
    def from_plain(cls, data: list[Any]) -> Stretch:
        """Return the stretch of plain data."""
        agent, session_id, first_id, first_ns, last_ns, prev, prompts, events, is_told, head, tail = data
        pieces = [[Piece.from_plain(one) for one in said] for said in (head, tail)]
        first_at, last_at = clock.from_ns(first_ns), clock.from_ns(last_ns)
        return cls(agent, session_id, first_id, first_at, last_at, prev, prompts, events, is_told, *pieces)


class SessionLog:
    """The sessions of one project; `rows` are those that were told since they were last asked for."""

    name = "summarise_sessions"

    def __init__(self, project: str, rules: SessionRules, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot; of none or of an unknown version, afresh."""
        self._project = project
        self._rules = rules
        self._told: list[dict[str, Any]] = []
        self._load(data)

    def take(self, moment: Any) -> None:
        """Take the next moment in."""
        match moment:
            case Assigned():
                self._forget(moment.at)
                self._on_assigned(moment.events)
            case Ordered(event):
                self._pass(event.at)
                self._on_event(event)
            case Passed(at):
                self._pass(at)
            case Rebuilt(states):
                self._told.clear()
                self._load(states.get(self.name))

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `SESSIONS` that were told; of each session the last one holds."""
        told, self._told = self._told, []
        return [with_words(row) for row in told]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return {"v": 1, "sessions": [[key, one.plain()] for key, one in self._sessions.items()]}

    def _load(self, data: dict[str, Any] | None) -> None:
        known = data["sessions"] if data is not None and data.get("v") == 1 else []
        self._sessions = {key: Stretch.from_plain(one) for key, one in known}

    def _on_assigned(self, events: Sequence[Event]) -> None:
        for event in events:
            said = piece(event)
            # the event that decides its own turn comes here before its place in the order
            one = self._sessions.setdefault(session_key(event), _stretch(event))
            if said.text or said.changed:
                text = said.text[: limits.SESSION_PIECE_CHARS]
                one.hear(
                    Piece(
                        said.id, said.kind, said.at, said.session_id, text,
                        said.changed, said.topics, said.entities,
                    )
                )  # fmt: skip

    def _on_event(self, event: Event) -> None:
        key = session_key(event)
        one = self._sessions.pop(key, None) or _stretch(event)
        self._sessions[key] = one  # to the end: the order is that of last events
        one.last_at = event.at
        one.prev_session_id = one.prev_session_id or event.prev_session_id
        one.events += 1
        one.prompts += event.kind is Kind.PROMPT
        one.is_told = False
        if event.kind is Kind.SESSION_END:
            self._tell(one, ENDED)

    def _pass(self, now: datetime) -> None:
        """Tell of sessions that have fallen silent, and let those go that were for long."""
        self._forget(now)
        idle = timedelta(seconds=self._rules.idle_s)
        for one in self._sessions.values():
            if one.last_at + idle > now:
                return
            if not one.is_told:
                self._tell(one, IDLE)

    def _forget(self, now: datetime) -> None:
        """Let sessions go that were silent for long: what comes then wakes a new one, also before its own place."""
        forget = timedelta(seconds=self._rules.forget_s)
        while self._sessions:
            key, one = next(iter(self._sessions.items()))
            if one.last_at + forget > now:
                return
            if not one.is_told:
                self._tell(one, IDLE)
            del self._sessions[key]

    def _tell(self, one: Stretch, ended_by: str) -> None:
        one.is_told = True
        pieces = [*one.head, *one.tail]
        summary = summarise(pieces, chars_max=self._rules.max_summary_chars, files_max=limits.MEMORY_FILES)
        if not summary:
            return  # nothing was said
        self._told.append(
            {
                "id": "ses_" + ids.digest("session", self._project, one.agent, one.session_id, one.first_id),
                "project": self._project,
                "agent": one.agent,
                "session_id": one.session_id,
                "prev_session_id": one.prev_session_id,
                "summary": summary,
                "topics": list(top_topics(pieces, limits.MEMORY_TOPICS)),
                "first_at": one.first_at,
                "last_at": one.last_at,
                "prompts": one.prompts,
                "events": one.events,
                "ended_by": ended_by,
            }
        )


def _stretch(event: Event) -> Stretch:
    return Stretch(event.agent, event.session_id, event.id, event.at, event.at)
