"""Everything that is derived from one project's events: threads, continuity log, windows, memories. No Bytewax.

All of it is a function of the events in the order (at, agent, session, seq): `derive` of the whole and a logic fed
event by event, stopped and restored anywhere, with timers in between, give the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.flows.consolidate import ConsolidationConfig, Mark, Memory
from headwater.flows.continuity import Transition
from headwater.flows.merge import merge
from headwater.flows.moments import ByHand, Moment, Ordered, Passed, order_of
from headwater.flows.remembering import Consolidation, Continuity
from headwater.flows.session_log import SessionLog, SessionRules
from headwater.flows.thread_log import ThreadLog
from headwater.flows.threads import Assigned, ThreadConfig
from headwater.flows.topic_windows import TopicWindows
from headwater.flows.topics import TopicLogic
from headwater.flows.windows import Window, WindowConfig
from headwater.flows.working_set import WorkingSetLogic, WorkingSetRules
from headwater.schemas import limits
from headwater.schemas.continuity import ContinuityConfig
from headwater.schemas.memory_columns import (
    CONTINUITY_LOG,
    EVENT_THREADS,
    MEMORIES,
    REVERSALS,
    SESSIONS,
    THREADS,
    WORKING_SET,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from headwater.schemas.config import EndlessConfig
    from headwater.schemas.events import Event


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """The settings of all steps."""

    threads: ThreadConfig = field(default_factory=ThreadConfig)
    continuity: ContinuityConfig = field(default_factory=ContinuityConfig)
    windows: WindowConfig = field(default_factory=WindowConfig)
    consolidation: ConsolidationConfig = field(default_factory=ConsolidationConfig)
    sessions: SessionRules = field(default_factory=SessionRules)
    working_set: WorkingSetRules = field(default_factory=WorkingSetRules)

    @classmethod
    def of(cls, settings: EndlessConfig) -> MemoryConfig:
        """Return the rules that the settings of a home mean."""
        made, kept, how = settings.consolidation, settings.working_set, settings.continuity
        idle_s = made.trigger_idle_ms / 1000
        return cls(
            continuity=ContinuityConfig(
                decay_hours=how.topic_decay_hours,
                min_score_for_seamless=how.min_score_for_seamless,
                min_score_for_topic_shift=how.min_score_for_topic_shift,
                empty_groups=how.empty_groups,
                type_by=how.type,
            ),
            windows=WindowConfig(
                max_events=made.trigger_event_count,
                interval_s=made.trigger_interval_ms / 1000,
                idle_s=idle_s,
                min_events=made.min_events,
                on_break=made.on_break,
                on_session_end=made.on_session_end,
            ),
            consolidation=ConsolidationConfig(
                max_summary_chars=made.max_summary_chars, coherence_weight=made.coherence_weight
            ),
            sessions=SessionRules(idle_s=idle_s, max_summary_chars=made.max_summary_chars),
            working_set=WorkingSetRules(
                max_events=kept.max_events,
                window_s=kept.time_window_hours * 3600,
                keep_active=made.keep_active,
            ),
        )

    @property
    def horizon_s(self) -> float:
        """How long after a project's last event the passing of time can still make something (but expiry)."""
        return limits.TURN_IDLE_S + max(
            self.windows.interval_s, self.windows.idle_s, self.sessions.idle_s, self.working_set.window_s
        )


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
    """All steps of one project, one after the other as in the flow; input in order, each event once."""

    def __init__(self, project: str, config: MemoryConfig, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot; of none or of an unknown version, afresh."""
        known = data["steps"] if data is not None and data.get("v") == 1 else {}
        self.topics = TopicLogic(config.threads, known.get(TopicLogic.name))
        self.windows = TopicWindows(project, config.windows, config.continuity, known.get(TopicWindows.name))
        self.threads = ThreadLog(project, known.get(ThreadLog.name))
        self.sessions = SessionLog(project, config.sessions, known.get(SessionLog.name))
        self.working_set = WorkingSetLogic(project, config.working_set, known.get(WorkingSetLogic.name))
        self.continuity = Continuity(config.continuity, known.get(Continuity.name))
        self.consolidation = Consolidation(config.consolidation, known.get(Consolidation.name))

    def take(self, moment: Moment) -> Derived:
        """Return what a moment makes."""
        derived = Derived()
        for topic in self.topics.take(moment):
            for windowed in self.windows.take(topic):
                if isinstance(windowed, Assigned):
                    derived.assigned.append(windowed)
                elif isinstance(windowed, Window):
                    derived.windows.append(windowed)
                self.threads.take(windowed)
                self.sessions.take(windowed)
                self.working_set.take(windowed)
                if (transition := self.continuity.take(windowed)) is not None:
                    derived.transitions.append(transition)
                if (made := self.consolidation.take(windowed)) is not None:
                    derived.memories += made.memories
                    derived.marks += made.marks
        return derived

    def on_event(self, event: Event) -> Derived:
        """Return what this event, and the time that has passed before it, make."""
        return self.take(Ordered(event))

    def on_time(self, now: datetime) -> Derived:
        """Return what the passing of time makes; nothing that a later event would not make as well."""
        return self.take(Passed(now))

    def by_hand(self, now: datetime) -> Derived:
        """Return the memories of everything that is open and enough."""
        return self.take(ByHand(now))

    def due_at(self) -> datetime | None:
        """Return when `on_time` would next make a thread's turn or a memory."""
        due = [at for at in (self.topics.due_at(), self.windows.due_at()) if at is not None]
        return min(due) if due else None

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return table name -> rows that were made or changed since they were last asked for."""
        return {
            THREADS.name: self.threads.thread_rows(),
            EVENT_THREADS.name: self.threads.event_rows(),
            SESSIONS.name: self.sessions.rows(),
            WORKING_SET.name: self.working_set.rows(),
            MEMORIES.name: self.consolidation.memory_rows(),
            REVERSALS.name: self.consolidation.reversal_rows(),
            CONTINUITY_LOG.name: self.continuity.rows(),
        }

    def states(self) -> dict[str, dict[str, Any]]:
        """Return step name -> its state as plain versioned data, a copy."""
        steps = (
            self.topics, self.windows, self.threads, self.sessions,
            self.working_set, self.continuity, self.consolidation,
        )  # fmt: skip
        return {step.name: step.snapshot() for step in steps}

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return {"v": 1, "steps": self.states()}


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return events in the order of all derivations, each id once: deliveries of one fact are merged."""
    merged: dict[str, Event] = {}
    for event in events:
        held = merged.get(event.id)
        merged[event.id] = event if held is None else merge(held, event)
    return sorted(merged.values(), key=order_of)


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
