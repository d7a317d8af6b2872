"""Step `working_set`: the events of a project that are active, as of its last event. No Bytewax.

An event comes in with its turn. It leaves when neither its thread nor its files were touched for the time window
("expired"), when its window was consolidated and it is not among the best of it ("consolidated"), or when more relevant
ones fill the set ("crowded"). What left stays on record with its time and reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.flows.moments import Ordered, Passed, Rebuilt
from headwater.flows.threads import Assigned
from headwater.flows.turns import inside
from headwater.flows.windows import Window
from headwater.schemas import clock, ids
from headwater.schemas.continuity import NEVER, Context
from headwater.schemas.events import Event, Kind
from headwater.schemas.features import Features, event_features, join
from headwater.schemas.relevance import DEFAULT, Groups, Relevance, RelevanceConfig, Scorer, groups_of

if TYPE_CHECKING:
    from collections.abc import Collection

_BORDERS = (Kind.SESSION_START, Kind.SESSION_END)


@dataclass(frozen=True, slots=True)
class WorkingSetRules:
    """The published numbers; `keep_active` best events of a consolidated window stay."""

    max_events: int = 100
    window_s: float = 24 * 3600.0
    keep_active: int = 10
    relevance: RelevanceConfig = DEFAULT


@dataclass(slots=True)
class Member:
    """An event in the set; `touched_at` is when its thread or one of its files was last touched."""

    event_id: str
    session_id: str
    thread_id: str
    kind: Kind
    at: datetime
    added_at: datetime
    touched_at: datetime
    features: Features
    groups: Groups = field(init=False)
    sizes: tuple[int, int, int] = field(init=False)
    shared: list[int] = field(init=False)  # items of each group that the current context holds

    def __post_init__(self) -> None:
        """Make the sets once: they are compared with each turn."""
        self.groups = groups_of(self.features)
        self.sizes = (len(self.groups[0]), len(self.groups[1]), len(self.groups[2]))
        self.shared = [0, 0, 0]

    def count(self, current: Groups) -> None:
        """Count anew what the context holds of each group."""
        self.shared = [len(own & there) for own, there in zip(self.groups, current, strict=True)]

    def plain(self) -> list[Any]:
        """Return the member as plain data."""
        times = [clock.to_ns(self.at), clock.to_ns(self.added_at), clock.to_ns(self.touched_at)]
        words = [list(self.features.topics), list(self.features.files), list(self.features.entities)]
        return [self.event_id, self.session_id, self.thread_id, self.kind.value, *times, *words]

    @classmethod
    def from_plain(cls, data: list[Any]) -> Member:
        """Return the member of plain data."""
        event_id, session_id, thread_id, kind, at, added_at, touched_at, topics, files, entities = data
        return cls(
            event_id,
            session_id,
            thread_id,
            Kind(kind),
            clock.from_ns(at),
            clock.from_ns(added_at),
            clock.from_ns(touched_at),
            Features(tuple(topics), tuple(files), tuple(entities)),
        )


@dataclass(slots=True)
class WorkingSetState:
    """The members by event, what goes on in the project, and the time of its last turn."""

    members: dict[str, Member] = field(default_factory=dict)
    context: Context = field(default_factory=Context)
    now: datetime = NEVER

    def plain(self) -> dict[str, Any]:
        """Return the state as plain versioned data for a snapshot."""
        context = self.context
        words = [list(context.topics), list(context.files), list(context.entities)]
        return {
            "v": 1,
            "members": [one.plain() for one in self.members.values()],
            "context": [*words, clock.to_ns(context.at)],
            "now_ns": clock.to_ns(self.now),
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None) -> WorkingSetState:
        """Return the state of a snapshot; of none or of an unknown version, an empty one."""
        if data is None or data.get("v") != 1:
            return cls()
        topics, files, entities, at_ns = data["context"]
        members = [Member.from_plain(one) for one in data["members"]]
        context = Context(tuple(topics), tuple(files), tuple(entities), clock.from_ns(at_ns))
        return cls({one.event_id: one for one in members}, context, clock.from_ns(data["now_ns"]))


class WorkingSetLogic:
    """The working set of one project; `rows` are those that changed since they were last asked for."""

    name = "working_set"

    def __init__(self, project: str, rules: WorkingSetRules, data: dict[str, Any] | None = None) -> None:
        """Go on from a snapshot."""
        self._project = project
        self._rules = rules
        self._state = WorkingSetState.from_plain(data)
        self._current = self._counted()
        self._left: list[dict[str, Any]] = []
        self._is_changed = False
        self._oldest = NEVER  # no member was touched last before it; NEVER: to be found out

    def take(self, moment: Any) -> None:
        """Take the next moment in."""
        match moment:
            case Assigned():
                self._on_assigned(moment)
            case Window():
                self._on_window(moment)
            case Passed(at):
                self._expire(at)
            case Ordered(event):
                self._expire(event.at)
            case Rebuilt(states):
                self._state = WorkingSetState.from_plain(states.get(self.name))
                self._current = self._counted()
                self._oldest = NEVER
                self._left.clear()
                self._is_changed = False

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `WORKING_SET`: what left, and all that is in, when anything changed."""
        left, self._left = self._left, []
        if not self._is_changed:
            return left
        self._is_changed = False
        state = self._state
        scorer = self._scorer(state.now)
        return [*left, *(self._row(one, _score(scorer, one)) for one in state.members.values())]

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain versioned data, a copy."""
        return self._state.plain()

    def _on_assigned(self, assigned: Assigned) -> None:
        state, at = self._state, assigned.at
        self._expire(at)
        self._is_changed = True
        state.now = max(state.now, at)
        if assigned.turn is not None:
            turn = assigned.turn
            features = join((turn.prompt, turn.response, turn.tools))
            state.context = state.context.then(features, turn.last_at)
            self._follow()
        found = [(event, event_features(inside(event))) for event in assigned.events]
        self._touch(assigned.thread_id, {path for _, features in found for path in features.files}, at)
        for event, features in found:
            self._add(event, features, assigned.thread_id, at)
        self._crowd(at)

    def _add(self, event: Event, features: Features, thread_id: str, at: datetime) -> None:
        if event.kind in _BORDERS:
            return
        touched_at = max(at, event.at)
        self._oldest = min(self._oldest, touched_at)
        member = Member(event.id, event.session_id, thread_id, event.kind, event.at, at, touched_at, features)
        member.count(self._current)
        self._state.members[event.id] = member

    def _counted(self) -> Groups:
        """Return the groups of the current context, counted in all members."""
        current = groups_of(self._state.context)
        for one in self._state.members.values():
            one.count(current)
        return current

    def _follow(self) -> None:
        """Count anew where the context has changed: a turn names few items that the one before it did not."""
        before, self._current = self._current, groups_of(self._state.context)
        for place, (old, new) in enumerate(zip(before, self._current, strict=True)):
            changed = old ^ new
            if not changed:
                continue
            for one in self._state.members.values():
                own = one.groups[place]
                if not own.isdisjoint(changed):
                    one.shared[place] = len(own & new)

    def _touch(self, thread_id: str, files: set[str], at: datetime) -> None:
        for one in self._state.members.values():
            is_touched = one.thread_id == thread_id or (files and not files.isdisjoint(one.groups[1]))
            if is_touched and one.touched_at < at:
                one.touched_at = at

    def _expire(self, now: datetime) -> None:
        window = timedelta(seconds=self._rules.window_s)
        if now < self._oldest + window:
            return
        over = [one for one in self._state.members.values() if one.touched_at + window <= now]
        for one in over:
            self._leave(one, one.touched_at + window, "expired", self._scorer(one.touched_at + window))
        self._oldest = min((one.touched_at for one in self._state.members.values()), default=now)

    def _crowd(self, at: datetime) -> None:
        surplus = len(self._state.members) - self._rules.max_events
        if surplus > 0:
            scorer = self._scorer(at)
            for one in _ranked(scorer, self._state.members.values())[-surplus:]:
                self._leave(one, at, "crowded", scorer)

    def _on_window(self, window: Window) -> None:
        members = self._state.members
        inside_ = [members[piece.id] for piece in window.pieces if piece.id in members]
        scorer = self._scorer(window.closed_at)
        for one in _ranked(scorer, inside_)[self._rules.keep_active :]:
            self._leave(one, window.closed_at, "consolidated", scorer)
        self._is_changed = True

    def _scorer(self, at: datetime) -> Scorer:
        return Scorer(self._state.context, at, self._rules.relevance)

    def _leave(self, one: Member, at: datetime, reason: str, scorer: Scorer) -> None:
        del self._state.members[one.event_id]
        row = self._row(one, _score(scorer, one))
        row["left_at"], row["left_reason"] = at, reason
        self._left.append(row)

    def _row(self, one: Member, found: Relevance) -> dict[str, Any]:
        return {
            "id": "wse_" + ids.digest("working_set", self._project, one.event_id),
            "event_id": one.event_id,
            "project": self._project,
            "session_id": one.session_id,
            "thread_id": one.thread_id,
            "kind": one.kind.value,
            "at": one.at,
            "added_at": one.added_at,
            "relevance_score": found.score,
            "recency": found.recency,
            "overlap": found.overlap,
            "kind_value": found.kind,
            "topics": list(one.features.topics),
            "files": list(one.features.files),
            "entities": list(one.features.entities),
            "expires_at": one.touched_at + timedelta(seconds=self._rules.window_s),
            "left_at": None,
            "left_reason": None,
        }


def _ranked(scorer: Scorer, members: Collection[Member]) -> list[Member]:
    """Return members, the most relevant first, then the newest."""
    scores = scorer.scores(members)
    order = [(score, one.added_at, one.event_id, one) for score, one in zip(scores, members, strict=True)]
    order.sort(reverse=True)  # no two have the same id, so members are not compared
    return [one for *_, one in order]


def _score(scorer: Scorer, one: Member) -> Relevance:
    return scorer.of(one.kind, one.groups, one.at)
