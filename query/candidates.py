"""What a search looks at: the best of each arm and the events beside them, one row each with all that speaks for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headwater.query import lexicon
from headwater.query.positions import positions
from headwater.query.scope import both, ids_where, one_of, where
from headwater.query.when import day_shares, days_named, on_days, times_named
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.events import ItemKind
from headwater.schemas.text import cjk_runs

if TYPE_CHECKING:
    import numpy.typing as npt

    from headwater.query.stores import QueryEncoder, Stores

    Vector = npt.NDArray[np.float64]

HEAD = ("id", "at", "kind", "session_id", "project", "content", "content_hash", "code", "tool")
_FOUND = pl.Schema({"id": pl.String, "cosine": pl.Float64, "passage": pl.String})


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows in a fixed order, and for each what speaks for it; `inside`: whether it may be an answer itself.

    `rows`: HEAD; `counted`: how often each term stands in it; `cosine`: of its best chunk, NaN when unknown; `before`
    and `after`: the row numbers of its neighbours in the session, -1 when there is none or it is unknown; `session`:
    the number of its session; `total`: events in the project; `order`: their places, see `positions`.
    """

    rows: pl.DataFrame
    terms: tuple[lexicon.Term, ...]
    counted: lexicon.Matrix
    lengths: Vector
    cosine: Vector
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    session: npt.NDArray[np.int64]
    inside: npt.NDArray[np.bool_]
    total: int
    order: pl.DataFrame


def candidates(stores: Stores, text: str, scope: Scope, encoder: QueryEncoder | None) -> Candidates | None:
    """Return what to choose from, None when nothing was found. The scope's filter comes before the choice."""
    terms = tuple(lexicon.terms_of_query(text))
    order = positions(stores, scope)
    is_large = order.height >= limits.VECTOR_INDEX_ROWS
    most = limits.SEARCH_NEAREST_OF_MANY if is_large else limits.SEARCH_CANDIDATES
    with ThreadPoolExecutor(1) as beside:  # both arms wait for the disk and for Lance: at the same time
        nearest = beside.submit(by_meaning, stores, text, scope, encoder, most)
        words = by_words(stores, text, terms, scope)
        near = nearest.result()
    said = pl.concat([near.select("id"), _on_its_days(text, order)]).unique(maintain_order=True)
    known = pl.concat([words, _rest(stores, said, words, scope)])
    if known.is_empty():
        return None
    known = known.with_columns(pl.lit(value=True).alias("inside"))
    rows = pl.concat([known, _beside(stores, known, order, scope)]).unique(
        "id", keep="first", maintain_order=True
    )
    rows = rows.join(near, on="id", how="left").join(
        order.select("id", "place", "turn_id"), on="id", how="left"
    )
    rows = rows.sort("id")
    texts = lexicon.flat(rows.get_column("content"))
    place = {
        (session, at): n
        for n, (session, at) in enumerate(rows.select("session_id", "place").iter_rows())
        if at is not None and at == int(at)
    }
    sessions, places = rows.get_column("session_id").to_list(), rows.get_column("place").to_list()

    def next_to(step: float) -> npt.NDArray[np.int64]:
        return np.array(
            [
                place.get((session, at + (step if at == int(at) else step / 2)), -1) if at is not None else -1
                for session, at in zip(sessions, places, strict=True)
            ],
            dtype=np.int64,
        )

    return Candidates(
        rows=rows,
        terms=terms,
        counted=lexicon.counts(texts, terms),
        lengths=texts.str.len_chars().to_numpy().astype(float),
        cosine=rows.get_column("cosine").to_numpy().astype(float),
        before=next_to(-1),
        after=next_to(1),
        session=rows.get_column("session_id").rank("dense").to_numpy().astype(np.int64) - 1,
        inside=rows.get_column("inside").to_numpy(),
        total=order.height,
        order=order,
    )


def by_words(stores: Stores, text: str, terms: tuple[lexicon.Term, ...], scope: Scope) -> pl.DataFrame:
    """Return the best events of each text column, HEAD."""
    said = lexicon.with_endings(terms)
    inside = where(scope)
    parts = {"content": said, "code": text, "cjk": cjk_runs(text)}
    found = [
        stores.events.match(words, column, inside, limits.SEARCH_CANDIDATES, list(HEAD)).select(HEAD)
        for column, words in parts.items()
        if words
    ]
    filled = [arm for arm in found if not arm.is_empty()]
    return pl.concat(filled).unique("id", keep="first", maintain_order=True) if filled else found[0]


def by_meaning(
    stores: Stores, text: str, scope: Scope, encoder: QueryEncoder | None, most: int
) -> pl.DataFrame:
    """Return id, cosine and passage of at most so many nearest events; of one embedding version only."""
    if not stores.can_compare(encoder):
        return pl.DataFrame(schema=_FOUND)
    inside = where(scope, files=False)
    if scope.file is not None:  # vectors do not know files: the newest events that touch it stand in for it
        touching = (
            stores.events.scan(["id", "at"], where(scope))
            .sort("at", descending=True)
            .head(limits.IDS_PER_FILTER)
        )
        if touching.is_empty():
            return pl.DataFrame(schema=_FOUND)
        inside = both(inside, one_of("item_id", touching.get_column("id").to_list()))
    found = stores.nearest(ItemKind.ENTRY, text, encoder, inside, most)
    return found.select("id", (1.0 - pl.col("_distance")).alias("cosine"), pl.col("content").alias("passage"))


def _on_its_days(text: str, order: pl.DataFrame) -> pl.DataFrame:
    """Return the ids of what was said on the days that a query names: it need not have a word of it."""
    days = days_named(text)
    if not days or order.is_empty():
        return order.select("id").clear()
    said = order.filter(on_days(pl.col("at"), days), pl.col("place") == pl.col("place").floor())
    share = day_shares(said.get_column("at"), days, times_named(text)).alias("share")
    return (
        said.with_columns(share)
        .sort("share", "at", descending=True)
        .select("id")
        .head(limits.SEARCH_CANDIDATES)
    )


def _rest(stores: Stores, found: pl.DataFrame, words: pl.DataFrame, scope: Scope) -> pl.DataFrame:
    """Return the heads of those not found by words that are really there and inside the scope."""
    missing = found.join(words, on="id", how="anti").get_column("id").to_list()
    if not missing:
        return words.clear()
    return stores.events.scan(list(HEAD), ids_where(missing, scope)).select(HEAD)


def _beside(stores: Stores, known: pl.DataFrame, order: pl.DataFrame, scope: Scope) -> pl.DataFrame:
    """Return the heads of events beside those that are known; they speak for them, and are no answers themselves."""
    at = order.join(known.select("id"), on="id", how="semi").select("session_id", "place")
    step = pl.when(pl.col("place") == pl.col("place").floor()).then(1.0).otherwise(0.5)
    wanted = pl.concat(
        [at.with_columns(pl.col("place") + step), at.with_columns(pl.col("place") - step)]
    ).unique()
    ids = order.join(wanted, on=["session_id", "place"], how="semi").join(known, on="id", how="anti")
    ids = ids.head(max(0, limits.CANDIDATE_TEXTS - known.height))
    nothing = known.clear()
    if ids.is_empty():
        return nothing
    rows = stores.events.by_ids(ids.get_column("id").to_list(), list(HEAD))
    names = [scope.project, *scope.moved]
    inside = rows.filter(pl.col("project").is_in(names)) if scope.project is not None else rows
    return inside.select(HEAD).with_columns(pl.lit(value=False).alias("inside"))
