"""Step `order_by_project`: the events of a project in order, and when that is too late, the project anew. No Bytewax.

Events wait REORDER_S for earlier ones. One that comes after a later one was handed on makes the project dirty: nothing
is handed on until the project was derived anew from all its events (see `project_build.py`), which everything behind
this step takes over at once. The time that passes without events is handed on as well, so that the steps behind need no
timers: they depend on what comes in, and on nothing else.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.flows.moments import (
    Asked,
    ByHand,
    Change,
    Moment,
    Ordered,
    Passed,
    Seen,
    matter_of,
    order_of,
)
from headwater.flows.order_state import FIRST, Build, Builder, OrderConfig, OrderState, Place
from headwater.flows.turns import short
from headwater.schemas import limits
from headwater.schemas.continuity import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.schemas.events import Event

_TOLD_AGAIN = frozenset({Change.CHANGED, Change.SAME})


class OrderLogic:
    """Puts what comes of one project in order; the time is handed in with each call."""

    name = "order_by_project"

    def __init__(self, project: str, config: OrderConfig, builder: Builder, state: OrderState) -> None:
        """Go on from a state."""
        self._project = project
        self._config = config
        self._builder = builder
        self._state = state

    @property
    def is_dirty(self) -> bool:
        """Whether the project has to be derived anew."""
        return self._state.dirty_since is not None

    def take(self, items: Iterable[Seen | Asked], now: datetime) -> None:
        """Take what comes in; `on_time` hands it on.

        When so many come before any can be handed on that a history is read, it is derived as a whole when it is there,
        for its sessions come one after the other and not in the order of their events. One that lies behind all that
        was handed on leaves that as it is: it waits in the table, and is handed on in order when all of it is there.
        """
        items, state = list(items), self._state
        self._check(
            {one.event.id for one in items if isinstance(one, Seen) and one.change is Change.NEW}, now
        )
        for item in items:
            self._put(item, now)
        if self.is_dirty or len(state.waiting) < self._config.history_events:
            return
        if self._config.reads_behind and state.last != FIRST:
            state.behind = len(state.waiting)
            self._hold(state.waiting.values())
            state.waiting.clear()
            state.arrived.clear()
        else:
            self._spoil(now)

    def on_time(self, now: datetime) -> list[Moment]:
        """Return what the passing of time lets be handed on: what waited, a build that is ready, time itself."""
        state = self._state
        self._check(set(), now)
        if self.is_dirty:
            return self._look(now)
        moments: list[Moment] = []
        if state.behind is not None:
            return moments  # until all of it is there
        reorder = timedelta(seconds=self._config.reorder_s)
        if state.came is not None and state.came + reorder <= now:
            moments += self._release(now - reorder / 2)
        if not state.waiting and not state.asked and self._timer_at() <= now:
            moments += self._tick(now - reorder)
        return moments

    def on_end(self, now: datetime) -> list[Moment]:
        """Return what is left at the end of a bounded run; a dirty project stays so when the run leaves it."""
        moments: list[Moment] = []
        self._check(set(), now)
        if self._state.behind is not None:
            moments += self._catch_up(now)
        if self.is_dirty:
            build = self._builder.build(self._project)
            if build is None:
                return []
            moments += self._swap(build, now)
        if not self.is_dirty:
            moments += self._release()
            moments += self._tick(now - timedelta(seconds=self._config.reorder_s))
        return moments

    def notify_at(self) -> datetime | None:
        """Return when `on_time` is to be called."""
        state = self._state
        if self.is_dirty:
            return max(state.touched, state.looked) + timedelta(seconds=limits.REBUILD_LOOK_S)
        if not state.is_checked:
            return NEVER
        if state.behind is not None:
            return None
        if state.came is not None:
            return state.came + timedelta(seconds=self._config.reorder_s)
        if self._config.reads_behind and state.passed >= self._horizon():
            return None
        return self._timer_at()

    def is_over(self, now: datetime) -> bool:
        """Whether the project has been silent for so long that its state can go; never in a bounded run.

        What a bounded run reads may be as old as its last event, and goes on from it.
        """
        state = self._state
        if self._config.reads_behind:
            return False
        idle = not (self.is_dirty or state.waiting or state.behind is not None or state.asked)
        is_told = state.passed >= self._horizon()
        return idle and is_told and state.last[0] + timedelta(seconds=self._config.forget_s) <= now

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return self._state.plain()

    # --- inside ---

    def _check(self, here: set[str], now: datetime) -> None:
        """Compare, once, what was handed on with what the table holds beside these."""
        state = self._state
        if state.is_checked:
            return
        state.is_checked = True
        if state.behind is not None and not self._config.reads_behind:
            self._spoil(now)  # a bounded run was stopped; this one goes on beside what comes
            return
        known = state.count + (state.behind or 0) + len(state.waiting.keys() | here)
        if self._builder.count_events(self._project) != known:
            self._spoil(now)

    def _put(self, item: Seen | Asked, now: datetime) -> None:
        state = self._state
        if isinstance(item, Asked):
            if item.at <= max(state.last[0], state.passed) and not self.is_dirty:
                self._spoil(now)
            state.asked.append(item.at)
            state.came = state.came or now
            return
        if self.is_dirty:
            if item.change is not Change.SAME:
                state.touched = now
            if state.since is not None:
                state.since[item.event.id] = item
            return
        event = item.event
        is_late = order_of(event) <= state.last or event.at <= state.passed
        waits = event.id in state.waiting or event.id in state.behind_events
        if item.change is Change.SAME and not waits:
            return
        if is_late or not (item.change is Change.NEW or (waits and item.change in _TOLD_AGAIN)):
            self._spoil(now)
        elif state.behind is not None:  # the table has it as it is now
            state.behind += not waits
            self._hold([event])
        else:
            state.waiting[event.id] = short(event)
            state.arrived.setdefault(event.id, now)
            state.came = state.came or now

    def _spoil(self, now: datetime) -> None:
        """Note that the project has to be derived anew; what waits is in the table."""
        state = self._state
        state.dirty_since = now
        state.touched = now
        state.waiting.clear()
        state.arrived.clear()
        state.behind = None
        state.behind_events.clear()
        state.came = None
        state.since = None

    def _hold(self, events: Iterable[Event]) -> None:
        """Note events of the history, and the first BEHIND_EVENTS as they were last told."""
        held = self._state.behind_events
        for event in events:
            is_kept = len(held) < limits.BEHIND_EVENTS or held.get(event.id) is not None
            held[event.id] = short(event) if is_kept else None

    def _held(self) -> dict[str, Event] | None:
        """Return the history when all of it was told to this run and is held, and the table has as many events."""
        state = self._state
        held = {id_: event for id_, event in state.behind_events.items() if event is not None}
        if len(held) != state.behind or self._builder.count_events(self._project) != state.count + len(held):
            return None
        self._builder.tell(self._project)
        return held

    def _catch_up(self, now: datetime) -> list[Moment]:
        """Return the history that lies behind what was handed on; when the table holds another one, it is dirty."""
        state = self._state
        waiting = self._held()
        if waiting is None:
            events = self._builder.after(self._project, state.last)
            if len(events) != state.behind:
                self._spoil(now)
                return []
            waiting = {event.id: short(event) for event in events}
        state.waiting = waiting
        state.behind = None
        state.behind_events.clear()
        return self._release()

    def _release(self, arrived_by: datetime | None = None) -> list[Moment]:
        """Return what waits, in order; with a time, no more than up to the last of what came by then.

        In a stream without a pause the newest event came just now, and earlier ones may be behind it.
        """
        state = self._state
        ready = {id_: order_of(event) for id_, event in state.waiting.items()}
        if arrived_by is not None and not state.asked and state.came is not None:
            last = max(
                (place for id_, place in ready.items() if state.arrived.get(id_, state.came) <= arrived_by),
                default=FIRST,
            )
            ready = {id_: place for id_, place in ready.items() if place <= last}
        entries: list[tuple[Place, Moment]] = [
            (place, Ordered(state.waiting.pop(id_))) for id_, place in ready.items()
        ]
        # a request comes after all events of its moment
        entries += [((at, "\uffff", "", 0, ""), ByHand(at)) for at in state.asked]
        entries.sort(key=lambda entry: entry[0])
        state.count += len(ready)
        state.asked.clear()
        state.arrived = {id_: at for id_, at in state.arrived.items() if id_ in state.waiting}
        state.came = min(state.arrived.values(), default=None)
        state.last = entries[-1][0] if entries else state.last
        return [moment for _, moment in entries]

    def _timer_at(self) -> datetime:
        """Return when the passing of time is to be handed on again."""
        state = self._state
        if state.passed < self._horizon():
            return max(state.passed, state.last[0]) + timedelta(
                seconds=limits.TIMER_S + self._config.reorder_s
            )
        return state.last[0] + timedelta(seconds=self._config.forget_s + self._config.reorder_s)

    def _horizon(self) -> datetime:
        return self._state.last[0] + timedelta(seconds=self._config.horizon_s)

    def _tick(self, at: datetime) -> list[Moment]:
        """Return that time has passed: never behind the horizon, so that what comes much later is not late."""
        state = self._state
        at = min(at, self._horizon())
        if at <= max(state.passed, state.last[0]):
            return []
        state.passed = at
        return [Passed(at)]

    def _look(self, now: datetime) -> list[Moment]:
        """Begin to derive the project anew when that is worth it, or take over what was."""
        state = self._state
        state.looked = now
        if self._config.reads_behind:
            return []  # at the end of a bounded run, once: begun while it still reads, it would be made twice
        dirty_since = state.dirty_since or now
        if state.since is not None:
            build = self._builder.take(self._project)
            return [] if build is None else self._swap(build, now)
        is_quiet = now - state.touched >= timedelta(seconds=self._config.quiet_s)
        if is_quiet or now - dirty_since >= timedelta(seconds=self._config.wait_s):
            state.since = {}
            self._builder.start(self._project)
        return []

    def _swap(self, build: Build, now: datetime) -> list[Moment]:
        """Take a build over, and what came while it was made; that may make the project dirty again."""
        state = self._state
        since, state.since = state.since or {}, None
        state.dirty_since = None
        state.last, state.passed = build.last, build.passed
        state.count = len(build.matters)
        state.asked = [at for at in state.asked if build.asked is None or at > build.asked]
        state.came = now if state.asked else None
        for item in since.values():
            known = build.matters.get(item.event.id)
            if item.change is not Change.GONE and known == hash(matter_of(item.event)):
                continue
            if known is not None or item.change is Change.GONE:
                self._spoil(now)
                break
            self._put(Seen(item.event, Change.NEW), now)
            if self.is_dirty:
                break
        return [build.rebuilt]
