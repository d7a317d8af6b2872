"""The order of candidates from what speaks for them: few weights, the same for every set, and what shifts them.

The weights were fitted on the tune parts of five question sets, with two models (see `benchmarks/retrieval.py`): first
as a softmax over the candidates of each question, then by steps that make the figures themselves better. What they say:
words and meaning of the text itself decide; its neighbours and its session say what it is about when it is short; a
text far from the usual length is near everything; a tool's call is the answer when a name in the code is asked for,
else what was said about it is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import polars as pl

from headwater.query import lexicon
from headwater.schemas import limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each column of the evidence counts, each in [0, 1]; those that count against are below 0."""

    words: float = 0.6  # BM25 of the text, against the best
    words_near: float = 1.7  # of the text with the messages before and after it
    words_beside: float = 1.6  # mean of the messages two before and two after
    words_session: float = 1.3  # of all that was found of its session
    covered: float = 0.9  # share of the query's words, by rarity, that it has
    covered_near: float = 1.3  # that it has with the messages before and after
    phrase: float = 2.5  # share of the query's pairs of words that stand side by side in it
    meaning: float = 2.4  # nearness of its nearest chunk, from the farthest to the nearest
    meaning_beside: float = 1.2  # of the nearer of the messages before and after
    meaning_session: float = 2.7  # mean of its session's three nearest
    prompt: float = 0.5  # a person wrote it
    asked: float = 3.7  # a person wrote it, and the query is about what was asked
    number: float = 2.9  # it has a number, and the query wants one
    day: float = 22.2  # it happened on the day of the query
    edge: float = 10.9  # it is the last (first) of that day, and the query wants the last (first)
    tiny: float = -0.4  # fewer than 12 characters
    question: float = -1.0  # it ends in a question mark: it asks and answers nothing
    call: float = -1.8  # a tool's call, and the query names nothing in the code
    look: float = -1.0  # a call that changes no file, and the query names something in the code
    off_length: float = -2.6  # far shorter or longer than what answers a question


ALL = Weights()
WORDS = Weights(**{one.name: 0.0 for one in fields(Weights)} | {"words": 1.0})
MEANING = Weights(**{one.name: 0.0 for one in fields(Weights)} | {"meaning": 1.0})
EXACT = 2.0  # of the share of the query's identifiers that a row has, above what all else adds up to


def blend(evidence: pl.DataFrame, exact: pl.DataFrame | None, weights: Weights = ALL) -> pl.DataFrame:
    """Return the evidence with `raw`, in [0, 1]: the higher, the better the row.

    `exact`: id and share of the query's identifiers that stand in the row; None when it has none. A row that has them
    all comes before every row that has not, whatever else speaks for it.
    """
    values = {one.name: getattr(weights, one.name) for one in fields(weights)}
    top = sum(value for value in values.values() if value > 0)
    low = sum(value for value in values.values() if value < 0)
    total = sum((pl.col(name) * value for name, value in values.items() if value), pl.lit(0.0))
    raw = ((total - low) / max(top - low, 1e-9)).clip(0.0, 1.0)
    if exact is None:
        return evidence.with_columns(pl.lit(0.0).alias("share"), raw.alias("raw"))
    joined = evidence.join(exact, on="id", how="left").with_columns(pl.col("share").fill_null(0.0))
    return joined.with_columns(((raw + EXACT * pl.col("share")) / (1.0 + EXACT)).clip(0.0, 1.0).alias("raw"))


def best_first(rows: pl.DataFrame, by: str = "raw") -> pl.DataFrame:
    """Return rows best first; equal ones by newer, then by id."""
    return rows.sort([by, "at", "id"], descending=[True, True, False])


def folded(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows (best first; project, content_hash, content) without those that repeat a better one, and `folded`.

    Two rows of a project repeat each other when their texts are the same but for case, space and signs.
    """
    text = pl.col("content")
    head = pl.col("_letters")
    rest = pl.when(text.str.len_chars() > limits.FOLD_CHARS).then(text.str.len_chars()).otherwise(0)
    letters = lexicon.letters(rows.get_column("content").str.slice(0, limits.FOLD_CHARS))
    keyed = rows.with_columns(letters.alias("_letters")).with_columns(
        pl.when(head.str.len_chars() > 0)
        .then(pl.struct(head.alias("head"), rest.alias("rest")).hash())
        .otherwise(pl.col("content_hash").hash())
        .alias("_same")
    )
    counted = keyed.with_columns((pl.len().over("project", "_same") - 1).cast(pl.Int64).alias("folded"))
    return counted.unique(["project", "_same"], keep="first", maintain_order=True).drop("_same", "_letters")


def newest_first(ids: Sequence[str], newer: Mapping[str, Sequence[str]]) -> list[str]:
    """Return ids with the best of what supersedes each (`newer`: id -> what does) right before it, if not above.

    Who asks for what was given up wants to know what came in its place, though it may have no word of the question.
    """
    place = {id_: n for n, id_ in enumerate(ids)}
    ordered: list[str] = []
    done: set[str] = set()
    for id_ in ids:
        chain = [id_] if id_ not in done else []  # each with what supersedes it after it
        while chain:
            done.add(chain[-1])
            better = [one for one in newer.get(chain[-1], ()) if one in place and one not in done]
            if not better:
                ordered += reversed(chain)
                break
            chain.append(min(better, key=place.__getitem__))
    return ordered
