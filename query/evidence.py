"""What speaks for each candidate of a search: one column each, in [0, 1], on a frame of one row per candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headwater.query import lexicon
from headwater.query.intent import intent_of
from headwater.query.scripts import scripts
from headwater.query.when import day_shares, days_named, times_named
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from headwater.query.candidates import Candidates, Vector

WEAK_WORDS = 0.2  # a best score by words below this counts as part of it: one common word is no match
COMMON_WORD = 1.0  # a best BM25 score of this counts half: a common word scores less, a rare one 5 to 10
USUAL_CHARS = 2.5  # power of ten: a text of 300 characters is as long as one that answers one question
OFF_FULL = 2.0  # powers of ten away from that where a text counts as far from it as can be
TINY_CHARS = 12  # "ok, do it": near everything and nothing by meaning
OTHER_SCRIPT = 0.8  # how far the best of another script comes up to the best of the query's own
FILE_CHANGES = (
    "^(?:Write|Edit|MultiEdit|NotebookEdit|apply_patch) "  # how the text of a call begins that changes a file
)
SESSION_BEST = 3  # rows of a session whose mean says how near the session is


def evidence(found: Candidates, query: str, *, reads_all: bool, is_exact: bool = False) -> pl.DataFrame:
    """Return the evidence of candidates that may be answers, in the order of their rows.

    What each column says is told by `Weights` of `ranking`; besides: said: BM25 as it is; alone: BM25 against the best,
    less when that is a common word; cosine: as it is. `reads_all`: texts of other scripts than the query's are
    compared among themselves. `is_exact`: the query names something in the code.
    """
    frame = pl.concat([_by_words(found), _by_meaning(found, query, reads_all=reads_all)], how="horizontal")
    told = pl.concat([frame, _by_kind(found, query, is_exact=is_exact)], how="horizontal")
    return told.with_columns(found.rows.get_column("id"), pl.Series("inside", found.inside)).filter(
        pl.col("inside")
    )


def _by_words(found: Candidates) -> pl.DataFrame:
    rare = lexicon.rarity(found.counted, found.terms, found.total)
    words = lexicon.bm25(found.counted, found.lengths, rare)
    near = found.counted + _shifted(found.counted, found.before) + _shifted(found.counted, found.after)
    lengths = found.lengths + _shifted(found.lengths, found.before) + _shifted(found.lengths, found.after)
    session_counts, session_lengths = _by_session(found.counted, found), _by_session(found.lengths, found)
    whole = rare.sum()
    best = _against_best(words)
    return pl.DataFrame(
        {
            "words": best,
            "words_near": _against_best(lexicon.bm25(near, lengths, rare)),
            "words_beside": (_two_off(best, found.before) + _two_off(best, found.after)) / 2,
            "words_session": _against_best(lexicon.bm25(session_counts, session_lengths, rare))[
                found.session
            ],
            "covered": _covered(found.counted, rare),
            "covered_near": _covered(near, rare),
            "phrase": _phrases(found.paired),
            "said": words,
            "alone": _alone(words, whole),
        }
    )


def _by_meaning(found: Candidates, query: str, *, reads_all: bool) -> pl.DataFrame:
    cosine = found.cosine
    if reads_all:
        passages = found.rows.get_column("passage").fill_null(found.rows.get_column("content"))
        cosine = level_scripts(cosine, scripts(passages), scripts(pl.Series([query]))[0])
    meaning = _spread(cosine)
    before, after = _shifted(meaning, found.before), _shifted(meaning, found.after)
    return pl.DataFrame(
        {
            "meaning": meaning,
            "meaning_beside": np.maximum(before, after),
            "meaning_session": _session_best(meaning, found)[found.session],
            "cosine": np.nan_to_num(found.cosine, nan=0.0),
        }
    )


def _by_kind(found: Candidates, query: str, *, is_exact: bool) -> pl.DataFrame:
    """Return what each row is, and whether the query asks for such a one."""
    rows, intent = found.rows, intent_of(query)
    text = pl.col("content").str.strip_chars()
    is_call = pl.col("kind") == Kind.TOOL.value
    changes = pl.col("content").str.contains(FILE_CHANGES)
    is_prompt = pl.col("kind") == Kind.PROMPT.value
    frame = rows.select(
        tiny=text.str.len_chars() < TINY_CHARS,
        question=text.str.contains(r"[?？]$"),
        prompt=is_prompt,
        asked=is_prompt & intent.asked,
        number=text.str.contains(r"[0-9]") if intent.number else pl.lit(value=False),
        call=is_call & (not is_exact),
        look=is_call & ~changes & is_exact,
    ).cast(pl.Float64)
    days = days_named(query)
    day = (
        day_shares(rows.get_column("at"), days, times_named(query))
        if days
        else pl.zeros(rows.height, eager=True)
    )
    off = np.abs(np.log10(np.maximum(found.lengths, 1)) - USUAL_CHARS) / OFF_FULL
    return frame.with_columns(
        day.cast(pl.Float64).alias("day"),
        pl.Series("edge", _towards_edge(rows.get_column("at"), day, intent.edge)),
        pl.Series("off_length", np.minimum(off, 1.0)),
    )


def _towards_edge(at: pl.Series, day: pl.Series, edge: int) -> Vector:
    """Return how late each row on the named day is among them, from 0 to 1, or how early when `edge` is -1."""
    towards = np.zeros(len(at))
    there = day.to_numpy() > 0
    if edge and there.any():
        place = at.filter(pl.Series(there)).rank("dense").to_numpy().astype(float)
        late = place / place.max()
        towards[there] = late if edge > 0 else 1.0 - late + 1.0 / place.max()
    return towards


def _covered(counted: lexicon.Matrix, rare: Vector) -> Vector:
    """Return the share of the query's words, by rarity, that each row has."""
    whole = rare.sum()
    share: Vector = ((counted > 0) @ rare) / whole if whole > 0 else np.zeros(len(counted))
    return share


def _phrases(paired: lexicon.Matrix) -> Vector:
    """Return the share of the query's pairs of words, by rarity, that stand side by side in each text."""
    if not paired.shape[1]:
        return np.zeros(len(paired))
    with_it = paired.sum(axis=0)
    return _covered(paired, np.log1p((len(paired) - with_it + 0.5) / (with_it + 0.5)))


def _two_off(values: Vector, step: npt.NDArray[np.int64]) -> Vector:
    return _shifted(_shifted(values, step), step)


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
