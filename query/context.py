"""What an agent is told at the start of a session or with a prompt: chosen, put in order, kept within its budget.

Nothing here depends on the present: relevance and continuity are those of the project's last turn, so that the same
question gives the same bytes as long as nothing happens. Output of tools and raw data are never told.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headwater.query import context_text as texts
from headwater.query.context_text import NOTHING, Entry
from headwater.query.continuity import ContinuityManager
from headwater.query.project_cache import asked_terms, share_named, terms_of
from headwater.query.search import find
from headwater.query.summary import summary
from headwater.query.working_set import WorkingSetStore
from headwater.schemas import limits
from headwater.schemas.clock import UTC_MIN
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from headwater.query.continuity import CurrentContinuity
    from headwater.query.memories import Memory
    from headwater.query.project_cache import ProjectCache
    from headwater.query.working_set import Member
    from headwater.schemas.config import Config

TOLD_KINDS = (Kind.PROMPT.value, Kind.RESPONSE.value, Kind.INSIGHT.value)
_RAW = ("{", "[", "<")  # how pasted data begins: JSON, a log in brackets, markup
_LINES_READ = 16  # texts of active events read at once: ten are told, a few say nothing


@dataclass(frozen=True, slots=True)
class Ask:
    """Who asks, and what for.

    `prompt` None: a session starts. `session` None: a person asks, for whom nothing is left out. `known`: keys of what
    the session was told. `own_until`: events of the session itself before it are told too, for its context was emptied
    then. `newer_than`: only what happened since. `at`: as of a time past.
    """

    project: str
    prompt: str | None = None
    session: str | None = None
    known: frozenset[str] = frozenset()
    own_until: datetime | None = None
    newer_than: datetime | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Composed:
    """The text for the agent ("" for nothing), how it came about, the keys of what is in it, and their scores.

    A score is the relevance of an active event, the share of the prompt that a memory names, or that of a search; None
    for what was not compared with anything.
    """

    text: str
    meta: Mapping[str, Any]
    tokens: int
    keys: tuple[str, ...]
    scores: Mapping[str, float | None] = field(default_factory=dict, compare=False)  # of a first time alone


class ContextComposer:
    """Composes contexts of one moment: what is read, settings, mode.

    By words alone: what is told must name what the prompt names, and a vector would only change the order of that.
    """

    def __init__(self, cache: ProjectCache, config: Config, mode: str) -> None:
        """Remember where to read."""
        self._cache = cache
        self._stores = cache.stores
        self._config = config
        self._mode = mode

    def compose(self, ask: Ask, budget_tokens: int, only: Sequence[str] | None = None) -> Composed:
        """Return what to tell. `only`: exactly the things of these keys, as they were chosen before."""
        continuity = self._continuity(ask)
        active = self._active(ask) if self._mode == "endless" else ()
        zone = texts.zone_of(continuity.at or UTC_MIN)
        entries = self._again(ask, only, zone) if only is not None else self._choose(ask, active, zone)
        is_endless = self._mode == "endless"
        line = _continuity_line(continuity, zone) if is_endless else ""
        estimator = self._config.progressive_disclosure.token_budget.estimator
        told = texts.told(entries, zone, line, budget_tokens, estimator) if entries else NOTHING
        if is_endless:
            meta: dict[str, Any] = {
                "mode": "endless",
                "continuity_score": None if continuity.score is None else round(continuity.score, 4),
                "working_set_size": len(active),
            }
        else:
            meta = {"match_count": len(entries), "expanded_count": 0, "estimated_tokens": told.tokens}
        scores = {entry.key: entry.score for entry in entries}
        return Composed(told.text, meta, told.tokens, told.keys, {key: scores[key] for key in told.keys})

    # --- choosing ---

    def _choose(self, ask: Ask, active: Sequence[Member], zone: str) -> list[Entry]:
        if self._mode == "endless":
            chosen = self._endless(ask, active, zone)
        elif ask.prompt is None:
            sessions = self._sessions(ask, zone)
            chosen = _mixed(sessions, _not_within(self._recent(ask, (), zone), sessions))
        else:
            chosen = self._found(ask, zone)
        return [entry for entry in chosen if entry.key not in ask.known]

    def _endless(self, ask: Ask, active: Sequence[Member], zone: str) -> list[Entry]:
        """Return memories and active events in turns, most important first: each has room before the other fills it."""
        least = self._config.endless.context.min_relevance
        good = [one for one in active if one.relevance >= least and self._is_news(ask, one)]
        lines = self._active_entries(ask, good, zone)
        threads = tuple(dict.fromkeys(one.thread_id for one in active))
        memories = self._recent(ask, threads, zone) if ask.prompt is None else self._matching(ask, zone)
        return _mixed(memories, _not_said(lines, memories))

    def _continuity(self, ask: Ask) -> CurrentContinuity:
        if ask.at is None:
            return self._cache.continuity(ask.project, self._config)
        log = ContinuityManager(self._stores, self._config.endless.continuity)
        return log.current(self._stores.scope(ask.project), ask.at)

    def _active(self, ask: Ask) -> Sequence[Member]:
        if ask.at is None:
            return self._cache.active(ask.project, self._config)
        store = WorkingSetStore(self._stores, self._config.endless.working_set)
        return store.at(self._stores.scope(ask.project), ask.at).members

    def _is_news(self, ask: Ask, one: Member) -> bool:
        says_something = one.kind in TOLD_KINDS and (one.topics or one.files or one.entities)
        return bool(says_something) and not _is_own(ask, one.session_id, one.at) and _is_newer(ask, one.at)

    def _recent(self, ask: Ask, threads: Sequence[str], zone: str) -> list[Entry]:
        """Return the newest memories that hold, those of active threads first."""
        memories = list(self._cache.memories(ask.project).memories[: limits.INJECT_LOOK])
        memories.sort(key=lambda one: one.thread_id not in threads)  # stable: newest first within each
        return self._memory_entries(ask, memories, zone)

    def _matching(self, ask: Ask, zone: str) -> list[Entry]:
        """Return the memories that name most of the prompt, each after the one that superseded it."""
        index = self._cache.memories(ask.project)
        found = index.match(asked_terms(ask.prompt or ""))
        least = max(limits.INJECT_MEMORY_SHARE, limits.INJECT_NEAR_BEST * found[0][0]) if found else 1.0
        good: dict[str, Memory] = {}
        for share, memory in found:
            if share < least:
                break
            chain = [memory]
            while (
                newer := index.by_id.get(chain[-1].superseded_by or "")
            ) is not None and newer not in chain:
                chain.append(newer)
            good |= {one.id: one for one in reversed(chain) if one.id not in good}
        shares = {memory.id: share for share, memory in found}
        entries = self._memory_entries(ask, good.values(), zone)
        return [replace(entry, score=shares.get(entry.id)) for entry in entries]

    def _memory_entries(self, ask: Ask, memories: Iterable[Memory], zone: str) -> list[Entry]:
        kept: list[Memory] = []
        for one in memories:
            is_there = ask.at is None or one.created_at <= ask.at
            is_old_news = one.superseded_by is not None and any(
                other.id == one.superseded_by for other in kept
            )
            if (
                is_there
                and not is_old_news
                and _is_newer(ask, one.last_at)
                and f"memory:{one.id}" not in ask.known
            ):
                kept.append(one)
            if len(kept) == limits.INJECT_MEMORIES * 2:
                break
        own = self._own_memories(ask, kept)
        kept = [one for one in kept if one.id not in own]
        return [texts.memory_entry(one, zone) for one in kept[: limits.INJECT_MEMORIES]]

    def _own_memories(self, ask: Ask, memories: Sequence[Memory]) -> set[str]:
        """Return those that say only what the session itself holds in its context."""
        if ask.session is None:
            return set()
        asked = [one for one in memories if ask.own_until is None or one.first_at >= ask.own_until]
        ids = list(dict.fromkeys(id_ for one in asked for id_ in one.source_events))
        rows = self._stores.events.by_ids(ids, ["id", "session_id"]) if ids else None
        sessions = {} if rows is None else dict(rows.select("id", "session_id").iter_rows())
        return {
            one.id for one in asked if {sessions.get(id_, "") for id_ in one.source_events} == {ask.session}
        }

    def _sessions(self, ask: Ask, zone: str) -> list[Entry]:
        entries = [
            texts.session_entry(row["id"], row["last_at"], zone, row["summary"])
            for row in self._cache.sessions(ask.project)
            if row["summary"].strip()
            and row["session_id"] != ask.session
            and _is_newer(ask, row["last_at"])
            and (ask.at is None or row["last_at"] <= ask.at)
        ]
        return [entry for entry in entries if entry.key not in ask.known][: limits.INJECT_SESSIONS]

    def _found(self, ask: Ask, zone: str) -> list[Entry]:
        """Return what a search of the prompt finds: good matches alone, none of the session's own."""
        prompt = ask.prompt or ""
        wanted = asked_terms(prompt)
        if not wanted:
            return []
        layer1 = self._config.progressive_disclosure.layer1
        scope = replace(self._stores.scope(ask.project), kinds=TOLD_KINDS, until=ask.at)
        found = find(self._stores, prompt, scope, limits.INJECT_LOOK, shortens=False)
        others = [
            hit
            for hit in found.items
            if not _is_own(ask, hit.session_id, hit.at) and f"found:{hit.id}" not in ask.known
        ]
        good: dict[str, Entry] = {}
        for hit in others:
            content = found.contents[hit.id]
            named = terms_of(
                f"{hit.summary}\n{content[: limits.PIECE_CHARS]}"
            )  # the passage may lie further on
            if _is_telling(content) and _is_good(
                found.by_words[hit.id], wanted, named, layer1.min_score, limits.INJECT_EVENT_SHARE
            ):
                entry = texts.event_entry("found", hit.id, hit.kind, hit.at, zone=zone, line=hit.summary)
                good.setdefault(hit.summary, replace(entry, score=hit.score))
            if len(good) == layer1.top_k:
                break
        return list(good.values())

    def _active_entries(self, ask: Ask, members: Sequence[Member], zone: str) -> list[Entry]:
        """Return lines of active events, no two alike, no raw data, at most INJECT_ACTIVE."""
        entries: dict[str, Entry] = {}
        fresh = [one for one in members if f"active:{one.event_id}" not in ask.known]
        for start in range(0, len(fresh), _LINES_READ):
            some = fresh[start : start + _LINES_READ]
            lines = self._cache.lines(ask.project, [one.event_id for one in some], _line)
            for one in some:
                if line := lines.get(one.event_id, ""):
                    entry = texts.event_entry("active", one.event_id, one.kind, one.at, zone=zone, line=line)
                    entries.setdefault(line, replace(entry, score=one.relevance))
                if len(entries) == limits.INJECT_ACTIVE:
                    return list(entries.values())
        return list(entries.values())

    # --- telling again ---

    def _again(self, ask: Ask, only: Sequence[str], zone: str) -> list[Entry]:
        """Return the things of some keys in their order, as far as they are still there."""
        ids: dict[str, list[str]] = {}
        for key in only:
            section, _, id_ = key.partition(":")
            ids.setdefault(section, []).append(id_)
        made: dict[str, Entry] = {}
        events = [*ids.get("active", []), *ids.get("found", [])]
        rows = self._stores.events.by_ids(events, ["id", "kind", "at", "content"])
        known = {row["id"]: row for row in rows.iter_rows(named=True)}
        for section in ("active", "found"):
            for row in (known[id_] for id_ in ids.get(section, []) if id_ in known):
                is_found = section == "found"
                line = summary(row["content"], ask.prompt or "") if is_found else _line(row["content"])
                entry = texts.event_entry(section, row["id"], row["kind"], row["at"], zone=zone, line=line)
                made[entry.key] = entry
        index = self._cache.memories(ask.project).by_id
        for id_ in ids.get("memory", []):
            if id_ in index:
                made[f"memory:{id_}"] = texts.memory_entry(index[id_], zone)
        for row in self._cache.sessions(ask.project):
            entry = texts.session_entry(row["id"], row["last_at"], zone, row["summary"])
            made[entry.key] = entry
        return [made[key] for key in only if key in made]


def _continuity_line(continuity: CurrentContinuity, zone: str) -> str:
    if continuity.type is None or continuity.at is None:
        return ""
    score = "" if continuity.score is None else f", score {continuity.score:.2f}"
    kind = continuity.type.replace("_", " ")
    return f"Continuity at {texts.moment(continuity.at, zone)}: {kind}{score}."


def _is_own(ask: Ask, session: str, at: datetime) -> bool:
    """Whether the session that asks has an event in its context: its own, since it was last emptied."""
    return session == ask.session and (ask.own_until is None or at >= ask.own_until)


def _is_newer(ask: Ask, at: datetime) -> bool:
    return ask.newer_than is None or at > ask.newer_than


def _mixed(first: Sequence[Entry], second: Sequence[Entry]) -> list[Entry]:
    """Return both in turns: one of the first, then three of the second, for those are three times shorter."""
    mixed: list[Entry] = []
    rest = list(second)
    for entry in first:
        mixed += [entry, *rest[:3]]
        rest = rest[3:]
    return mixed + rest


def _not_said(lines: Iterable[Entry], memories: Iterable[Entry]) -> list[Entry]:
    """Return the lines that do not stand word for word in a memory that is told beside them."""
    summaries = [memory.text for memory in memories]
    return [
        line for line in lines if not any(texts.said(line).rstrip("….!?。") in text for text in summaries)
    ]


def _not_within(memories: Iterable[Entry], sessions: Iterable[Entry]) -> list[Entry]:
    """Return the memories of which a line says something that no session beside them says word for word."""
    summaries = [session.text for session in sessions]
    return [
        memory
        for memory in memories
        if not any(all(part in text for part in texts.parts(memory)) for text in summaries)
    ]


def _is_telling(content: str) -> bool:
    """Whether a text is one that says something: not empty, and no raw data."""
    start = content[: limits.INJECT_LINE_CHARS].lstrip()
    return bool(start) and not start.startswith(_RAW)


def _line(content: str) -> str:
    """Return the line of an active event: its beginning, nothing for what says nothing."""
    if not _is_telling(content):
        return ""
    return summary(content[: 10 * limits.INJECT_LINE_CHARS], chars_max=limits.INJECT_LINE_CHARS)


def _is_good(
    score: float, wanted: frozenset[str], named: frozenset[str], least: float, least_share: float
) -> bool:
    """Whether an event is worth telling: it names enough of the prompt, and its score is good.

    In a small store a word that is in every text counts nothing, so naming nearly all of the prompt is good as well.
    """
    share = share_named(wanted, named)
    return share >= least_share and (score >= least or (len(wanted & named) > 1 and share >= least))
