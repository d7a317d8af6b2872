"""Consolidation: one memory of each window. Config / logic / state, no Bytewax, no clock.

A memory's id comes from its project, thread, first event and the rule version, so that the same window gives the same
memory however often it is made. Each event is the source of exactly one memory: a window that says nothing new raises
the count of the older memory and joins its sources.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from headwater.flows.statements import Statement, reversals, statement
from headwater.flows.summary import summarise
from headwater.schemas import clock, ids, limits
from headwater.schemas.continuity import overlap
from headwater.schemas.events import Kind
from headwater.schemas.features import stem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from headwater.flows.windows import Piece, Window

RULE_VERSION = "1"  # of all that shapes a memory: another one gives other ids


@dataclass(frozen=True, slots=True)
class ConsolidationConfig:
    """`coherence_weight` 0 takes the seeds' confidence of two parts; the strengths are those of `statements`."""

    max_summary_chars: int = limits.MEMORY_CHARS
    coherence_weight: float = 1.0
    duplicate_share: float = 0.8
    reversal_strength: float = 1.4
    other_thread_penalty: float = 0.5
    rule_version: str = RULE_VERSION


@dataclass(frozen=True, slots=True)
class Mark:
    """A statement that a newer one reverses; both may stand in the same memory."""

    old_memory: str
    new_memory: str
    old_event: str
    new_event: str
    shared: tuple[str, ...]
    strength: float


@dataclass(frozen=True, slots=True)
class Memory:
    """A consolidated summary. `count` is how often the same was consolidated; `created_at` the time of its window."""

    id: str
    project: str
    thread_id: str
    summary: str
    topics: tuple[str, ...]
    source_events: tuple[str, ...]
    confidence: float
    created_at: datetime
    first_at: datetime
    last_at: datetime
    trigger: str
    count: int = 1
    superseded_by: str | None = None


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What a window did: memories made or changed, complete rows each, and the reversals behind the marks."""

    memories: tuple[Memory, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(slots=True)
class Kept:
    """What is remembered of a memory for comparing newer ones with it; `reversed` of its events, by what."""

    memory: Memory
    statements: list[Statement]
    names: frozenset[str]
    reversed: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def values(self) -> set[tuple[str, float]]:
        """Return all measures that its statements name."""
        return {value for said in self.statements for value in said.values}


@dataclass(slots=True)
class ConsolidationState:
    """The newest memories of a thread, oldest first."""

    kept: list[Kept] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the state as plain versioned data for a snapshot."""
        return {
            "v": 1,
            "kept": [
                [
                    memory_to_plain(one.memory),
                    [said.plain() for said in one.statements],
                    sorted(one.names),
                    {event_id: list(names) for event_id, names in one.reversed.items()},
                ]
                for one in self.kept
            ],
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None) -> ConsolidationState:
        """Return the state of a snapshot; of an unknown version, an empty one."""
        if data is None or data.get("v") != 1:
            return cls()
        return cls(
            [
                Kept(
                    memory_from_plain(memory),
                    [statement(*one) for one in said],
                    frozenset(names),
                    {event_id: tuple(shared) for event_id, shared in gone.items()},
                )
                for memory, said, names, gone in data["kept"]
            ]
        )


class ConsolidationLogic:
    """Makes the memories of one thread; input in the order in which its windows were closed."""

    def __init__(self, config: ConsolidationConfig, state: ConsolidationState) -> None:
        """Go on from a state."""
        self._config = config
        self._state = state

    def on_window(self, window: Window) -> Consolidated:
        """Return the memory of a window, or the older one that it repeats, and the older ones that it reverses."""
        memory = make_memory(window, self._config)
        kept = Kept(memory, statements_of(window.pieces), names_of(window.pieces))
        again = self._duplicate(kept)
        if again is not None:
            merged = replace(
                again.memory,
                count=again.memory.count + 1,
                source_events=(*again.memory.source_events, *memory.source_events),
                last_at=max(again.memory.last_at, memory.last_at),
            )
            again.memory = merged
            return Consolidated((merged,))
        marks = self._marks(kept)
        changed: list[Memory] = [memory]
        for one in self._state.kept:
            if any(mark.old_memory == one.memory.id for mark in marks) and one.memory.superseded_by is None:
                one.memory = replace(one.memory, superseded_by=memory.id)
                changed.append(one.memory)
        self._state.kept = [*self._state.kept, kept][-limits.MEMORIES_COMPARED :]
        return Consolidated(tuple(changed), tuple(marks))

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data, a copy."""
        return self._state.plain()

    def _duplicate(self, new: Kept) -> Kept | None:
        for old in reversed(self._state.kept):
            if old.memory.thread_id != new.memory.thread_id:
                continue
            if overlap(old.names, new.names) >= self._config.duplicate_share and old.values() == new.values():
                return old
        return None

    def _marks(self, new: Kept) -> list[Mark]:
        """Return what the new memory reverses; a decision is reversed once, however often that is said again."""
        if not any(said.dropped or said.asked_values for said in new.statements):
            return []
        groups = [*self._state.kept, new]
        owner = {s.event_id: one for one in groups for s in one.statements}
        older = [s for one in self._state.kept for s in one.statements]
        rarity = _rarity([s for one in groups for s in one.statements])
        config, found = self._config, []
        for place, said in enumerate(new.statements):
            gone = {event_id for one in groups for event_id in one.reversed}
            names = {name for one in groups for shared in one.reversed.values() for name in shared}
            fresh = replace(said, dropped=said.dropped - names)
            # what an older memory says comes first: of two turns of one memory a reader sees both anyway
            for before in (older, new.statements[:place]):
                left = [s for s in before if s.event_id not in gone]
                away = {
                    s.event_id for s in left if owner[s.event_id].memory.thread_id != new.memory.thread_id
                }
                made = [
                    one
                    for one in reversals(left, fresh, rarity, away=away, penalty=config.other_thread_penalty)
                    if one.strength >= config.reversal_strength
                ]
                if made:
                    break
            for one in made:
                old = owner[one.old.event_id]
                old.reversed[one.old.event_id] = one.shared
                found.append(
                    Mark(
                        old.memory.id,
                        new.memory.id,
                        one.old.event_id,
                        said.event_id,
                        one.shared,
                        one.strength,
                    )
                )
        return found


def make_memory(window: Window, config: ConsolidationConfig) -> Memory:
    """Return the memory of a window by itself."""
    pieces = window.pieces
    return Memory(
        "mem_" + ids.digest("memory", window.project, window.thread_id, pieces[0].id, config.rule_version),
        window.project,
        window.thread_id,
        summarise(pieces, chars_max=config.max_summary_chars, files_max=limits.MEMORY_FILES),
        top_topics(pieces, limits.MEMORY_TOPICS),
        tuple(piece.id for piece in pieces),
        confidence(pieces, coherence_weight=config.coherence_weight),
        window.closed_at,
        pieces[0].at,
        pieces[-1].at,
        window.trigger.value,
    )


def confidence(pieces: Sequence[Piece], *, coherence_weight: float = 1.0) -> float:
    """Return the mean of count, time proximity and coherence (weighed by `coherence_weight`), in [0, 1].

    Coherence is the mean overlap of the topics of every two pieces that have some; it is left out below two of them.
    """
    if not pieces:
        return 0.0
    gaps_s = [max(0.0, (b.at - a.at).total_seconds()) for a, b in pairwise(pieces)]
    proximity = math.fsum(math.exp(-gap / 3600.0) for gap in gaps_s) / len(gaps_s) if gaps_s else 1.0
    parts = [(1.0, min(len(pieces) / 10.0, 1.0)), (1.0, proximity)]
    # as `overlap`, on sets that are made once: a hundred pieces have five thousand pairs
    topics = [frozenset(piece.topics) for piece in pieces if piece.topics]
    shares = [len(a & b) / max(len(a), len(b)) for place, a in enumerate(topics) for b in topics[place + 1 :]]
    if shares:
        parts.append((coherence_weight, math.fsum(shares) / len(shares)))
    return math.fsum(w * part for w, part in parts) / math.fsum(w for w, _ in parts)


def top_topics(pieces: Iterable[Piece], number: int) -> tuple[str, ...]:
    """Return what a window is about: the topics that most of its prompts and answers name, first named first."""
    counts: Counter[str] = Counter(topic for piece in pieces for topic in piece.topics)
    order = {topic: place for place, topic in enumerate(counts)}
    return tuple(sorted(counts, key=lambda topic: (-counts[topic], order[topic]))[:number])


def statements_of(pieces: Iterable[Piece]) -> list[Statement]:
    """Return what the last turns of a window said, in order; of each session's pieces, a prompt begins a turn."""
    turns: dict[str, list[Piece]] = {}
    current: dict[str, str] = {}
    for piece in pieces:
        if not piece.text:
            continue
        if piece.kind is Kind.PROMPT or piece.session_id not in current:
            current[piece.session_id] = piece.id
        turns.setdefault(current[piece.session_id], []).append(piece)
    return [
        statement(
            id_,
            " ".join(piece.text for piece in said if piece.kind is Kind.PROMPT)[: limits.STATEMENT_CHARS],
            " ".join(piece.text for piece in said if piece.kind is not Kind.PROMPT)[: limits.STATEMENT_CHARS],
        )
        for id_, said in list(turns.items())[-limits.STATEMENTS_KEPT :]
    ]


def names_of(pieces: Iterable[Piece]) -> frozenset[str]:
    """Return everything that a window's prompts and answers name, as stems."""
    return frozenset(stem(name) for piece in pieces for name in (*piece.topics, *piece.entities))


def memory_to_plain(memory: Memory) -> dict[str, Any]:
    """Return a memory as plain data."""
    return {
        **{name: getattr(memory, name) for name in _PLAIN_FIELDS},
        "topics": list(memory.topics),
        "source_events": list(memory.source_events),
        **{f"{name}_ns": clock.to_ns(getattr(memory, name)) for name in _TIMES},
    }


def memory_from_plain(data: dict[str, Any]) -> Memory:
    """Return the memory of plain data; the inverse of `memory_to_plain`."""
    return Memory(
        **{name: data[name] for name in _PLAIN_FIELDS},
        topics=tuple(data["topics"]),
        source_events=tuple(data["source_events"]),
        created_at=clock.from_ns(data["created_at_ns"]),
        first_at=clock.from_ns(data["first_at_ns"]),
        last_at=clock.from_ns(data["last_at_ns"]),
    )


_PLAIN_FIELDS = ("id", "project", "thread_id", "summary", "confidence", "trigger", "count", "superseded_by")
_TIMES = ("created_at", "first_at", "last_at")


def _rarity(statements: Sequence[Statement]) -> dict[str, float]:
    """Return how rare each name is among statements: 1 for one that stands once, towards 0 for one in all."""
    counts = Counter(name for one in statements for name in one.names)
    top = math.log(len(statements) + 1.0)
    return {name: 1.0 - math.log(n) / top for name, n in counts.items()} if top else {}
