"""Whether what agents were told was used: compared with the answer and the tool calls of the turn that followed.

An item counts as used when what followed shares a file with it, or at least TOLD_TERMS distinctive terms: rare in the
project until then, and not in the prompt, which the answer follows anyway. It is a sign, no proof: an agent may know
the same from elsewhere, and may use what it was told without a word of it. What is judged is not judged again.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

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
_LABEL = re.compile(
    r"^[A-Z][a-z]+(?: [a-z]+)?: ", re.MULTILINE
)  # of a summary's lines: `Asked: `, `Left open: `
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
    """Return those of the items whose turn is over, with their outcome; what is gone from the store is left out.

    Of at most TOLD_TURNS turns a project, the oldest first: the others are for the next time.
    """
    by_project: dict[str, list[ToldItem]] = defaultdict(list)
    for one in items:
        by_project[stores.called(one.project)].append(one)
    return [one for project, some in by_project.items() for one in _Project(stores, project).judge(some)]


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn that is over: the places of its prompt and of what followed, in the order of the project's events."""

    prompt: int
    followed: tuple[int, ...]


class _Project:
    """The events of a project in order; texts are read only of what is compared."""

    def __init__(self, stores: Stores, project: str) -> None:
        scope = stores.scope(project)
        self._stores, self._scope = stores, scope
        self._rows = stores.events.scan(list(_COLUMNS), where(scope)).sort(_ORDER).to_dicts()
        self._places = {row["id"]: place for place, row in enumerate(self._rows)}
        self._sessions: dict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(self._rows):
            self._sessions[f"{row['agent']}:{row['session_id']}"].append(place)

    def judge(self, items: Sequence[ToldItem]) -> list[ToldItem]:
        by_turn: dict[_Turn, list[ToldItem]] = defaultdict(list)
        for one in items:
            if (turn := self._turn(one)) is not None:
                by_turn[turn].append(one)
        oldest = sorted(by_turn, key=lambda turn: turn.prompt)[: limits.TOLD_TURNS]
        texts = self._texts([one for turn in oldest for one in by_turn[turn]])
        return [
            replace(
                one,
                turn=self._rows[turn.prompt]["id"],
                used=result.used,
                terms=result.terms,
                files=result.files,
            )
            for turn in oldest
            for one, result in self._outcomes(turn, by_turn[turn], texts)
        ]

    def _outcomes(
        self, turn: _Turn, items: Iterable[ToldItem], texts: Mapping[str, Named]
    ) -> list[tuple[ToldItem, Outcome]]:
        """Return the outcomes of the items of one turn that are there."""
        prompt = _together(self._named([turn.prompt]).values())
        followed = _together(self._named(turn.followed).values())
        there = [one for one in items if one.item in texts]
        shared = {term for one in there for term in texts[one.item].terms & followed.terms} - prompt.terms
        common = self._common(shared, turn.prompt)
        return [(one, outcome(texts[one.item], followed, prompt, common)) for one in there]

    def _common(self, terms: Iterable[str], place: int) -> set[str]:
        """Return those of the terms that say nothing in the project, by the TOLD_LOOK events before a place."""
        wanted = sorted(terms)
        before = self._rows[max(0, place - limits.TOLD_LOOK) : place]
        if not wanted or not before:
            return set()
        texts = self._stores.events.by_ids([row["id"] for row in before], ["content"]).get_column("content")
        lower = texts.str.slice(0, limits.TOLD_CHARS).str.to_lowercase()
        counts = {term: int(lower.str.contains(term, literal=True).sum()) for term in wanted}
        return {term for term, count in counts.items() if is_common(count, len(before))}

    def _turn(self, one: ToldItem) -> _Turn | None:
        """Return the turn that something was told for, None as long as it is not over."""
        places = self._sessions.get(one.session, [])
        prompts = [place for place in places if self._is_prompt(place)]
        number = prompt_of([self._rows[place]["at"] for place in prompts], one.at, is_start=one.is_start)
        if number is None:
            return None
        start = prompts[number]
        end = prompts[number + 1] if number + 1 < len(prompts) else len(self._rows)
        after = [place for place in places if start < place]
        if end == len(self._rows) and not any(self._ends(place) for place in after):
            return None
        turn_id = self._rows[start]["turn_id"]
        return _Turn(start, tuple(place for place in after if self._follows(place, turn_id, end)))

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

    def _named(self, places: Iterable[int]) -> dict[str, Named]:
        """Return event id -> what it names, of the events at some places."""
        rows = {self._rows[place]["id"]: self._rows[place] for place in places}
        texts = self._stores.events.by_ids(list(rows), ["id", "content"]) if rows else None
        found = {}
        for id_, content in () if texts is None else texts.iter_rows():
            files = frozenset(ref["path"] for ref in rows[id_]["files"] or ())
            said = _of_text(content)
            found[id_] = Named(said.terms, said.files | files)
        return found

    def _texts(self, items: Iterable[ToldItem]) -> dict[str, Named]:
        """Return what each item names, of those that are there."""
        ids: dict[str, set[str]] = defaultdict(set)
        for one in items:
            section, _, id_ = one.item.partition(":")
            ids[section].add(id_)
        found: dict[str, Named] = {}
        for section in ("active", "found"):
            places = [self._places[id_] for id_ in sorted(ids[section]) if id_ in self._places]
            found |= {f"{section}:{id_}": named for id_, named in self._named(places).items()}
        memories, store = sorted(ids["memory"]), ConsolidatedStore(self._stores)
        for start in range(0, len(memories), limits.IDS_PER_FILTER):
            for memory in store.get(memories[start : start + limits.IDS_PER_FILTER], self._scope):
                found[f"memory:{memory.id}"] = _of_text(_LABEL.sub("", memory.summary), memory.topics)
        for row in self._stores.table(SESSIONS).by_ids(sorted(ids["session"]), ["id", "summary"]).to_dicts():
            found[f"session:{row['id']}"] = _of_text(_LABEL.sub("", row["summary"]))
        return found


def _of_text(text: str, topics: Iterable[str] = ()) -> Named:
    begin = text[: limits.TOLD_CHARS]
    terms = terms_of(begin) | frozenset(stem(topic) for topic in topics)
    return Named(terms, frozenset(text_features(begin).files))


def _together(named: Iterable[Named]) -> Named:
    some = list(named)
    return Named(
        frozenset(term for one in some for term in one.terms),
        frozenset(file for one in some for file in one.files),
    )
