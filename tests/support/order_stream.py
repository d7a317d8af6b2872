"""An order of a project's events with a table that is a plain list, and a clock."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from project_events import event

from headwater.flows.moments import Change, Moment, Ordered, Rebuilt, Seen, matter_of, order_of
from headwater.flows.order_state import FIRST, Build, OrderConfig, OrderState, Place
from headwater.flows.ordering import OrderLogic
from headwater.flows.project_memory import in_order
from headwater.schemas import limits
from headwater.schemas.events import Event, Kind

CONFIG = OrderConfig(horizon_s=7200)
WAIT = timedelta(seconds=limits.REORDER_S)
STEP = timedelta(seconds=0.25)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Table:
    """A builder over a plain list of events: what the events table would hold."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.begun: dict[str, Build] = {}
        self.slow = False
        self.built = self.read = 0

    def count_events(self, _project: str) -> int:
        """Return how many it holds."""
        return len(self.events)

    def tell(self, _project: str) -> None:
        """Say nothing."""

    def start(self, project: str) -> None:
        """Build from what is there now."""
        self.begun[project] = self.build(project)

    def take(self, project: str) -> Build | None:
        """Return the build unless it is slow."""
        return None if self.slow else self.begun.pop(project, None)

    def after(self, _project: str, last: Place) -> list[Event]:
        """Return the events behind a place."""
        self.read += 1
        return [one for one in in_order(self.events.values()) if order_of(one) > last]

    def build(self, _project: str) -> Build:
        """Return what the events are now."""
        self.built += 1
        events = in_order(self.events.values())
        last = order_of(events[-1]) if events else FIRST
        rebuilt = Rebuilt({"events": {"ids": [one.id for one in events]}})
        return Build(rebuilt, last, last[0], {one.id: hash(matter_of(one)) for one in events})


class Stream:
    """An order with its table and clock; `heard` is what the steps behind it know, in their order."""

    def __init__(self, table: Table | None = None, config: OrderConfig = CONFIG) -> None:
        self.table = table or Table()
        self.now = NOW
        self.logic = OrderLogic("/p", config, self.table, OrderState())
        self.heard: list[str] = []
        self.moments: list[Moment] = []

    def tell(self, *events: Event, change: Change = Change.NEW) -> None:
        """Write events to the table and tell the order of them."""
        self.table.events |= {one.id: one for one in events}
        self.logic.take([Seen(one, change) for one in events], self.now)

    def hear(self, moments: list[Moment]) -> None:
        """Do what the steps behind do."""
        self.moments += moments
        for moment in moments:
            if isinstance(moment, Ordered):
                self.heard.append(moment.event.id)
            elif isinstance(moment, Rebuilt):
                self.heard = list(moment.states["events"]["ids"])

    def wait(self, time: timedelta) -> None:
        """Let time pass, waking the order whenever it wants."""
        end = self.now + time
        while (due := self.logic.notify_at()) is not None and due <= end:
            self.now = max(self.now + timedelta(milliseconds=1), due)
            self.hear(self.logic.on_time(self.now))
            if self.logic.is_over(self.now):
                break
        self.now = max(self.now, end)

    def restart(self, config: OrderConfig = CONFIG) -> None:
        """Go on from a snapshot."""
        data = json.loads(json.dumps(self.logic.snapshot()))
        self.logic = OrderLogic("/p", config, self.table, OrderState.from_plain(data, self.now))

    def end(self) -> None:
        """End a bounded run."""
        self.hear(self.logic.on_end(self.now))


def prompt(id_: str, at_s: float) -> Event:
    """Return a prompt so many seconds after the start."""
    return event(id_, Kind.PROMPT, id_, at_s=at_s, turn=id_)
