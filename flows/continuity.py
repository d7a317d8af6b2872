"""The continuity log: one row per turn, against the project's context before it. Config / logic / state, no Bytewax."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock, ids
from headwater.schemas.continuity import (
    Context,
    Continuity,
    ContinuityConfig,
    TransitionType,
    compare,
    type_by_score,
    type_by_thread,
)
from headwater.schemas.features import join

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.flows.threads import Assigned


@dataclass(frozen=True, slots=True)
class Transition:
    """A row of the continuity log; `score_type` is the seeds' type by the score alone."""

    id: str
    project: str
    turn_event_id: str
    from_context_id: str | None
    to_context_id: str
    continuity: Continuity
    type: TransitionType
    score_type: TransitionType
    at: datetime
    thread_id: str


@dataclass(frozen=True, slots=True)
class ContinuityState:
    """The project's context, and the id of the turn that made it; None before the first."""

    context: Context = field(default_factory=Context)
    context_id: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the state as plain versioned data for a snapshot."""
        context = self.context
        return {
            "v": 1,
            "topics": list(context.topics),
            "files": list(context.files),
            "entities": list(context.entities),
            "at_ns": clock.to_ns(context.at),
            "context_id": self.context_id,
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None) -> ContinuityState:
        """Return the state of a snapshot; of an unknown version, an empty one."""
        if data is None or data.get("v") != 1:
            return cls()
        context = Context(
            tuple(data["topics"]), tuple(data["files"]), tuple(data["entities"]), clock.from_ns(data["at_ns"])
        )
        return cls(context, data["context_id"])


class ContinuityLogic:
    """Logs how each turn of one project goes on from what was before it."""

    def __init__(self, config: ContinuityConfig, state: ContinuityState) -> None:
        """Go on from a state."""
        self._config = config
        self._state = state

    @property
    def context(self) -> Context:
        """What goes on in the project now."""
        return self._state.context

    def on_assigned(self, assigned: Assigned) -> Transition | None:
        """Return the row of a turn; None for late events, which change nothing, and for the project's first turn."""
        turn = assigned.turn
        if turn is None:
            return None
        before, config = self._state, self._config
        features = join((turn.prompt, turn.response, turn.tools))
        own = Context().then(features, turn.first_at)
        first = turn.events[0]
        context_id = "ctx_" + ids.digest("context", turn.project, first.id)
        self._state = ContinuityState(before.context.then(features, turn.last_at), context_id)
        if before.context_id is None:
            return None
        found = compare(before.context, own, config)
        score_type = type_by_score(found.score, config)
        by_thread = type_by_thread(assigned.previous_thread, assigned.thread_id, assigned.pause_s, config)
        return Transition(
            "log_" + ids.digest("continuity", turn.project, first.id),
            turn.project,
            first.id,
            before.context_id,
            context_id,
            found,
            score_type if config.type_by == "score" else by_thread,
            score_type,
            turn.first_at,
            assigned.thread_id,
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data, a copy."""
        return self._state.plain()
