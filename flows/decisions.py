"""What people decide about a project, as a source of the flow: the control journal, replayed like events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

from headwater.flows.moments import Asked
from headwater.schemas import clock as clock_module
from headwater.schemas import control, limits
from headwater.schemas.clock import from_ns
from headwater.schemas.control import DecisionKind
from headwater.storage.control import ControlJournal
from headwater.storage.journal import Cursor

if TYPE_CHECKING:
    from headwater.flows.source import Stop
    from headwater.storage.home import Home

_PART = "control"
# offset, head, turn, base and origin of its cursor: plain, so that old snapshots stay readable
At = tuple[int, str, int, int, str]


@dataclass(frozen=True, slots=True)
class DecisionReader:
    """The requests to consolidate in a home's control journal. `until_idle`: end when all were read."""

    home: Home
    stop: Stop
    until_idle: bool = False

    def read(self, cursor: Cursor) -> tuple[list[tuple[str, Asked]], Cursor]:
        """Return (project, request) of the lines after a cursor, and where to read on."""
        found = ControlJournal(self.home).read(cursor)
        asked = [
            (decision.args["project"], Asked(from_ns(decision.at_ns)))
            for decision in found.decisions
            if decision.kind == DecisionKind.CONSOLIDATE and isinstance(decision.args.get("project"), str)
        ]
        return asked, found.cursor


def asked_of(home: Home, project: str) -> list[datetime]:
    """Return when people asked for a project to be consolidated, in order."""
    state = control.fold(ControlJournal(home).read().decisions)
    return sorted(from_ns(one.at_ns) for one in state.consolidations if one.project == project)


class _ControlPartition(StatefulSourcePartition[tuple[str, Asked], At]):
    def __init__(self, reader: DecisionReader, cursor: Cursor) -> None:
        self._reader = reader
        self._cursor = cursor

    def next_batch(self) -> list[tuple[str, Asked]]:
        if self._reader.stop.is_set():
            raise StopIteration
        asked, self._cursor = self._reader.read(self._cursor)
        if not asked and self._reader.until_idle:
            raise StopIteration
        return asked

    def next_awake(self) -> datetime | None:
        if self._reader.until_idle:  # asked before the first look too: a bounded run would wait for nothing
            return None
        return clock_module.SYSTEM.now() + timedelta(seconds=limits.DECISIONS_LOOK_S)

    def snapshot(self) -> At:
        at = self._cursor
        return (at.offset, at.head, at.turn, at.base, at.origin)


class DecisionSource(FixedPartitionedSource[tuple[str, Asked], At]):
    """The control journal, in one part."""

    def __init__(self, reader: DecisionReader) -> None:
        """Remember what to read."""
        self._reader = reader

    def list_parts(self) -> list[str]:
        """Return the name of the part."""
        return [_PART]

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> _ControlPartition:
        """Return the reader, going on from its cursor."""
        del step_id, for_part
        return _ControlPartition(self._reader, Cursor(*resume_state) if resume_state else Cursor())
