"""Step `order_by_project`: the events of a project in order, and when that is too late, the project anew. No Bytewax.

Events wait REORDER_S for earlier ones. One that comes after a later one was handed on makes the project dirty: nothing
is handed on until the project was derived anew from all its events (see `project_build.py`), which everything behind
this step takes over at once. The time that passes without events is handed on as well, so that the steps behind need no
timers: they depend on what comes in, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from headwater.flows.moments import (
    Asked,
    ByHand,
    Change,
    Moment,
    Ordered,
    Passed,
    Rebuilt,
    Seen,
    matter_of,
    order_of,
)
from headwater.flows.turns import short
from headwater.schemas import clock, limits
from headwater.schemas.columns import event_from_plain, event_to_plain
from headwater.schemas.continuity import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headwater.schemas.events import Event

Place = tuple[datetime, str, str, int, str]
FIRST: Place = (NEVER, "", "", -1, "")


@dataclass(frozen=True, slots=True)
class Build:
    """A project derived anew: what the steps take over, the last place in its order, and what its events were.

    `passed`: the time up to which its passing is in it. `matters`: event id -> hash of what memory is made of. `asked`:
    the latest request to consolidate that is in it.
    """

    rebuilt: Rebuilt
    last: Place
    passed: datetime
    matters: Mapping[str, int]
    asked: datetime | None = None


class Builder(Protocol):
    """Derives projects anew, beside the flow or on the spot."""

    def count_events(self, project: str) -> int:
        """Return how many events of the project the table holds."""
        ...

    def start(self, project: str) -> None:
        """Begin to derive a project from what the table holds now. One at a time per project."""
        ...

    def take(self, project: str) -> Build | None:
        """Return what was begun when it is ready, once. Raises what went wrong."""
        ...

    def build(self, project: str) -> Build | None:
        """Derive a project now and return it; None when this run leaves that to a later one."""
        ...


@dataclass(frozen=True, slots=True)
class OrderConfig:
    """`horizon_s`: how long after the last event the passing of time still makes something.

    `history_events` that wait are a history: a bounded run reads one file after the other, a live one a stream.
    """

    horizon_s: float
    history_events: int = limits.WAITING_EVENTS
    reorder_s: float = limits.REORDER_S
    quiet_s: float = limits.REBUILD_QUIET_S
    wait_s: float = limits.REBUILD_WAIT_S
    forget_s: float = limits.PROJECT_FORGET_S


@dataclass(slots=True)
class OrderState:
    """Events and requests that wait, with when they came; the last place handed on; whether the project is dirty.

    `count` is how many events were handed on, `is_checked` whether that was compared with the table since the start: a
    run that was killed may have written or deleted what it did not hand on. `passed` is the time up to which the
    passing of time was handed on. What came since a build was begun is in `since`:
    it is not kept in snapshots, for a build that was interrupted is begun anew.
    """

    waiting: dict[str, Event] = field(default_factory=dict)
    asked: list[datetime] = field(default_factory=list)
    came: datetime | None = None
    last: Place = FIRST
    passed: datetime = NEVER
    count: int = 0
    is_checked: bool = False
    dirty_since: datetime | None = None
    touched: datetime = NEVER
    looked: datetime = NEVER
    since: dict[str, Seen] | None = None

    def plain(self) -> dict[str, Any]:
        """Return the state as plain versioned data for a snapshot."""
        if self.dirty_since is not None:
            return {"v": 1, "dirty": True, "asked": [clock.to_ns(at) for at in self.asked]}
        at, *rest = self.last
        return {
            "v": 1,
            "dirty": False,
            "waiting": [event_to_plain(event) for event in self.waiting.values()],
            "asked": [clock.to_ns(at) for at in self.asked],
            "last": [clock.to_ns(at), *rest],
            "passed_ns": clock.to_ns(self.passed),
            "count": self.count,
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None, now: datetime, *, is_clean: bool = True) -> OrderState:
        """Return the state of a snapshot.

        One of an unknown version is dirty: what it meant is not guessed at. So is one of a run that did not end well
        (`is_clean` False): that run may have written rows that what is handed on now does not give.
        """
        if data is None:
            return cls()
        if not is_clean or data.get("v") != 1 or data["dirty"]:
            asked = [clock.from_ns(at_ns) for at_ns in data.get("asked", ())]
            return cls(asked=asked, is_checked=True, dirty_since=now, touched=now)
        events = [event_from_plain(one) for one in data["waiting"]]
        at_ns, agent, session_id, seq, id_ = data["last"]
        return cls(
            {event.id: event for event in events},
            [clock.from_ns(at_ns) for at_ns in data["asked"]],
            now if events or data["asked"] else None,
            (clock.from_ns(at_ns), agent, session_id, seq, id_),
            clock.from_ns(data["passed_ns"]),
            data["count"],
        )


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
        for its sessions come one after the other and not in the order of their events.
        """
        items, state = list(items), self._state
        self._check({one.event.id for one in items if isinstance(one, Seen)}, now)
        for item in items:
            self._put(item, now)
        if not self.is_dirty and len(state.waiting) >= self._config.history_events:
            self._spoil(now)

    def on_time(self, now: datetime) -> list[Moment]:
        """Return what the passing of time lets be handed on: what waited, a build that is ready, time itself."""
        state = self._state
        self._check(set(), now)
        if self.is_dirty:
            return self._look(now)
        moments: list[Moment] = []
        reorder = timedelta(seconds=self._config.reorder_s)
        if state.came is not None and state.came + reorder <= now:
            moments += self._release()
        if not state.waiting and not state.asked and self._timer_at() <= now:
            moments += self._tick(now - reorder)
        return moments

    def on_end(self, now: datetime) -> list[Moment]:
        """Return what is left at the end of a bounded run; a dirty project stays so when the run leaves it."""
        moments: list[Moment] = []
        self._check(set(), now)
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
        if state.came is not None:
            return state.came + timedelta(seconds=self._config.reorder_s)
        return self._timer_at()

    def is_over(self, now: datetime) -> bool:
        """Whether the project has been silent for so long that its state can go."""
        state = self._state
        idle = not (self.is_dirty or state.waiting or state.asked)
        return idle and state.last[0] + timedelta(seconds=self._config.forget_s) <= min(now, state.passed)

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
        known = state.count + len(state.waiting.keys() | here)
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
        if event.id in state.waiting and item.change in {Change.CHANGED, Change.SAME}:
            state.waiting[event.id] = short(event)
            return
        if item.change is Change.SAME:
            return
        is_late = order_of(event) <= state.last or event.at <= state.passed
        if is_late or item.change is not Change.NEW:
            self._spoil(now)
            return
        state.waiting[event.id] = short(event)
        state.came = state.came or now

    def _spoil(self, now: datetime) -> None:
        """Note that the project has to be derived anew; what waits is in the table."""
        state = self._state
        state.dirty_since = now
        state.touched = now
        state.waiting.clear()
        state.came = None
        state.since = None

    def _release(self) -> list[Moment]:
        """Return what waits, in order."""
        state = self._state
        entries: list[tuple[Place, Moment]] = [
            (order_of(event), Ordered(event)) for event in state.waiting.values()
        ]
        # a request comes after all events of its moment
        entries += [((at, "\uffff", "", 0, ""), ByHand(at)) for at in state.asked]
        entries.sort(key=lambda entry: entry[0])
        state.count += len(state.waiting)
        state.waiting.clear()
        state.asked.clear()
        state.came = None
        state.last = entries[-1][0] if entries else state.last
        return [moment for _, moment in entries]

    def _timer_at(self) -> datetime:
        """Return when the passing of time is to be handed on again."""
        state = self._state
        over = state.last[0] + timedelta(seconds=self._config.horizon_s)
        if state.passed < over:
            return max(state.passed, state.last[0]) + timedelta(
                seconds=limits.TIMER_S + self._config.reorder_s
            )
        return state.last[0] + timedelta(seconds=self._config.forget_s + self._config.reorder_s)

    def _tick(self, at: datetime) -> list[Moment]:
        state = self._state
        if at <= max(state.passed, state.last[0]):
            return []
        state.passed = at
        return [Passed(at)]

    def _look(self, now: datetime) -> list[Moment]:
        """Begin to derive the project anew when that is worth it, or take over what was."""
        state = self._state
        state.looked = now
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
