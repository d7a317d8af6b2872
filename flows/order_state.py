"""What step `order_by_project` knows of a project, and who derives it anew. No Bytewax."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from headwater.flows.moments import Rebuilt, Seen
from headwater.schemas import clock, limits
from headwater.schemas.columns import event_from_plain, event_to_plain
from headwater.schemas.continuity import NEVER
from headwater.schemas.events import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def tell(self, project: str) -> None:
        """Say that a project's history is about to be handed on."""
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

    def after(self, project: str, last: Place) -> list[Event]:
        """Return the project's events that the table holds behind a place, in order."""
        ...


@dataclass(frozen=True, slots=True)
class OrderConfig:
    """`horizon_s`: how long after the last event the passing of time still makes something.

    `history_events` that wait are a history: a bounded run reads one file after the other, a live one a stream.
    `reads_behind`: a history behind everything that was handed on is read from the table at the end, and handed on.
    """

    horizon_s: float
    history_events: int = limits.WAITING_EVENTS
    reads_behind: bool = False
    reorder_s: float = limits.REORDER_S
    quiet_s: float = limits.REBUILD_QUIET_S
    wait_s: float = limits.REBUILD_WAIT_S
    forget_s: float = limits.PROJECT_FORGET_S


@dataclass(slots=True)
class OrderState:
    """Events and requests that wait, with when they came; the last place handed on; whether the project is dirty.

    `behind` is how many events wait in the table alone, None while there are none such; `behind_events` are those of
    this run, by id, and up to BEHIND_EVENTS their selves: who has them all need not read them again. `count` is how
    many events were handed on, `is_checked` whether that was compared with the table since the start: a run that was
    killed may have written or deleted what it did not hand on. `passed` is the time up to which the passing of time
    was handed on. What came since a build was begun is in `since`: it is not kept in snapshots, for a build that was
    interrupted is begun anew.
    """

    waiting: dict[str, Event] = field(default_factory=dict)
    arrived: dict[str, datetime] = field(default_factory=dict)  # of those that wait; not kept in snapshots
    behind: int | None = None
    behind_events: dict[str, Event | None] = field(default_factory=dict)  # not kept in snapshots
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
            "behind": self.behind,
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
            behind=data.get("behind"),
            asked=[clock.from_ns(at_ns) for at_ns in data["asked"]],
            came=now if events or data["asked"] else None,
            last=(clock.from_ns(at_ns), agent, session_id, seq, id_),
            passed=clock.from_ns(data["passed_ns"]),
            count=data["count"],
        )
