"""Step `follow_threads`: what each thread is called and about, and which events it has. No Bytewax."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headwater.flows.moments import Rebuilt
from headwater.flows.threads import Assigned
from headwater.flows.turns import inside
from headwater.schemas import clock, limits
from headwater.schemas.events import Event, Kind
from headwater.schemas.features import join
from headwater.schemas.text import one_line

_TOPIC_COUNTS = 4 * limits.MEMORY_TOPICS  # kept of each thread: the rare ones never become the most frequent


@dataclass(slots=True)
class Followed:
    """A thread as its row tells it."""

    first_at: datetime
    last_at: datetime
    title: str = ""
    turns: int = 0
    events: int = 0
    topics: Counter[str] = field(default_factory=Counter)
    files: tuple[str, ...] = ()

    def plain(self) -> list[Any]:
        """Return it as plain data."""
        times = [clock.to_ns(self.first_at), clock.to_ns(self.last_at)]
        counts = [[topic, n] for topic, n in self.topics.items()]
        return [*times, self.title, self.turns, self.events, counts, list(self.files)]

    @classmethod
    def from_plain(cls, data: list[Any]) -> Followed:
        """Return it of plain data."""
        first_ns, last_ns, title, turns, events, topics, files = data
        counts = Counter(dict(topics))
        return cls(
            clock.from_ns(first_ns), clock.from_ns(last_ns), title, turns, events, counts, tuple(files)
        )


class ThreadLog:
    """The threads of one project; rows are of what changed since they were last asked for."""

    name = "follow_threads"

    def __init__(self, project: str, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot; of none or of an unknown version, afresh."""
        self._project = project
        self._changed: dict[str, None] = {}
        self._over: list[dict[str, Any]] = []
        self._assigned: list[dict[str, Any]] = []
        self._load(data)

    def take(self, moment: Any) -> None:
        """Take the next moment in."""
        if isinstance(moment, Assigned):
            self._on_assigned(moment)
        elif isinstance(moment, Rebuilt):
            self._changed.clear()
            self._over.clear()
            self._assigned.clear()
            self._load(moment.states.get(self.name))

    def thread_rows(self) -> list[dict[str, Any]]:
        """Return rows of `THREADS` that changed."""
        over, self._over = self._over, []
        changed, self._changed = self._changed, {}
        return [*over, *map(self._row, changed)]

    def event_rows(self) -> list[dict[str, Any]]:
        """Return rows of `EVENT_THREADS` that are new."""
        assigned, self._assigned = self._assigned, []
        return assigned

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return {"v": 1, "threads": [[id_, one.plain()] for id_, one in self._threads.items()]}

    def _load(self, data: dict[str, Any] | None) -> None:
        known = data["threads"] if data is not None and data.get("v") == 1 else []
        self._threads = {id_: Followed.from_plain(one) for id_, one in known}

    def _on_assigned(self, assigned: Assigned) -> None:
        id_, events = assigned.thread_id, assigned.events
        self._forget(assigned.at)
        for event in events:
            self._assigned.append(
                {"event_id": event.id, "project": self._project, "thread_id": id_, "at": event.at}
            )
        one = self._threads.pop(id_, None)
        if one is None and not assigned.is_new:
            return  # an event that comes when its thread has been over for long changes nothing of it
        one = one or Followed(events[0].at, events[0].at)
        self._threads[id_] = one
        self._changed[id_] = None
        one.last_at = max(one.last_at, *(event.at for event in events))
        one.events += len(events)
        if assigned.turn is None:
            return
        one.turns += 1
        features = join((assigned.turn.prompt, assigned.turn.response, assigned.turn.tools))
        one.topics.update(dict.fromkeys((*assigned.turn.prompt.topics, *assigned.turn.response.topics), 1))
        if len(one.topics) > _TOPIC_COUNTS:
            one.topics = Counter(dict(_ranked(one.topics)[:_TOPIC_COUNTS]))
        one.files = tuple(dict.fromkeys((*features.files, *one.files)))[: limits.CONTEXT_ITEMS]
        one.title = one.title or _title(events)

    def _forget(self, now: datetime) -> None:
        """Let threads go that no turn and no late event can join any more."""
        oldest = now - timedelta(seconds=limits.THREAD_OPEN_S + limits.TURN_KEEP_S)
        while self._threads:
            id_ = next(iter(self._threads))  # the one that was longest without an event
            if self._threads[id_].last_at >= oldest:
                return
            if id_ in self._changed:
                del self._changed[id_]
                self._over.append(self._row(id_))
            del self._threads[id_]

    def _row(self, id_: str) -> dict[str, Any]:
        one = self._threads[id_]
        return {
            "thread_id": id_,
            "project": self._project,
            "title": one.title,
            "topics": [topic for topic, _ in _ranked(one.topics)[: limits.MEMORY_TOPICS]],
            "files": list(one.files),
            "first_at": one.first_at,
            "last_at": one.last_at,
            "turns": one.turns,
            "events": one.events,
        }


def _ranked(topics: Counter[str]) -> list[tuple[str, int]]:
    """Return topics, the most frequent first, equal ones by name: a snapshot must not change the order."""
    return sorted(topics.items(), key=lambda item: (-item[1], item[0]))


def _title(events: tuple[Event, ...]) -> str:
    for event in events:
        if event.kind is Kind.PROMPT and (
            title := one_line(inside(event).content, limits.THREAD_TITLE_CHARS)
        ):
            return title
    return ""
