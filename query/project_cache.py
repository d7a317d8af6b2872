"""What is read for every agent that asks, kept in memory until its table changes: small tables, one project at a time.

A hook waits a fifth of a second for all. A read of a table takes some thousandths when the machine is quiet, and much
more when it is not or when a model is at work in this process; a look at its folder takes a hundredth of one.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.query.continuity import ContinuityManager
from headwater.query.memories import ConsolidatedStore
from headwater.query.scope import where
from headwater.query.working_set import WorkingSetStore
from headwater.schemas import clock, limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.features import stem, text_features
from headwater.schemas.memory_columns import CONTINUITY_LOG, MEMORIES, SESSIONS, WORKING_SET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.query.continuity import CurrentContinuity
    from headwater.query.memories import Memory
    from headwater.query.stores import Stores
    from headwater.query.working_set import Member
    from headwater.schemas.columns import TableDef
    from headwater.schemas.config import Config

T = TypeVar("T")

# Stems of words that say what is wanted and not what about: no memory needs to name them.
_ASKING = frozenset(
    {
        "agree", "ask", "continu", "decid", "decision", "describ", "discuss", "explain", "finish", "happen",
        "know", "leav", "left", "mention", "pick", "proceed", "recall", "remember", "remind", "resum", "start",
        "summariz", "talk", "tell", "기억", "설명", "이어", "진행", "記憶", "続き", "説明", "记得", "说明",
    }
)  # fmt: skip

_SESSION_COLUMNS = ("id", "session_id", "summary", "last_at")


@dataclass(frozen=True, slots=True)
class MemoryIndex:
    """The memories of a project, newest first, each with what it names; `counts`: how many name a term."""

    memories: tuple[Memory, ...]
    named: tuple[frozenset[str], ...]
    counts: Mapping[str, int]
    by_id: Mapping[str, Memory]

    def match(self, wanted: frozenset[str]) -> list[tuple[float, Memory]]:
        """Return memories that name something of a prompt with the share that they name, in (0, 1], best first.

        A term counts the more the fewer memories name it, as in BM25, as if there were INJECT_PRIOR more memories: in a
        small project every term would else be common. Equal shares by newer.
        """
        if not wanted:
            return []
        total = len(self.memories) + limits.INJECT_PRIOR
        weights = {
            term: math.log(1 + (total - self.counts.get(term, 0) + 0.5) / (self.counts.get(term, 0) + 0.5))
            for term in wanted
        }
        whole = math.fsum(weights.values()) * min(1.0, limits.INJECT_TERMS / len(wanted))
        found = []
        for memory, named in zip(self.memories, self.named, strict=True):
            if common := wanted & named:
                share = math.fsum(weights[term] for term in sorted(common)) / whole
                found.append((min(1.0, share), memory))
        found.sort(key=lambda pair: -pair[0])  # stable: newest first among equals
        return found


class ProjectCache:
    """Reads of one view of the stores. Safe to share between threads: two may do the same work, to the same end."""

    def __init__(self, stores: Stores) -> None:
        """Remember where to read."""
        self.stores = stores
        self._kept: OrderedDict[tuple[str, str], tuple[tuple[int, ...], Any]] = OrderedDict()
        self._terms: dict[str, frozenset[str]] = {}
        self._guard = threading.Lock()
        self._looks = 0

    def active(self, project: str, config: Config) -> tuple[Member, ...]:
        """Return the working set as of the project's last turn."""

        def read() -> tuple[Member, ...]:
            return (
                WorkingSetStore(self.stores, config.endless.working_set)
                .as_of_last_event(self.stores.scope(project))
                .members
            )

        return self._cached(WORKING_SET, project, read)

    def continuity(self, project: str, config: Config) -> CurrentContinuity:
        """Return continuity as of the project's last turn."""

        def read() -> CurrentContinuity:
            return ContinuityManager(self.stores, config.endless.continuity).as_of_last_event(
                self.stores.scope(project)
            )

        return self._cached(CONTINUITY_LOG, project, read)

    def memories(self, project: str) -> MemoryIndex:
        """Return the newest INJECT_MEMORIES_HELD memories."""
        return self._cached(MEMORIES, project, lambda: self._index(project))

    def sessions(self, project: str) -> list[dict[str, Any]]:
        """Return the newest summaries of sessions: id, session_id, summary, last_at."""

        def read() -> list[dict[str, Any]]:
            rows = self.stores.table(SESSIONS).scan(list(_SESSION_COLUMNS), where(self.stores.scope(project)))
            newest = rows.sort(["last_at", "id"], descending=[True, False]).head(limits.INJECT_LOOK)
            return newest.to_dicts()

        return self._cached(SESSIONS, project, read)

    def _index(self, project: str) -> MemoryIndex:
        memories = ConsolidatedStore(self.stores).newest(
            self.stores.scope(project), limits.INJECT_MEMORIES_HELD
        )
        named = tuple(self._named(memory) for memory in memories)
        counts = Counter(term for terms in named for term in terms)
        return MemoryIndex(tuple(memories), named, counts, {memory.id: memory for memory in memories})

    def _named(self, memory: Memory) -> frozenset[str]:
        """Return what a memory names; worked out once, for it takes a third of a millisecond each."""
        key = f"{memory.id}:{memory.content_hash}"
        if key not in self._terms:
            self._terms[key] = terms_of(memory.summary) | {stem(topic) for topic in memory.topics}
        return self._terms[key]

    def lines(self, project: str, ids: Sequence[str], make: Callable[[str], str]) -> dict[str, str]:
        """Return event id -> what `make` makes of its text, of those there are; made once until the table changes."""
        known: dict[str, str] = self._cached(EVENTS, project, dict)
        missing = [id_ for id_ in ids if id_ not in known]
        if missing:
            rows = self.stores.events.by_ids(missing, ["id", "content"])
            known |= {id_: make(content) for id_, content in rows.iter_rows()}
        return {id_: known[id_] for id_ in ids if id_ in known}

    def _cached(self, table: TableDef, project: str, read: Callable[[], T]) -> T:
        stamp = self._stamp(table)  # before the read: what is kept may be newer than it says, not older
        key = (table.name, project)
        with self._guard:
            kept = self._kept.get(key)
            if kept is not None and kept[0] == stamp:
                self._kept.move_to_end(key)
                value: T = kept[1]
                return value
        value = read()
        with self._guard:
            self._kept[key] = (stamp, value)
            self._kept.move_to_end(key)
            while len(self._kept) > limits.INJECT_KEPT:
                self._kept.popitem(last=False)
            if len(self._terms) > limits.INJECT_MEMORIES_HELD * limits.INJECT_KEPT:
                self._terms.clear()
        return value

    def _stamp(self, table: TableDef) -> tuple[int, ...]:
        """Return what changes with every commit to a table: its folder of versions, looked at without opening it.

        A commit in the same tick of the file system's clock as the one before could go unseen: what is as young as that
        is nothing to go by, and gets a stamp that no other look has.
        """
        lance = self.stores.lance
        assert lance is not None, "a cache is of stores with a folder"
        try:
            found = (lance.folder / f"{table.name}.lance" / "_versions").stat()
        except OSError:
            return (0,)
        self._looks += 1
        is_young = clock.now_ns() - found.st_mtime_ns < limits.MTIME_TICK_S * clock.NS_PER_S
        return (found.st_mtime_ns, found.st_ino, self._looks if is_young else 0)


def asked_terms(prompt: str) -> frozenset[str]:
    """Return what a prompt is about: `terms_of` without the words that say what is wanted, such as to go on."""
    return terms_of(prompt) - _ASKING


def terms_of(text: str) -> frozenset[str]:
    """Return what a text names: stems of its subjects, its files, its names of code."""
    features = text_features(text)
    names = {name.lower() for name in (*features.entities, *features.files)}
    return frozenset({stem(topic) for topic in features.topics} | names)


def share_named(wanted: frozenset[str], named: Sequence[str] | frozenset[str]) -> float:
    """Return how much of a prompt's terms a text names, in [0, 1]; of many terms INJECT_TERMS are enough."""
    return min(1.0, len(wanted & frozenset(named)) / min(len(wanted), limits.INJECT_TERMS)) if wanted else 0.0
