"""A project derived anew from all its events: in the background of the flow, or on the spot.

What comes out are the states of the steps and, against what the tables hold, the rows to write and to delete. Nothing
is written here: the tables have one writer, the flow, which takes the result over in its own order.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headwater.flows.moments import (
    ByHand,
    Moment,
    Ordered,
    Passed,
    Rebuilt,
    TableChange,
    matter_of,
    order_of,
)
from headwater.flows.order_state import FIRST, Build, Place
from headwater.flows.project_memory import MemoryConfig, ProjectLogic, in_order
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.clock import iso
from headwater.schemas.columns import EVENTS, event_from_row
from headwater.schemas.memory_columns import MEMORY_TABLES
from headwater.storage.faults import fault_point
from headwater.storage.tables import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from headwater.schemas.clock import Clock
    from headwater.schemas.columns import TableDef
    from headwater.schemas.events import Event
    from headwater.storage.tables import LanceTable

_SEARCHED = ("code", "cjk")  # columns that are made of the text
_READ = [column.name for column in EVENTS.columns if column.name not in _SEARCHED]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a build reads: the events, the tables of memory by name, and the requests to consolidate a project."""

    events: LanceTable
    tables: Mapping[str, LanceTable]
    asked: Callable[[str], list[datetime]]
    config: MemoryConfig


def build_project(project: str, sources: Sources, now: datetime) -> Build:
    """Return a project derived from all its events, with the passing of time up to REORDER_S before `now`."""
    rows = sources.events.scan(_READ, f"project = {quote(project)}")
    matters: dict[str, int] = {}
    logic = ProjectLogic(project, sources.config)
    events = in_order(event_from_row(row) for row in rows.iter_rows(named=True))
    entries: list[tuple[Place, Moment]] = [(order_of(event), Ordered(event)) for event in events]
    asked = [at for at in sources.asked(project) if at <= now]
    entries += [((at, "\uffff", "", 0, ""), ByHand(at)) for at in asked]
    entries.sort(key=lambda entry: entry[0])
    last = FIRST
    for place, moment in entries:
        if isinstance(moment, Ordered):
            matters[moment.event.id] = hash(matter_of(moment.event))
        logic.take(moment)
        last = place
    horizon = last[0] + timedelta(seconds=sources.config.horizon_s)
    passed = max(last[0], min(now - timedelta(seconds=limits.REORDER_S), horizon))
    logic.take(Passed(passed))
    made = logic.rows()
    changes = {
        definition.name: _change(definition, made[definition.name], sources.tables[definition.name], project)
        for definition in MEMORY_TABLES
    }
    fault_point("memory.built")
    return Build(Rebuilt(logic.states(), changes), last, passed, matters, max(asked, default=None))


class ProjectBuilder:
    """Builds projects one after the other in a thread, or at once. `finishes`: bounded runs leave nothing dirty."""

    def __init__(
        self,
        sources: Sources,
        *,
        finishes: bool,
        clock: Clock = clock_module.SYSTEM,
        update: Callable[[str], None] = lambda _project: None,
    ) -> None:
        """Begin with nothing to do; `update(project)` is told which one is built."""
        self._sources = sources
        self._finishes = finishes
        self._clock = clock
        self._update = update
        self._pool = ThreadPoolExecutor(1, "rebuild")
        self._begun: dict[str, Future[Build]] = {}

    def close(self) -> None:
        """Wait for the build that runs, and forget the others: their projects stay dirty."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def count_events(self, project: str) -> int:
        """Return how many events of the project the table holds."""
        return self._sources.events.count(f"project = {quote(project)}")

    def tell(self, project: str) -> None:
        """Say that a project's history is about to be handed on."""
        self._update(project)

    def start(self, project: str) -> None:
        """Begin to derive a project from what the table holds now."""
        self._begun[project] = self._pool.submit(self._build, project)

    def take(self, project: str) -> Build | None:
        """Return what was begun when it is ready, once. Raises what went wrong."""
        future = self._begun.get(project)
        if future is None or not future.done():
            return None
        del self._begun[project]
        return future.result()

    def build(self, project: str) -> Build | None:
        """Derive a project now; None in a run that leaves that to a later one."""
        if (future := self._begun.pop(project, None)) is not None:
            future.cancel()
        return self._build(project) if self._finishes else None

    def after(self, project: str, last: Place) -> list[Event]:
        """Return the project's events that the table holds behind a place, in order."""
        self._update(project)
        behind = f"project = {quote(project)} AND at >= timestamp '{iso(last[0])}'"
        rows = self._sources.events.scan(_READ, behind)
        events = in_order(event_from_row(row) for row in rows.iter_rows(named=True))
        return [event for event in events if order_of(event) > last]

    def _build(self, project: str) -> Build:
        self._update(project)
        return build_project(project, self._sources, self._clock.now())


def _change(definition: TableDef, rows: list[dict[str, Any]], table: LanceTable, project: str) -> TableChange:
    """Return what turns the rows that the table has of a project into those that were made."""
    made = {row[definition.key]: row for row in rows}  # of rows that were told again, the last
    names = [column.name for column in definition.columns]
    stored = {
        row[definition.key]: row
        for row in table.scan(names, f"project = {quote(project)}").iter_rows(named=True)
    }
    changed = tuple(row for key, row in made.items() if stored.get(key) != row)
    return TableChange(definition.name, changed, tuple(key for key in stored if key not in made))
