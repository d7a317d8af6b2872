"""Whether what agents were told was used: compared with the answer and the tool calls of the turn that followed.

An item counts as used when what followed shares a file with it, or at least TOLD_TERMS distinctive terms: rare in the
project until then, and not in the prompt, which the answer follows anyway. It is a sign, no proof: an agent may know
the same from elsewhere, and may use what it was told without a word of it. What is judged is not judged again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.query.memories import ConsolidatedStore
from headwater.query.project_cache import terms_of
from headwater.query.scope import where
from headwater.schemas import limits
from headwater.schemas.events import Kind
from headwater.schemas.features import stem, text_features
from headwater.schemas.memory_columns import SESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headwater.query.stores import Stores
    from headwater.storage.usage import ToldItem

_COLUMNS = (
    "id",
    "agent",
    "agent_id",
    "session_id",
    "turn_id",
    "kind",
    "at",
    "seq",
    "topics",
    "entities",
    "files",
)
_ORDER = ("at", "seq", "id")
_FOLLOWS = (Kind.TOOL.value, Kind.RESPONSE.value)


@dataclass(frozen=True, slots=True)
class Named:
    """What a text names: terms (stems of its subjects, names of code, paths), and files."""

    terms: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many distinctive terms and files an item shares with what followed."""

    terms: int
    files: int

    @property
    def used(self) -> bool:
        """Whether that is enough to call it used."""
        return self.terms >= limits.TOLD_TERMS or self.files > 0


@dataclass(frozen=True, slots=True)
class Tally:
    """How many items were told, how many of them can be judged, and how many of these were used."""

    told: int = 0
    judged: int = 0
    used: int = 0

    @property
    def share(self) -> float | None:
        """The share of the judged that was used, None when there are none."""
        return self.used / self.judged if self.judged else None


def outcome(item: Named, followed: Named, prompt: Named, common: Iterable[str] = ()) -> Outcome:
    """Return what an item shares with what followed, beyond what the prompt and the whole project name."""
    paths = frozenset(file.lower() for file in item.files)  # a path is a term too, and counts once
    terms = (item.terms & followed.terms) - prompt.terms - frozenset(common) - paths
    return Outcome(len(terms), len((item.files & followed.files) - prompt.files))


def is_common(events_naming: int, events: int) -> bool:
    """Return whether a term says nothing in a project: too many of its events name it."""
    return events_naming > max(limits.TOLD_RARE_EVENTS, limits.TOLD_RARE_SHARE * events)


def prompt_of(prompts: Sequence[datetime], told_at: datetime, *, is_start: bool) -> int | None:
    """Return which of a session's prompts (times, in order) something was told for, None when it has not come yet.

    With a prompt it is told just after it came; with a start, for the first prompt that follows.
    """
    if is_start:
        place = bisect_left(prompts, told_at - timedelta(seconds=1))
        return place if place < len(prompts) else None
    place = bisect_right(prompts, told_at + timedelta(seconds=1)) - 1
    near = timedelta(seconds=limits.TOLD_TURN_S)
    return place if place >= 0 and told_at - prompts[place] <= near else None


def tallies(items: Iterable[ToldItem]) -> dict[str, Tally]:
    """Return the counts of each section (memory, session, active, found), sorted by name."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in items:
        row = counts[one.item.partition(":")[0]]
        row[0] += 1
        row[1] += one.used is not None
        row[2] += bool(one.used)
    return {name: Tally(*counts[name]) for name in sorted(counts)}


def judged(stores: Stores, items: Sequence[ToldItem]) -> list[ToldItem]:
    """Return those of the items whose turn is over, with their outcome; what is gone from the store is left out."""
    by_project: dict[str, list[ToldItem]] = defaultdict(list)
    for one in items:
        by_project[stores.called(one.project)].append(one)
    return [one for project, some in by_project.items() for one in _Project(stores, project).judge(some)]


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn that is over: its prompt's event and place in the project, and what followed."""

    prompt: str
    place: int
    said: Named
    followed: Named


class _Project:
    """The events of a project in order, and what each names."""

    def __init__(self, stores: Stores, project: str) -> None:
        scope = stores.scope(project)
        rows = stores.events.scan(list(_COLUMNS), where(scope)).sort(_ORDER).to_dicts()
        self._stores, self._scope, self._rows = stores, scope, rows
        self._named = [_named(row) for row in rows]
        self._places = {row["id"]: place for place, row in enumerate(rows)}
        self._sessions: dict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(rows):
            self._sessions[f"{row['agent']}:{row['session_id']}"].append(place)

    def judge(self, items: Sequence[ToldItem]) -> list[ToldItem]:
        texts = self._texts(items)
        turns = {(one.session, one.at, one.is_start): self._turn(one) for one in items}
        open_ = sorted(
            (
                (turn.place, n)
                for n, one in enumerate(items)
                if one.item in texts and (turn := turns[one.session, one.at, one.is_start]) is not None
            )
        )
        found: list[ToldItem] = []
        counts: Counter[str] = Counter()
        counted = 0
        for place, n in open_:
            for named in self._named[counted:place]:
                counts.update(named.terms)
            counted = place
            one = items[n]
            turn = turns[one.session, one.at, one.is_start]
            assert turn is not None, "only items with a turn are in the order"
            item = texts[one.item]
            common = [term for term in item.terms if is_common(counts[term], place)]
            result = outcome(item, turn.followed, turn.said, common)
            found.append(
                replace(one, turn=turn.prompt, used=result.used, terms=result.terms, files=result.files)
            )
        return found

    def _turn(self, one: ToldItem) -> _Turn | None:
        """Return the turn that something was told for, None as long as it is not over."""
        places = self._sessions.get(one.session, [])
        prompts = [place for place in places if self._is_prompt(place)]
        number = prompt_of([self._rows[place]["at"] for place in prompts], one.at, is_start=one.is_start)
        if number is None:
            return None
        start = prompts[number]
        end = prompts[number + 1] if number + 1 < len(prompts) else len(self._rows)
        turn_id = self._rows[start]["turn_id"]
        after = [place for place in places if start < place]
        inside = [place for place in after if self._follows(place, turn_id, end)]
        is_over = end < len(self._rows) or any(self._ends(place) for place in after)
        if not is_over:
            return None
        content = self._stores.events.by_ids([self._rows[start]["id"]], ["content"]).get_column("content")[0]
        prompt = self._named[start]
        said = Named(prompt.terms | terms_of(content), prompt.files | frozenset(text_features(content).files))
        followed = Named(
            frozenset(term for place in inside for term in self._named[place].terms),
            frozenset(file for place in inside for file in self._named[place].files),
        )
        return _Turn(self._rows[start]["id"], start, said, followed)

    def _is_prompt(self, place: int) -> bool:
        return self._rows[place]["kind"] == Kind.PROMPT.value and self._rows[place]["agent_id"] is None

    def _follows(self, place: int, turn_id: str | None, end: int) -> bool:
        row = self._rows[place]
        mine = place < end if turn_id is None or row["turn_id"] is None else row["turn_id"] == turn_id
        return mine and row["kind"] in _FOLLOWS

    def _ends(self, place: int) -> bool:
        row = self._rows[place]
        answers = row["kind"] == Kind.RESPONSE.value and row["agent_id"] is None
        return answers or row["kind"] == Kind.SESSION_END.value

    def _texts(self, items: Sequence[ToldItem]) -> Mapping[str, Named]:
        """Return what each item names, of those that are there."""
        ids: dict[str, set[str]] = defaultdict(set)
        for one in items:
            section, _, id_ = one.item.partition(":")
            ids[section].add(id_)
        found = {
            f"{section}:{id_}": self._named[self._places[id_]]
            for section in ("active", "found")
            for id_ in ids[section]
            if id_ in self._places
        }
        memories, store = sorted(ids["memory"]), ConsolidatedStore(self._stores)
        for start in range(0, len(memories), limits.IDS_PER_FILTER):
            for memory in store.get(memories[start : start + limits.IDS_PER_FILTER], self._scope):
                found[f"memory:{memory.id}"] = _of_text(memory.summary, memory.topics)
        for row in self._stores.table(SESSIONS).by_ids(sorted(ids["session"]), ["id", "summary"]).to_dicts():
            found[f"session:{row['id']}"] = _of_text(row["summary"])
        return found


def _of_text(text: str, topics: Iterable[str] = ()) -> Named:
    terms = terms_of(text) | frozenset(stem(topic) for topic in topics)
    return Named(terms, frozenset(text_features(text).files))


def _named(row: Mapping[str, Any]) -> Named:
    files = frozenset(ref["path"] for ref in row["files"] or ())
    names = frozenset(name.lower() for name in (*(row["entities"] or ()), *files))
    return Named(frozenset(stem(topic) for topic in row["topics"] or ()) | names, files)
