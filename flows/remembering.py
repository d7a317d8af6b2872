"""Steps `continuity` and `consolidate`: what a project's turns and windows add to its tables. No Bytewax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.flows.consolidate import ConsolidationConfig, ConsolidationLogic, ConsolidationState
from headwater.flows.continuity import ContinuityLogic, ContinuityState
from headwater.flows.memory_rows import memory_row, reversal_row, transition_row
from headwater.flows.moments import Rebuilt
from headwater.flows.threads import Assigned
from headwater.flows.windows import Window

if TYPE_CHECKING:
    from headwater.flows.consolidate import Consolidated
    from headwater.flows.continuity import Transition
    from headwater.schemas.continuity import ContinuityConfig


class Continuity:
    """The continuity log of one project; `rows` are those since they were last asked for."""

    name = "continuity"

    def __init__(self, config: ContinuityConfig, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot."""
        self._config = config
        self._logic = ContinuityLogic(config, ContinuityState.from_plain(data))
        self._rows: list[dict[str, Any]] = []

    def take(self, moment: Any) -> Transition | None:
        """Take the next moment in; return the transition that it is."""
        if isinstance(moment, Assigned):
            transition = self._logic.on_assigned(moment)
            if transition is not None and moment.turn is not None:
                self._rows.append(transition_row(transition, moment.turn.events[0].session_id))
            return transition
        if isinstance(moment, Rebuilt):
            self._logic = ContinuityLogic(
                self._config, ContinuityState.from_plain(moment.states.get(self.name))
            )
            self._rows.clear()
        return None

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `CONTINUITY_LOG` that are new."""
        rows, self._rows = self._rows, []
        return rows

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return self._logic.snapshot()


class Consolidation:
    """The memories of one project; rows are those that were made or changed since they were last asked for."""

    name = "consolidate"

    def __init__(self, config: ConsolidationConfig, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot."""
        self._config = config
        self._logic = ConsolidationLogic(config, ConsolidationState.from_plain(data))
        self._memories: dict[str, dict[str, Any]] = {}
        self._reversals: list[dict[str, Any]] = []

    def take(self, moment: Any) -> Consolidated | None:
        """Take the next moment in; return what it made."""
        if isinstance(moment, Window):
            made = self._logic.on_window(moment)
            self._memories |= {memory.id: memory_row(memory) for memory in made.memories}
            self._reversals += [reversal_row(mark, moment.project, moment.closed_at) for mark in made.marks]
            return made
        if isinstance(moment, Rebuilt):
            self._logic = ConsolidationLogic(
                self._config, ConsolidationState.from_plain(moment.states.get(self.name))
            )
            self._memories.clear()
            self._reversals.clear()
        return None

    def memory_rows(self) -> list[dict[str, Any]]:
        """Return rows of `MEMORIES`, each as it is now."""
        memories, self._memories = self._memories, {}
        return list(memories.values())

    def reversal_rows(self) -> list[dict[str, Any]]:
        """Return rows of `REVERSALS` that are new."""
        reversals, self._reversals = self._reversals, []
        return reversals

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return self._logic.snapshot()
