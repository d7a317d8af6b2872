"""Continuity: how much of what was going on still goes on. Pure functions on contexts; time is handed in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from headwater.schemas import limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from headwater.schemas.features import Features

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class TransitionType(StrEnum):
    """How a turn stands to what went before it."""

    SEAMLESS = "seamless"
    TOPIC_SHIFT = "topic_shift"
    BREAK = "break"


@dataclass(frozen=True, slots=True)
class Context:
    """What is going on: the newest items of each group, newest first, and the time of the last one."""

    topics: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    at: datetime = NEVER

    def then(self, features: Features, at: datetime, *, items: int = limits.CONTEXT_ITEMS) -> Context:
        """Return the context after something with these features happened; what is named again is new again."""
        return Context(
            _newest(features.topics, self.topics, items),
            _newest(features.files, self.files, items),
            _newest(features.entities, self.entities, items),
            max(at, self.at),
        )


@dataclass(frozen=True, slots=True)
class ContinuityConfig:
    """The seeds' weights and thresholds.

    `empty_groups` "left_out" leaves a group that is empty on either side out and rescales the other weights; "zero"
    counts it as no overlap, as the seeds do. `type_by` "score" takes the type from the score alone.
    """

    topics_weight: float = 0.3
    files_weight: float = 0.2
    time_weight: float = 0.3
    entities_weight: float = 0.2
    decay_hours: float = 48.0
    min_score_for_seamless: float = 0.7
    min_score_for_topic_shift: float = 0.4
    short_pause_s: float = limits.SHORT_PAUSE_S
    empty_groups: Literal["left_out", "zero"] = "left_out"
    type_by: Literal["thread", "score"] = "thread"


@dataclass(frozen=True, slots=True)
class Continuity:
    """A score in [0, 1] and its parts, each in [0, 1]; None for a group that was left out."""

    score: float
    topics: float | None
    files: float | None
    time: float
    entities: float | None


DEFAULT = ContinuityConfig()


def overlap(a: Collection[str], b: Collection[str]) -> float:
    """Return |A∩B| / max(|A|, |B|) of two groups as sets; 0 when either is empty."""
    left, right = set(a), set(b)
    if not left or not right:
        return 0.0
    return len(left & right) / max(len(left), len(right))


def time_proximity(gap_s: float, decay_hours: float = 48.0) -> float:
    """Return exp(-gap / decay), in (0, 1]; a gap below zero counts as none."""
    return math.exp(-max(0.0, gap_s) / (decay_hours * 3600.0))


def compare(before: Context, after: Context, config: ContinuityConfig = DEFAULT) -> Continuity:
    """Return how much of `before` goes on in `after`."""
    time = time_proximity((after.at - before.at).total_seconds(), config.decay_hours)
    weights: list[float] = [config.time_weight]
    values: list[float] = [time]
    parts: list[float | None] = []
    for weight, old, new in (
        (config.topics_weight, before.topics, after.topics),
        (config.files_weight, before.files, after.files),
        (config.entities_weight, before.entities, after.entities),
    ):
        is_empty = not old or not new
        if is_empty and config.empty_groups == "left_out":
            parts.append(None)
            continue
        value = overlap(old, new)
        parts.append(value)
        weights.append(weight)
        values.append(value)
    total = math.fsum(weights) if config.empty_groups == "left_out" else 1.0
    score = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / total if total else 0.0
    return Continuity(min(1.0, max(0.0, score)), parts[0], parts[1], time, parts[2])


def type_by_score(score: float, config: ContinuityConfig = DEFAULT) -> TransitionType:
    """Return the seeds' type of a score."""
    if score >= config.min_score_for_seamless:
        return TransitionType.SEAMLESS
    return TransitionType.TOPIC_SHIFT if score >= config.min_score_for_topic_shift else TransitionType.BREAK


def type_by_thread(
    before: str | None, after: str, pause_s: float, config: ContinuityConfig = DEFAULT
) -> TransitionType:
    """Return the type by thread and pause: the same thread is seamless however long the pause was."""
    if before == after:
        return TransitionType.SEAMLESS
    return TransitionType.TOPIC_SHIFT if pause_s < config.short_pause_s else TransitionType.BREAK


def mean_score(scores: Iterable[float]) -> float | None:
    """Return the mean of a log's scores, None (unknown) without any: an invented figure would be shown as true."""
    values = list(scores)
    return math.fsum(values) / len(values) if values else None


def _newest(new: tuple[str, ...], old: tuple[str, ...], items: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*new, *old)))[:items]
