"""Everything that is derived from one project's events: threads, continuity log, windows, memories. No Bytewax.

All of it is a function of the events in the order (at, agent, session, seq): `derive` of the whole and a logic fed
event by event, stopped and restored anywhere, with timers in between, give the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.flows.consolidate import (
    ConsolidationConfig,
    ConsolidationLogic,
    ConsolidationState,
    Mark,
    Memory,
)
from headwater.flows.continuity import ContinuityLogic, ContinuityState, Transition
from headwater.flows.merge import merge
from headwater.flows.sessions import session_key
from headwater.flows.threads import Assigned, ThreadConfig, ThreadLogic
from headwater.flows.windows import Window, WindowConfig, WindowLogic, WindowState
from headwater.schemas.continuity import ContinuityConfig, TransitionType
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from headwater.schemas.events import Event


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """The settings of all steps."""

    threads: ThreadConfig = field(default_factory=ThreadConfig)
    continuity: ContinuityConfig = field(default_factory=ContinuityConfig)
    windows: WindowConfig = field(default_factory=WindowConfig)
    consolidation: ConsolidationConfig = field(default_factory=ConsolidationConfig)


@dataclass(slots=True)
class Derived:
    """What came out, in order; a memory that changed stands again, complete."""

    assigned: list[Assigned] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def add(self, other: Derived) -> None:
        """Put what came later behind."""
        self.assigned += other.assigned
        self.transitions += other.transitions
        self.windows += other.windows
        self.memories += other.memories
        self.marks += other.marks

    def threads(self) -> dict[str, str]:
        """Return event id -> thread id."""
        return {event.id: one.thread_id for one in self.assigned for event in one.events}

    def last_memories(self) -> dict[str, Memory]:
        """Return each memory as it was last."""
        return {memory.id: memory for memory in self.memories}


class ProjectLogic:
    """All steps of one project; input in the order (at, agent, session, seq), each event once."""

    def __init__(self, project: str, config: MemoryConfig, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot; of none or of an unknown version, afresh."""
        known = data if data is not None and data.get("v") == 1 else {}
        self._project = project
        self._config = config
        self._threads = ThreadLogic.from_snapshot(config.threads, known.get("threads"))
        self._continuity = ContinuityLogic(
            config.continuity, ContinuityState.from_plain(known.get("continuity"))
        )
        self._windows = {
            id_: WindowLogic(id_, project, config.windows, WindowState.from_plain(state))
            for id_, state in known.get("windows", {}).items()
        }
        self._memories = ConsolidationLogic(
            config.consolidation, ConsolidationState.from_plain(known.get("memories"))
        )

    def on_event(self, event: Event) -> Derived:
        """Return what this event, and the time that has passed before it, make."""
        derived = Derived()
        for assigned in self._threads.on_event(event):
            self._take(assigned, derived)
        self._pass(event.at, derived)
        if event.kind is Kind.SESSION_END:
            for window in self._in_order():
                self._remember(window.on_session_end(event.session_id, event.at), derived)
        return derived

    def on_time(self, now: datetime) -> Derived:
        """Return what the passing of time makes; nothing that a later event would not make as well."""
        derived = Derived()
        for assigned in self._threads.on_time(now):
            self._take(assigned, derived)
        self._pass(now, derived)
        return derived

    def by_hand(self, now: datetime) -> Derived:
        """Return the memories of everything that is open and enough."""
        derived = self.on_time(now)
        for window in self._in_order():
            self._remember(window.by_hand(now), derived)
        return derived

    def due_at(self) -> datetime | None:
        """Return when `on_time` would next make something."""
        due = [found[0] for window in self._windows.values() if (found := window.due_at()) is not None]
        if (turn := self._threads.due_at()) is not None:
            due.append(turn)
        return min(due) if due else None

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return {
            "v": 1,
            "threads": self._threads.snapshot(),
            "continuity": self._continuity.snapshot(),
            "windows": {id_: one.snapshot() for id_, one in self._windows.items() if one.is_open},
            "memories": self._memories.snapshot(),
        }

    def _take(self, assigned: Assigned, derived: Derived) -> None:
        self._pass(assigned.at, derived)  # first what time has closed, as a timer would have
        derived.assigned.append(assigned)
        transition = self._continuity.on_assigned(assigned)
        if transition is not None:
            derived.transitions.append(transition)
            if transition.type is TransitionType.BREAK:
                for window in self._in_order():
                    self._remember(window.on_break(assigned.at), derived)
        own = self._windows.get(assigned.thread_id)
        if own is None:
            own = WindowLogic(assigned.thread_id, self._project, self._config.windows, WindowState())
            self._windows[assigned.thread_id] = own
        self._remember(own.on_events(assigned.events, assigned.at), derived)

    def _pass(self, now: datetime, derived: Derived) -> None:
        due = [
            (found[0], id_) for id_, window in self._windows.items() if (found := window.due_at()) is not None
        ]
        for at, id_ in sorted(due):  # in the order in which timers would have fired
            if at <= now:
                self._remember(self._windows[id_].on_time(now), derived)
        for id_ in [id_ for id_, window in self._windows.items() if not window.is_open]:
            del self._windows[id_]  # a thread without an open window leaves nothing behind

    def _in_order(self) -> list[WindowLogic]:
        """Return the windows in an order that does not depend on when each came to be, or on a restart."""
        return [window for _, window in sorted(self._windows.items())]

    def _remember(self, windows: Iterable[Window], derived: Derived) -> None:
        for window in windows:
            derived.windows.append(window)
            made = self._memories.on_window(window)
            derived.memories += made.memories
            derived.marks += made.marks


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return events in the order of all derivations, each id once: deliveries of one fact are merged."""
    merged: dict[str, Event] = {}
    for event in events:
        held = merged.get(event.id)
        merged[event.id] = event if held is None else merge(held, event)
    return sorted(merged.values(), key=lambda e: (e.at, e.agent, e.session_id, e.seq, e.id))


def derive(
    project: str, events: Iterable[Event], config: MemoryConfig, *, until: datetime | None = None
) -> Derived:
    """Return all that a project's events make, whatever their order and however often each is told.

    `until`: the time up to which the passing of time is taken into account; None, up to the last event.
    """
    logic = ProjectLogic(project, config)
    derived = Derived()
    for event in in_order(events):
        derived.add(logic.on_event(event))
    if until is not None:
        derived.add(logic.on_time(until))
    return derived


def key_of(event: Event) -> str:
    """Return the key under which a project's events are brought together; a session without one stands alone."""
    return event.project or session_key(event)
