"""Consolidation windows of a thread: when what happened is enough, or over, to be remembered as one.

Config / logic / state, no Bytewax. Windows are cut by the times of decisions (`Assigned.at`), which come from events
alone: a timer only brings forward what "now" already implies. Nothing is ever dropped: a window with too little in it
stays open until more comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headwater.flows.turns import inside
from headwater.schemas import clock, limits
from headwater.schemas.events import FileOp, Kind
from headwater.schemas.features import event_features

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from headwater.schemas.events import Event

CONTENT_KINDS = (Kind.PROMPT, Kind.RESPONSE, Kind.TOOL, Kind.INSIGHT)
_SAID = (Kind.PROMPT, Kind.RESPONSE, Kind.INSIGHT)
_CHANGES = (FileOp.EDIT, FileOp.WRITE, FileOp.DELETE)


class Trigger(StrEnum):
    """Why a window was closed."""

    COUNT = "count"
    INTERVAL = "interval"
    IDLE = "idle"
    BREAK = "break"
    SESSION_END = "session_end"
    BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """The triggers. `min_events` counts content events; a window with fewer stays open."""

    max_events: int = 100
    interval_s: float = 3600.0
    idle_s: float = 1800.0
    min_events: int = 3
    on_break: bool = True
    on_session_end: bool = True


@dataclass(frozen=True, slots=True)
class Piece:
    """What a memory needs of an event: the start of what was said, the files it changed, and what it is about."""

    id: str
    kind: Kind
    at: datetime
    session_id: str
    text: str = ""
    changed: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    def plain(self) -> list[Any]:
        """Return the piece as plain data."""
        return [
            self.id, self.kind.value, clock.to_ns(self.at), self.session_id, self.text,
            list(self.changed), list(self.topics), list(self.entities),
        ]  # fmt: skip

    @classmethod
    def from_plain(cls, data: list[Any]) -> Piece:
        """Return the piece of plain data."""
        id_, kind, at_ns, session_id, text, changed, topics, entities = data
        return cls(
            id_,
            Kind(kind),
            clock.from_ns(at_ns),
            session_id,
            text,
            tuple(changed),
            tuple(topics),
            tuple(entities),
        )


def piece(event: Event) -> Piece:
    """Return what a memory needs of an event; of tools only the files they changed, never their output."""
    changed = tuple(dict.fromkeys(ref.path for ref in event.files if ref.op in _CHANGES))
    if event.kind not in _SAID:
        return Piece(event.id, event.kind, event.at, event.session_id, "", changed)
    event = inside(event)
    found = event_features(event)
    text = event.content[: limits.PIECE_CHARS]
    return Piece(
        event.id, event.kind, event.at, event.session_id, text, changed, found.topics, found.entities
    )


@dataclass(frozen=True, slots=True)
class Window:
    """A closed window: the pieces of one memory, in order."""

    thread_id: str
    project: str
    pieces: tuple[Piece, ...]
    trigger: Trigger
    closed_at: datetime


@dataclass(slots=True)
class WindowState:
    """The open window of a thread: its pieces, when its hour began, and when it was last added to."""

    pieces: list[Piece] = field(default_factory=list)
    since: datetime | None = None
    last_at: datetime | None = None

    def plain(self) -> dict[str, Any]:
        """Return the state as plain versioned data for a snapshot."""
        return {
            "v": 1,
            "pieces": [one.plain() for one in self.pieces],
            "since_ns": None if self.since is None else clock.to_ns(self.since),
            "last_at_ns": None if self.last_at is None else clock.to_ns(self.last_at),
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None) -> WindowState:
        """Return the state of a snapshot; of an unknown version, an empty one."""
        if data is None or data.get("v") != 1:
            return cls()
        since_ns, last_at_ns = data["since_ns"], data["last_at_ns"]
        return cls(
            [Piece.from_plain(one) for one in data["pieces"]],
            None if since_ns is None else clock.from_ns(since_ns),
            None if last_at_ns is None else clock.from_ns(last_at_ns),
        )


class WindowLogic:
    """Collects the events of one thread of one project into windows; input in the order of decisions."""

    def __init__(self, thread_id: str, project: str, config: WindowConfig, state: WindowState) -> None:
        """Go on from a state."""
        self._thread_id = thread_id
        self._project = project
        self._config = config
        self._state = state

    def on_events(self, events: Iterable[Event], at: datetime) -> list[Window]:
        """Take events in that were assigned at `at`; return the windows that are closed before or by them."""
        closed = self.on_time(at)
        for event in events:
            state = self._state  # a new one after each window
            state.pieces.append(piece(event))
            state.since = at if state.since is None else state.since
            state.last_at = at
            if len(state.pieces) >= self._config.max_events:
                closed += self._close(Trigger.COUNT, at)
        return closed

    def on_time(self, now: datetime) -> list[Window]:
        """Return the window that time has closed by `now`, dated when it was due."""
        due = self.due_at()
        if due is None or due[0] > now:
            return []
        closed = self._close(due[1], due[0])
        if not closed:
            self._state.since = self._state.last_at = None  # too little: looked at again when more has come
        return closed

    def on_session_end(self, session_id: str, at: datetime) -> list[Window]:
        """Return the window closed by the end of a session that it holds events of; the thread goes on."""
        closed = self.on_time(at)
        if self._config.on_session_end and any(one.session_id == session_id for one in self._state.pieces):
            closed += self._close(Trigger.SESSION_END, at)
        return closed

    def on_break(self, at: datetime) -> list[Window]:
        """Return the window closed because the project turned to something unrelated after a long pause."""
        closed = self.on_time(at)
        return closed + self._close(Trigger.BREAK, at) if self._config.on_break else closed

    def by_hand(self, at: datetime) -> list[Window]:
        """Return the window closed because somebody asked for it."""
        return self.on_time(at) + self._close(Trigger.BY_HAND, at)

    def due_at(self) -> tuple[datetime, Trigger] | None:
        """Return when time will close the window, and why; None when nothing is open or too little was left."""
        state = self._state
        if state.since is None or state.last_at is None:
            return None
        by_interval = state.since + timedelta(seconds=self._config.interval_s)
        by_idle = state.last_at + timedelta(seconds=self._config.idle_s)
        return (by_idle, Trigger.IDLE) if by_idle <= by_interval else (by_interval, Trigger.INTERVAL)

    @property
    def open_events(self) -> tuple[str, ...]:
        """The ids of the events that wait."""
        return tuple(one.id for one in self._state.pieces)

    @property
    def is_open(self) -> bool:
        """Whether any event waits."""
        return bool(self._state.pieces)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data, a copy."""
        return self._state.plain()

    def _close(self, trigger: Trigger, at: datetime) -> list[Window]:
        state = self._state
        content = sum(one.kind in CONTENT_KINDS for one in state.pieces)
        if content < self._config.min_events:
            return []
        self._state = WindowState()
        # a thread takes turns of several sessions: they come in the order of decisions, a memory tells them by time
        pieces = sorted(state.pieces, key=lambda one: one.at)
        return [Window(self._thread_id, self._project, tuple(pieces), trigger, at)]
