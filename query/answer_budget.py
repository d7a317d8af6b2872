"""An answer within its budget: the index first, then one timeline, then whole items; what finds no room is named.

Each try is formatted and estimated as a whole, so that what is handed out is what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.query.budget import estimate_tokens
from headwater.query.expansion import HINT
from headwater.schemas import limits
from headwater.schemas.answers import SearchAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.query.formatter import ContextFormatter
    from headwater.schemas.answers import Detail, TimelineItem
    from headwater.schemas.config import TokenBudgetConfig


@dataclass(frozen=True, slots=True)
class AnswerBudget:
    """Fits answers into `budget_tokens`, as the formatter writes them and the settings count them."""

    formatter: ContextFormatter
    config: TokenBudgetConfig
    budget_tokens: int

    def fit(self, answer: SearchAnswer) -> SearchAnswer:
        """Return the answer with as much of it as fits, in its order, its size and what was left out in its meta.

        The estimate of the formatted answer is at most the budget, for a budget of 100 tokens or more. Of a timeline
        that is too long the places farthest from its targets go.
        """
        if self._fits(answer):
            return self._sized(answer)
        kept = self._index(answer)
        kept = self._timeline(answer, kept)
        kept = self._details(answer, kept)
        return self._named(answer, kept)

    def tokens(self, answer: SearchAnswer) -> int:
        """Return the size of an answer; with the `spec` estimator each item counts as its layer's part at the least."""
        config = self.config
        text = self.formatter.answer(answer)
        if config.estimator == "script" and len(text) > self.budget_tokens * _CHARS_MAX:
            return self.budget_tokens + 1  # nothing costs so little; not looked at, character by character
        real = estimate_tokens(text, config.estimator)
        if config.estimator == "script":
            return real
        fixed = (
            len(answer.index) * config.layer1_per_item + len(answer.timeline or ()) * config.layer2_per_item
        )
        fixed += sum(
            max(config.layer3_per_item, estimate_tokens(item.content, "spec"))
            for item in answer.details or ()
        )
        return max(real, fixed)

    def _index(self, whole: SearchAnswer) -> SearchAnswer:
        bare = replace(whole, timeline=None, details=None)
        count = _most(
            len(whole.index), lambda n: self._fits(self._cut(whole, replace(bare, index=whole.index[:n])))
        )
        return replace(bare, index=whole.index[:count])

    def _timeline(self, whole: SearchAnswer, kept: SearchAnswer) -> SearchAnswer:
        if not whole.timeline:
            return kept
        items = whole.timeline
        order = nearest_first(items)

        def first(count: int) -> SearchAnswer:
            chosen = sorted(order[:count])
            return replace(kept, timeline=tuple(items[n] for n in chosen) or None)

        return first(_most(len(items), lambda n: self._fits(self._cut(whole, first(n)))))

    def _details(self, whole: SearchAnswer, kept: SearchAnswer) -> SearchAnswer:
        chosen: tuple[Detail, ...] = ()
        for item in whole.details or ():
            trial = replace(kept, details=(*chosen, item))
            if self._fits(self._cut(whole, trial)):
                chosen = (*chosen, item)
        return replace(kept, details=chosen or None)

    def _fits(self, answer: SearchAnswer) -> bool:
        meta = replace(answer.meta, estimated_tokens=self.budget_tokens)  # the longest figure it may show
        return self.tokens(replace(answer, meta=meta)) <= self.budget_tokens

    def _cut(self, whole: SearchAnswer, kept: SearchAnswer, names: int | None = None) -> SearchAnswer:
        """Return the answer with what it leaves out in its meta, so many of them by their ids."""
        left = _left_out(whole, kept)
        count = min(limits.LEFT_OUT_NAMED, self.budget_tokens // 100) if names is None else names
        is_short = bool(whole.details) and not kept.details
        meta = replace(
            whole.meta,
            expanded_count=len(kept.details or ()),
            hint=whole.meta.hint or (HINT.format(id="ID") if is_short else ""),
            left_out=left[:count],
            left_out_more=max(0, len(left) - count),
        )
        return replace(kept, meta=meta)

    def _named(self, whole: SearchAnswer, kept: SearchAnswer) -> SearchAnswer:
        """Return the answer with as many names of what is left out as fit."""
        for names in range(limits.LEFT_OUT_NAMED, 0, -1):
            trial = self._cut(whole, kept, names)
            if self._fits(trial):
                return self._sized(trial)
        return self._sized(self._cut(whole, kept, 0))

    def _sized(self, answer: SearchAnswer) -> SearchAnswer:
        """Return the answer with its own size in it; writing it down may change it by a digit."""
        tokens = self.budget_tokens
        for _ in range(2):
            sized = replace(answer, meta=replace(answer.meta, estimated_tokens=tokens))
            tokens = self.tokens(sized)
        return replace(answer, meta=replace(answer.meta, estimated_tokens=tokens))


_CHARS_MAX = 64  # of a token: a longer run of anything is several


def nearest_first(items: Sequence[TimelineItem]) -> list[int]:
    """Return the places of a timeline: targets first, then those nearest to one; without any target from the start."""
    targets = [n for n, item in enumerate(items) if item.is_target]
    if not targets:
        return list(range(len(items)))
    return sorted(range(len(items)), key=lambda n: (min(abs(n - target) for target in targets), n))


def _left_out(whole: SearchAnswer, kept: SearchAnswer) -> tuple[str, ...]:
    """Return the ids of what was to be shown and is not: whole items, rows, places of the timeline; each once."""
    shown = {item.id for item in kept.details or ()}
    ids = [item.id for item in whole.details or () if item.id not in shown]
    shown |= {item.id for item in kept.index} | {item.id for item in kept.timeline or ()}
    ids += [item.id for item in whole.index if item.id not in shown]
    ids += [item.id for item in whole.timeline or () if item.id not in shown]
    return tuple(dict.fromkeys(ids))


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that fits, when fewer always fit as well; 0 is taken to fit."""
    if fits(count):
        return count
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
