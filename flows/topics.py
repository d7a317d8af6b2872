"""Step `key_by_topic`: which thread each event of a project belongs to. No Bytewax.

Out come what came in and, before it, the turns that it lets be decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.flows.moments import ByHand, Moment, Ordered, Passed, Rebuilt
from headwater.flows.threads import Assigned, ThreadConfig, ThreadLogic

if TYPE_CHECKING:
    from datetime import datetime

Topic = Assigned | Moment


class TopicLogic:
    """The threads of one project."""

    name = "key_by_topic"

    def __init__(self, config: ThreadConfig, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot; of none or of an unknown version, afresh."""
        self._config = config
        self._threads = ThreadLogic.from_snapshot(config, data)

    def take(self, moment: Moment) -> list[Topic]:
        """Return what a moment decides, then the moment."""
        match moment:
            case Ordered(event):
                return [*self._threads.on_event(event), moment]
            case Passed(at) | ByHand(at):
                return [*self._threads.on_time(at), moment]
            case Rebuilt(states):
                self._threads = ThreadLogic.from_snapshot(self._config, states.get(self.name))
        return [moment]

    def due_at(self) -> datetime | None:
        """Return when time would next decide something."""
        return self._threads.due_at()

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return self._threads.snapshot()
