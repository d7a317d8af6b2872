"""What a score says: how often a first result as sure as this one was right, on the tune sets.

0.85 stands where 70 % of first results at or above it were right, 0.92 where 80 % were, for each embedding version
that was measured, and for words alone. `calibration.json` holds the numbers; `benchmarks/fit_scores.py` writes it. Rows
after the first are in proportion to their strength.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

WORDS_ALONE = "words"
FEATURES = (
    "raw",
    "gap",
    "said",
    "covered",
    "cosine",
    "words",
    "meaning",
    "meaning_beside",
    "share",
    "agreed",
    "short",
)

GAP_FULL = 1 / 6  # of raw strength between first and second: more says nothing more


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows, best first, with `score` in [0, 1]; whether the scores stand for precision."""

    rows: pl.DataFrame
    is_mapped: bool


def scored(rows: pl.DataFrame, version: str | None) -> Scored:
    """Return rows (evidence with `raw`, best first) with their scores; of an unmapped version, `raw` itself."""
    mapped = calibration().get(WORDS_ALONE if version is None else version)
    if mapped is None or rows.is_empty():
        return Scored(rows.with_columns(pl.col("raw").alias("score")), is_mapped=mapped is not None)
    found = features(rows)
    strength = float(np.dot(np.array(mapped["weights"]), found) + mapped["bias"])
    top = score_of(strength, mapped["points"])
    best = float(rows.get_column("raw")[0])
    share = pl.col("raw") / best if best > 0 else pl.lit(1.0)
    return Scored(rows.with_columns((share * top).clip(0.0, 1.0).alias("score")), is_mapped=True)


def features(rows: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return FEATURES of a search's rows (at least one, best first), each in [0, 1].

    `gap`: of raw strength to the second, against GAP_FULL; `agreed`: it is also the first by words and by meaning, half
    for each; `short`: how few candidates there were.
    """
    first = rows.row(0, named=True)
    second = float(rows.get_column("raw")[1]) if rows.height > 1 else 0.0
    agreed = sum(
        first[name] > 0 and first[name] >= rows.get_column(name).max() for name in ("words", "meaning")
    )
    gap = min(1.0, (first["raw"] - second) / GAP_FULL)
    values = {**first, "gap": gap, "agreed": agreed / 2, "short": 1.0 / rows.height}
    return np.array([float(values[name]) for name in FEATURES])


def score_of(strength: float, points: list[list[float]]) -> float:
    """Return the score at a strength, between points (strength, score) that rise; flat outside them."""
    xs, ys = zip(*points, strict=True)
    return float(np.interp(strength, xs, ys))


@cache
def calibration() -> dict[str, dict[str, Any]]:
    """Return embedding version, or WORDS_ALONE -> weights of FEATURES, bias, and points of the map."""
    file = Path(__file__).with_name("calibration.json")
    found: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["versions"]
    return found
