"""What speaks for each candidate of a search: one column each, in [0, 1], on a frame of one row per candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headwater.query import lexicon
from headwater.query.scripts import scripts
from headwater.query.when import day_shares, days_named, times_named
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from headwater.query.candidates import Candidates, Vector

WEAK_WORDS = 0.2  # a best score by words below this counts as part of it: one common word is no match
COMMON_WORD = 1.0  # a best BM25 score of this counts half: a common word scores less, a rare one 5 to 10
LONG_FROM = 300  # characters; a text of so many is as long as one that answers one question
LONG_FULL = 1.5  # powers of ten above that where a text counts as long as can be: 9,500 characters
TINY_CHARS = 12  # "ok, do it": near everything and nothing by meaning
OTHER_SCRIPT = 0.8  # how far the best of another script comes up to the best of the query's own
SESSION_BEST = 3  # rows of a session whose mean says how near the session is


def evidence(found: Candidates, query: str, *, reads_all: bool) -> pl.DataFrame:
    """Return the evidence of candidates that may be answers, in the order of their rows.

    Columns: words, words_near, words_session: BM25 of the text, with its neighbours, of all that was found of its
    session, each against the best; meaning, meaning_near, meaning_session: nearness of its best chunk, mean with its
    neighbours', mean of its session's best, from the farthest to the nearest; covered: share of the query's words, by
    rarity, that it has; long, tiny, call: what it is; day: the query names its day; said: BM25 as it is; alone: BM25
    against the best, less when that is a common word; cosine: as it is. `reads_all`: texts of other scripts than the
    query's are compared among themselves.
    """
    rare = lexicon.rarity(found.counted, found.terms, found.total)
    words = lexicon.bm25(found.counted, found.lengths, rare)
    near = found.counted + _shifted(found.counted, found.before) + _shifted(found.counted, found.after)
    lengths = found.lengths + _shifted(found.lengths, found.before) + _shifted(found.lengths, found.after)
    texts = found.rows.get_column("content")
    cosine = found.cosine
    if reads_all:
        passages = found.rows.get_column("passage").fill_null(texts)
        cosine = level_scripts(cosine, scripts(passages), scripts(pl.Series([query]))[0])
    meaning = _spread(cosine)
    session_counts, session_lengths = _by_session(found.counted, found), _by_session(found.lengths, found)
    whole = rare.sum()
    days = days_named(query)
    frame = pl.DataFrame(
        {
            "id": found.rows.get_column("id"),
            "words": _against_best(words),
            "words_near": _against_best(lexicon.bm25(near, lengths, rare)),
            "words_session": _against_best(lexicon.bm25(session_counts, session_lengths, rare))[
                found.session
            ],
            "meaning": meaning,
            "meaning_near": (meaning + _shifted(meaning, found.before) + _shifted(meaning, found.after)) / 3,
            "meaning_session": _session_best(meaning, found)[found.session],
            "covered": ((found.counted > 0) @ rare) / whole if whole > 0 else np.zeros(len(words)),
            "long": np.clip(np.log10(np.maximum(found.lengths, 1) / LONG_FROM) / LONG_FULL, 0.0, 1.0),
            "said": words,
            "alone": _alone(words, whole),
            "cosine": np.nan_to_num(found.cosine, nan=0.0),
            "inside": found.inside,
        }
    )
    return frame.with_columns(
        (texts.str.strip_chars().str.len_chars() < TINY_CHARS).cast(pl.Float64).alias("tiny"),
        (found.rows.get_column("kind") == Kind.TOOL.value).cast(pl.Float64).alias("call"),
        (day_shares(found.rows.get_column("at"), days, times_named(query)) if days else pl.lit(0.0)).alias(
            "day"
        ),
    ).filter(pl.col("inside"))


def level_scripts(cosine: Vector, script: pl.Series, own: str) -> Vector:
    """Return cosines with the best of each other script brought up towards the best of the query's own.

    A model puts texts of the query's language before all others; within a language it ranks well.
    """
    level = cosine.copy()
    known = ~np.isnan(cosine)
    names = script.to_numpy()
    if not (known & (names == own)).any():
        return level
    best = cosine[known & (names == own)].max()
    for name in sorted(set(names[known].tolist()) - {own}):
        rows = known & (names == name)
        level[rows] += max(0.0, best - cosine[rows].max()) * OTHER_SCRIPT
    return level


def _against_best(score: Vector) -> Vector:
    against: Vector = score / max([WEAK_WORDS, *score.tolist()])
    return against


def _alone(words: Vector, whole: float) -> Vector:
    best = max([0.0, *words.tolist()])
    if best <= 0:
        return words
    sum_of_best = (
        best * whole * (lexicon.K1 + 1)
    )  # as BM25 is written usually: a rare word alone scores 5 to 10
    alone: Vector = words / best * (sum_of_best / (sum_of_best + COMMON_WORD))
    return alone


def _spread(cosine: Vector) -> Vector:
    """Return nearness from 0, the farthest that is known, to 1, the nearest; unknown is 0."""
    known = cosine[~np.isnan(cosine)]
    if not len(known):
        return np.zeros(len(cosine))
    low, high = known.min(), known.max()
    if high <= low:
        return (~np.isnan(cosine)).astype(float)
    spread: Vector = np.nan_to_num((cosine - low) / (high - low), nan=0.0)
    return spread


def _shifted(values: Vector, rows: npt.NDArray[np.int64]) -> Vector:
    """Return for each row the value of the row that `rows` names, 0 where it names none."""
    shifted = np.zeros_like(values)
    there = rows >= 0
    shifted[there] = values[rows[there]]
    return shifted


def _by_session(values: Vector, found: Candidates) -> Vector:
    total = np.zeros((int(found.session.max()) + 1, *values.shape[1:]))
    np.add.at(total, found.session, values)
    return total


def _session_best(meaning: Vector, found: Candidates) -> Vector:
    """Return the mean of the SESSION_BEST nearest of each session; those that are missing count 0."""
    order = np.lexsort((-meaning, found.session))  # by session, the nearest first
    session = found.session[order]
    is_best = np.arange(len(order)) - np.searchsorted(session, session) < SESSION_BEST
    best = np.zeros(int(found.session.max()) + 1)
    np.add.at(
        best, session[is_best][::-1], meaning[order][is_best][::-1]
    )  # from the farthest, as a sum adds up
    return best / SESSION_BEST
