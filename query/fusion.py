"""Putting the arms of a search together: frames in, frames out.

An arm is a frame of `id` and `score` in [0, 1], one row per item; so is what comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

BM25_HALF = 1.0  # a best BM25 score of this counts half: a rare word alone scores 5-10, a common one below 1
COSINE_FULL = (
    0.8  # a best cosine of this counts full: sentence models rarely go above it for a question and its answer
)
TEXT_WEIGHT = 0.5  # of the text arms against vectors: neither is better on every set
BEST_COLUMN = 0.8  # of a row's text score that comes from its best column, the rest from the mean of all
WITHOUT_EXACT = 0.85  # what a row without all of the query's identifiers can reach
WITH_EXACT = (
    0.9  # what a row with all of them has at least: an identifier that is typed is what is looked for
)
PARTLY_EXACT = 0.5  # how far a row with some of them is lifted

_EMPTY = pl.DataFrame(schema={"id": pl.String, "score": pl.Float64})


def bm25_arm(found: pl.DataFrame) -> pl.DataFrame:
    """Return the arm of a full-text search (`id`, `_score`): relative to its best row, less when the best is weak."""
    if found.is_empty():
        return _EMPTY
    best = pl.col("_score").cast(pl.Float64).max()
    score = pl.col("_score").cast(pl.Float64) / (best + BM25_HALF)
    return _best_per_id(found.select("id", score.alias("score")))


def vector_arm(found: pl.DataFrame, limit: int) -> pl.DataFrame:
    """Return the arm of a vector search (`id`, `_distance` by cosine).

    Where the arm was cut at `limit` its last row counts nothing: rows just behind it would have been as good.
    """
    if found.is_empty():
        return _EMPTY
    arm = _best_per_id(
        found.select("id", (1.0 - pl.col("_distance").cast(pl.Float64)).clip(0.0, 1.0).alias("score"))
    )
    best = arm.get_column("score").to_list()[0]
    floor = arm.get_column("score").to_list()[-1] if found.height >= limit else 0.0
    strength = min(best / COSINE_FULL, 1.0)
    if best <= floor:
        return arm.with_columns(pl.lit(strength).alias("score"))
    return arm.with_columns((pl.col("score") - floor) / (best - floor) * strength)


def fuse_text(arms: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return one arm of several text columns: a row's best column counts most, the others a little."""
    filled = [arm for arm in arms if not arm.is_empty()]
    if not filled:
        return _EMPTY
    mean = pl.col("score").sum() / len(filled)
    both = BEST_COLUMN * pl.col("score").max() + (1.0 - BEST_COLUMN) * mean
    return pl.concat(filled).group_by("id").agg(both.alias("score"))


def fuse(text: pl.DataFrame, vectors: pl.DataFrame) -> pl.DataFrame:
    """Return the weighted sum of the two arms; an arm that found nothing at all leaves the other its whole weight."""
    if text.is_empty() or vectors.is_empty():
        return vectors if text.is_empty() else text
    weighted = pl.concat(
        [
            text.select("id", pl.col("score") * TEXT_WEIGHT),
            vectors.select("id", pl.col("score") * (1.0 - TEXT_WEIGHT)),
        ]
    )
    return weighted.group_by("id").agg(pl.col("score").sum())


def prefer_exact(fused: pl.DataFrame, exact: pl.DataFrame) -> pl.DataFrame:
    """Lift rows by `exact` (`id`, `share` in [0, 1] of the query's identifiers that stand in the row).

    All rows that have all of them come before all others; scores stay in [0, 1].
    """
    share = pl.col("share").fill_null(0.0)
    partly = WITHOUT_EXACT * (pl.col("score") + (1.0 - pl.col("score")) * PARTLY_EXACT * share)
    whole = WITH_EXACT + (1.0 - WITH_EXACT) * pl.col("score")
    joined = fused.join(exact, on="id", how="left")
    return joined.select(
        "id", pl.when(share >= 1.0).then(whole).otherwise(partly).clip(0.0, 1.0).alias("score")
    )


def ranked(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows (`id`, `score`, `at`) best first; equal scores by newer, then by id."""
    return rows.sort(["score", "at", "id"], descending=[True, True, False])


def _best_per_id(arm: pl.DataFrame) -> pl.DataFrame:
    return arm.group_by("id").agg(pl.col("score").max()).sort(["score", "id"], descending=[True, False])
