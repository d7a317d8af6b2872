"""Metrics of ranked lists: recall, hit, NDCG, MRR; means with bootstrap intervals. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

_ROUNDS = 1000
_SEED = 7


def turn_figures(ranked: Sequence[str], gold: AbstractSet[str]) -> dict[str, float]:
    """Return the figures of one question with gold: shares in [0, 1]."""
    hits = [item in gold for item in ranked]
    figures = {f"recall@{k}": sum(hits[:k]) / len(gold) for k in (5, 10, 20)}
    figures |= {f"hit@{k}": float(any(hits[:k])) for k in (1, 5, 10)}
    figures["all@10"] = float(sum(hits[:10]) == len(gold))
    ideal = math.fsum(1 / math.log2(n + 2) for n in range(min(len(gold), 10)))
    figures["ndcg@10"] = math.fsum(hit / math.log2(n + 2) for n, hit in enumerate(hits[:10])) / ideal
    figures["mrr"] = next((1 / (n + 1) for n, hit in enumerate(hits) if hit), 0.0)
    return figures


def mean_with_interval(values: Sequence[float]) -> dict[str, Any]:
    """Return the mean and its 95 % bootstrap interval, seeded."""
    if not values:
        return {"value": None, "ci95": None, "n": 0}
    chance = random.Random(_SEED)
    means = sorted(sum(chance.choices(values, k=len(values))) / len(values) for _ in range(_ROUNDS))
    low, high = means[int(0.025 * _ROUNDS)], means[int(0.975 * _ROUNDS) - 1]
    return {
        "value": round(sum(values) / len(values), 4),
        "ci95": [round(low, 4), round(high, 4)],
        "n": len(values),
    }


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each figure, four decimals."""
    names = sorted({name for row in rows for name in row})
    return {name: round(sum(row[name] for row in rows) / len(rows), 4) for name in names}


def auc(answered: Sequence[float], unanswered: Sequence[float]) -> float | None:
    """Return how often a score of the first is above one of the second, equal ones half; None without either."""
    if not answered or not unanswered:
        return None
    wins = sum((a > b) + 0.5 * (a == b) for a in answered for b in unanswered)
    return round(wins / len(answered) / len(unanswered), 4)
