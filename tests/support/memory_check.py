"""What the tables of memory must hold: what all events of each project give when they are derived as a whole."""

from __future__ import annotations

from typing import Any

from generation_rows import Memory, memory_differences, memory_of

from headwater.flows.decisions import asked_of
from headwater.flows.moments import ByHand, Moment, Ordered, Passed, order_of
from headwater.flows.project_memory import MemoryConfig, ProjectLogic, in_order
from headwater.schemas import clock
from headwater.schemas.columns import EVENTS, event_from_row
from headwater.schemas.memory_columns import MEMORY_TABLES
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore


def whole_memory(home: Home) -> Memory:
    """Return what all events that a home's table holds give, as of now."""
    names = [column.name for column in EVENTS.columns]
    rows = LanceStore(home.lance).open(EVENTS, create=False).scan(names).to_dicts()
    found: Memory = {definition.name: {} for definition in MEMORY_TABLES}
    config = MemoryConfig.of(home.config().endless)
    for project in sorted({row["project"] for row in rows}):
        logic = ProjectLogic(project, config)
        events = in_order(event_from_row(row) for row in rows if row["project"] == project)
        entries: list[tuple[Any, Moment]] = [(order_of(event), Ordered(event)) for event in events]
        entries += [((at, "\uffff", "", 0, ""), ByHand(at)) for at in asked_of(home, project)]
        for _, moment in sorted(entries, key=lambda entry: entry[0]):
            logic.take(moment)
        logic.take(Passed(clock.SYSTEM.now()))
        made = logic.rows()
        for definition in MEMORY_TABLES:
            found[definition.name] |= {row[definition.key]: row for row in made[definition.name]}
    return found


def check_memory(home: Home, why: str = "") -> Memory:
    """Fail unless the tables hold exactly what the events give; return what they hold."""
    stored = memory_of(home)
    found = memory_differences(stored, whole_memory(home))
    assert found == [], f"{why}: {len(found)} rows, such as {found[:3]}"
    return stored
