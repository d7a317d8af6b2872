"""Step `window_by_topic`: the consolidation windows of all threads of a project. No Bytewax.

Out come what came in and the windows that close, each in the place where time, a break or a session's end closed it.
A break is one of thread and pause, whichever way the continuity log types its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.flows.moments import ByHand, Ordered, Passed, Rebuilt
from headwater.flows.threads import Assigned
from headwater.flows.windows import Window, WindowConfig, WindowLogic, WindowState
from headwater.schemas.continuity import ContinuityConfig, TransitionType, type_by_thread
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.flows.topics import Topic

Windowed = Window | Assigned | Ordered | Passed | ByHand | Rebuilt


class TopicWindows:
    """The open windows of one project, by thread."""

    name = "window_by_topic"

    def __init__(
        self,
        project: str,
        config: WindowConfig,
        continuity: ContinuityConfig,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Go on from a snapshot; of none or of an unknown version, afresh."""
        self._project = project
        self._config = config
        self._continuity = continuity
        self._load(data)

    def take(self, moment: Topic) -> list[Any]:
        """Return a moment with the windows that close before and by it."""
        match moment:
            case Assigned():
                return self._on_assigned(moment)
            case Ordered(event):
                found = self._pass(event.at)
                if event.kind is Kind.SESSION_END:
                    for window in self._in_order():
                        found += window.on_session_end(event.session_id, event.at)
                    self._let_go()
                return [*found, moment]
            case Passed(at):
                return [*self._pass(at), moment]
            case ByHand(at):
                found = self._pass(at)
                for window in self._in_order():
                    found += window.by_hand(at)
                self._let_go()
                return [*found, moment]
            case Rebuilt(states):
                self._load(states.get(self.name))
        return [moment]

    def due_at(self) -> datetime | None:
        """Return when time would next close a window."""
        due = [found[0] for window in self._windows.values() if (found := window.due_at()) is not None]
        return min(due) if due else None

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return {"v": 1, "windows": {id_: one.snapshot() for id_, one in self._windows.items() if one.is_open}}

    def _load(self, data: dict[str, Any] | None) -> None:
        known = data["windows"] if data is not None and data.get("v") == 1 else {}
        self._windows = {
            id_: WindowLogic(id_, self._project, self._config, WindowState.from_plain(state))
            for id_, state in known.items()
        }
        self._due = self.due_at()  # never later than the next time at which a window closes

    def _on_assigned(self, assigned: Assigned) -> list[Any]:
        closed: list[Any] = list(self._pass(assigned.at))
        if assigned.turn is not None and self._is_break(assigned):
            for window in self._in_order():
                closed += window.on_break(assigned.at)
            self._let_go()
        own = self._windows.get(assigned.thread_id)
        if own is None:
            own = WindowLogic(assigned.thread_id, self._project, self._config, WindowState())
            self._windows[assigned.thread_id] = own
        by_own = own.on_events(assigned.events, assigned.at)
        self._let_go()
        due = own.due_at()
        if due is not None and (self._due is None or due[0] < self._due):
            self._due = due[0]
        return [*closed, assigned, *by_own]

    def _is_break(self, assigned: Assigned) -> bool:
        found = type_by_thread(
            assigned.previous_thread, assigned.thread_id, assigned.pause_s, self._continuity
        )
        return found is TransitionType.BREAK

    def _pass(self, now: datetime) -> list[Window]:
        if self._due is None or now < self._due:
            return []
        due = [
            (found[0], id_) for id_, window in self._windows.items() if (found := window.due_at()) is not None
        ]
        closed: list[Window] = []
        for at, id_ in sorted(due):  # in the order in which timers would have fired
            if at <= now:
                closed += self._windows[id_].on_time(now)
        self._let_go()
        self._due = self.due_at()
        return closed

    def _let_go(self) -> None:
        """Let windows without anything in them go: a thread that is not open leaves nothing behind."""
        for id_ in [id_ for id_, window in self._windows.items() if not window.is_open]:
            del self._windows[id_]

    def _in_order(self) -> list[WindowLogic]:
        """Return the windows in an order that does not depend on when each came to be, or on a restart."""
        return [window for _, window in sorted(self._windows.items())]
