"""Turns: a prompt with the tools and the answer that follow it, collected until it can be said what they are about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headwater.flows.sessions import session_key
from headwater.schemas import limits
from headwater.schemas.columns import event_from_plain, event_to_plain
from headwater.schemas.events import Kind
from headwater.schemas.features import Features, event_features, join

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from headwater.schemas.events import Event

_BORDERS = (Kind.SESSION_START, Kind.SESSION_END)


@dataclass(frozen=True, slots=True)
class TurnConfig:
    """`idle_s`: a turn without an answer is taken as it stands after so long; `keep_s`: its thread is remembered."""

    idle_s: float = limits.TURN_IDLE_S
    keep_s: float = limits.TURN_KEEP_S


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as far as it was known when it was decided: its events in order, and what they are about."""

    key: str
    session_key: str
    project: str
    events: tuple[Event, ...]
    prompt: Features = field(default=Features())
    response: Features = field(default=Features())
    tools: Features = field(default=Features())

    @property
    def first_at(self) -> datetime:
        """When it began."""
        return self.events[0].at

    @property
    def last_at(self) -> datetime:
        """When its last known event happened."""
        return self.events[-1].at


class Turns:
    """The turns of one project that wait to be decided."""

    def __init__(self, waiting: dict[str, list[Event]]) -> None:
        """Go on with turn key -> its events in order."""
        self._waiting = waiting

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None) -> Turns:
        """Return the turns of a snapshot; of an unknown version, none."""
        if data is None or data.get("v") != 1:
            return cls({})
        return cls({key: [event_from_plain(one) for one in found] for key, found in data["waiting"]})

    def plain(self) -> dict[str, Any]:
        """Return the turns as plain versioned data for a snapshot."""
        return {
            "v": 1,
            "waiting": [
                [key, [event_to_plain(event) for event in found]] for key, found in self._waiting.items()
            ],
        }

    def take(self, event: Event, is_decided: Callable[[str], bool]) -> tuple[list[Turn], str | None]:
        """Take an event in; return the turns that can be decided now, and the key when its turn has been before.

        A prompt, and the start or end of a session, let the session's other turns be decided; the main agent's answer
        its own. A session's start and end belong to no turn. Texts are kept as far as features are taken of them.
        """
        session = session_key(event)
        if event.kind in _BORDERS:
            return self._ready(session, None), None
        key = turn_key(event)
        ready = self._ready(session, key) if event.kind is Kind.PROMPT else []
        if is_decided(key):
            return ready, key
        self._waiting.setdefault(key, []).append(short(event))
        if event.kind is Kind.RESPONSE and event.agent_id is None:
            ready.append(_turn(key, self._waiting.pop(key)))
        return ready, None

    def silent_since(self, now: datetime, idle_s: float) -> list[tuple[Turn, datetime]]:
        """Return the turns silent for `idle_s` by `now`, each with the time at which it was, earliest first."""
        idle = timedelta(seconds=idle_s)
        due = sorted(
            (events[-1].at + idle, key)
            for key, events in self._waiting.items()
            if events[-1].at + idle <= now
        )
        return [(_turn(key, self._waiting.pop(key)), at) for at, key in due]

    def due_at(self, idle_s: float) -> datetime | None:
        """Return when the next turn will have been silent for `idle_s`."""
        last = [events[-1].at for events in self._waiting.values()]
        return min(last) + timedelta(seconds=idle_s) if last else None

    def _ready(self, session: str, but: str | None) -> list[Turn]:
        keys = [key for key in self._waiting if key != but and key.startswith(session + ":")]
        return [_turn(key, self._waiting.pop(key)) for key in keys]


def turn_key(event: Event) -> str:
    """Return what the events of a turn have in common; without a turn, those of a session are one."""
    return f"{session_key(event)}:{event.turn_id or ''}"


def _turn(key: str, events: list[Event]) -> Turn:
    said: dict[Kind, list[Features]] = {Kind.PROMPT: [], Kind.RESPONSE: [], Kind.TOOL: []}
    for event in events:
        if event.kind in said:
            said[event.kind].append(event_features(inside(event)))
    return Turn(
        key,
        session_key(events[0]),
        events[0].project,
        tuple(events),
        join(said[Kind.PROMPT]),
        join(said[Kind.RESPONSE]),
        join(said[Kind.TOOL]),
    )


def short(event: Event) -> Event:
    """Return the event with as much of its text as anything here looks at: a turn may hold a hundred tool outputs."""
    chars_max = limits.FEATURE_TOOL_CHARS if event.kind is Kind.TOOL else limits.FEATURE_CHARS
    return event if len(event.content) <= chars_max else replace(event, content=event.content[:chars_max])


def inside(event: Event) -> Event:
    """Return the event with its texts naming the project's files from the project's folder on."""
    root = event.project.rstrip("/") + "/"
    return (
        replace(event, content=event.content.replace(root, ""))
        if len(root) > 1 and root in event.content
        else event
    )
