"""The order of candidates from what speaks for them: few weights, the same for every set, and what shifts them.

Chosen on the tune parts of four question sets (see `benchmarks/retrieval.py`); what each is for:
words and meaning of the text itself decide; its neighbours and its session say what it is about when it is short; a
text that is long has every word and is near everything; a tool's call is the answer when a name in the code is asked
for, else what was said about it is.
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
    """How much each column of the evidence counts; those that count against are below 0."""

    words: float = 0.4
    words_near: float = 0.5
    words_session: float = 0.5
    covered: float = 0.6
    meaning: float = 0.45
    meaning_near: float = 0.8
    meaning_session: float = 0.6
    long: float = -0.6
    tiny: float = -0.5
    call: float = -1.0
    day: float = 2.0


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
    if exact is not None:
        values["call"] = 0.0
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


def behind(ids: Sequence[str], newer: Mapping[str, Sequence[str]]) -> list[str]:
    """Return ids with each that something supersedes (`newer`: id -> what does) behind the best of those among them."""
    place = {id_: n for n, id_ in enumerate(ids)}
    after: dict[str, list[str]] = {}  # what comes right behind each
    moved: set[str] = set()
    for n, id_ in enumerate(ids):
        better = min((place[one] for one in newer.get(id_, ()) if one in place), default=-1)
        if better > n:
            after.setdefault(ids[better], []).append(id_)
            moved.add(id_)
    ordered: list[str] = []
    todo = [id_ for id_ in reversed(ids) if id_ not in moved]
    while todo:
        ordered.append(todo.pop())
        todo += reversed(after.get(ordered[-1], []))
    return ordered
