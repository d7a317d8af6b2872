"""What passes between the steps of memory, all of it of one project and in the order of its events.

`Seen` and `Asked` come in as they arrive; `Ordered` and what follows it come in order. Each step takes what concerns it
and hands the rest on, so that the steps behind it see the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headwater.schemas.events import Event


class Change(StrEnum):
    """What writing an event did to the table."""

    NEW = "new"
    CHANGED = "changed"  # in something that memory is made of
    SAME = "same"  # told again, or changed in nothing that matters here
    AGAIN = "again"  # its line was read before, by a run that wrote more than its snapshot knows
    GONE = "gone"  # it is another project's now


@dataclass(frozen=True, slots=True)
class Seen:
    """An event that is in the table."""

    event: Event
    change: Change


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody asked for the project's open windows to be consolidated."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Ordered:
    """The next event in the order (at, agent, session, seq)."""

    event: Event


@dataclass(frozen=True, slots=True)
class Passed:
    """Time has passed up to here without an event."""

    at: datetime


@dataclass(frozen=True, slots=True)
class ByHand:
    """Everything that is open is to be consolidated, as of this time."""

    at: datetime


@dataclass(frozen=True, slots=True)
class TableChange:
    """What is to become of a project's rows of one table: rows to write, and keys of rows to delete."""

    table: str
    rows: tuple[dict[str, Any], ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The project was derived anew from all its events: the state of each step, and the change of each table."""

    states: dict[str, dict[str, Any]]
    changes: dict[str, TableChange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The project has been silent for so long that its steps let go of their state; what is stored stays."""


Moment = Ordered | Passed | ByHand | Rebuilt | Forgotten


def order_of(event: Event) -> tuple[datetime, str, str, int, str]:
    """Return the place of an event among those of its project."""
    return (event.at, event.agent, event.session_id, event.seq, event.id)


def matter_of(event: Event) -> tuple[Any, ...]:
    """Return all of an event that memory is made of: two with the same give the same."""
    return (
        event.at,
        event.seq,
        event.agent,
        event.session_id,
        event.prev_session_id,
        event.turn_id,
        event.agent_id,
        event.project,
        event.kind,
        event.content,
        event.files,
    )
