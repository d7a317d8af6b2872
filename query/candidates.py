"""What a search looks at: the best of each arm and the events beside them, one row each with all that speaks for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from headwater.query import lexicon, scripts
from headwater.query.positions import positions
from headwater.query.scope import both, ids_where, one_of, where
from headwater.query.when import day_shares, days_named, on_days, times_named
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.events import ItemKind
from headwater.schemas.text import cjk_runs, clean_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from headwater.query.positions import Numbers, Positions
    from headwater.query.stores import QueryEncoder, Stores
    from headwater.storage.table_reads import TableView

    Vector = npt.NDArray[np.float64]

HEAD = ("id", "at", "kind", "session_id", "project", "content", "content_hash", "code", "tool")
_KEPT = ("id", "at", "kind", "session_id", "project", "content_hash", "place", "turn_id")  # in memory
_TEXT = ("content", "code")
_BLANK = r"^[\s\x00-\x1f\x7f-\x9f\x{2028}\x{2029}]*$"  # what a summary says nothing of
_NONE = np.empty(0, dtype=np.int32)
_FOUND = pl.Schema({"id": pl.String, "cosine": pl.Float64, "passage": pl.String})


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows in a fixed order, and for each what speaks for it; `inside`: whether it may be an answer itself.

    `rows`: HEAD; `counted`: how often each term stands in it; `paired`: 1 where a pair of words does, see
    `lexicon.pairs_of_query`; `cosine`: of its best chunk, NaN when unknown; `before` and `after`: the row numbers of
    its neighbours in the session, -1 when there is none or it is unknown; `session`: the number of its session;
    `total`: events in the project; `known`: the places of them all, see `positions`.
    """

    rows: pl.DataFrame
    terms: tuple[lexicon.Term, ...]
    counted: lexicon.Matrix
    paired: lexicon.Matrix
    lengths: Vector
    cosine: Vector
    before: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]
    session: npt.NDArray[np.int64]
    inside: npt.NDArray[np.bool_]
    total: int
    known: Positions


def candidates(stores: Stores, text: str, scope: Scope, encoder: QueryEncoder | None) -> Candidates | None:
    """Return what to choose from, None when nothing was found. The scope's filter comes before the choice."""
    return stores.events.view(lambda view: _seen(view, stores, text, scope, encoder))


def _seen(
    view: TableView, stores: Stores, text: str, scope: Scope, encoder: QueryEncoder | None
) -> Candidates | None:
    """Return the candidates in one view of the events."""
    terms = tuple(lexicon.terms_of_query(text))
    known = positions(stores, scope, view)
    look = _Look(view, known, terms, tuple(lexicon.pairs_of_query(text)))
    is_large = known.placed >= limits.VECTOR_INDEX_ROWS
    most = limits.SEARCH_NEAREST_OF_MANY if is_large else limits.SEARCH_CANDIDATES
    with ThreadPoolExecutor(1) as beside:
        # the model and the vectors take longest; meanwhile the words are looked up, and what they find is read
        nearest = beside.submit(by_meaning, stores, text, scope, encoder, most)
        words = by_words(view, known, text, terms, scope)
        first = look.texts(np.union1d(words, _beside(known, words)))
        near = nearest.result()
    said = np.union1d(
        known.of_ids(near.get_column("id")), known.of_ids(_on_its_days(text, known.order).get_column("id"))
    )
    inside = np.union1d(words, _within(view, known, np.setdiff1d(said[said >= 0], words), scope))
    if not len(inside):
        return None
    around = _beside(known, inside)[: max(0, limits.CANDIDATE_TEXTS - len(inside))]
    return _put_together(look, inside, around, first, near)


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts of events by their numbers, which rise, and what was counted in them."""

    numbers: Numbers
    rows: pl.DataFrame
    counted: lexicon.Matrix
    paired: lexicon.Matrix
    lengths: Vector

    def of(self, other: _Texts | None, numbers: Numbers) -> _Texts:
        """Return those of some events, each of which is here or among the others."""
        parts = [self] if other is None else [self, other]
        both = np.concatenate([one.numbers for one in parts])
        order = np.argsort(both)
        at = order[np.searchsorted(both, numbers, sorter=order)]
        return _Texts(
            numbers,
            pl.concat([one.rows for one in parts])[at],
            np.concatenate([one.counted for one in parts])[at],
            np.concatenate([one.paired for one in parts])[at],
            np.concatenate([one.lengths for one in parts])[at],
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """One search's look at the events: what is known of them all, and the words to count in some."""

    view: TableView
    known: Positions
    terms: tuple[lexicon.Term, ...]
    pairs: tuple[str, ...]

    def take(self, numbers: Numbers, columns: tuple[str, ...]) -> pl.DataFrame:
        """Return columns of some events, read from the table."""
        return self.view.take(self.known.rows.get_column("_rowid").gather(numbers), columns)

    def texts(self, numbers: Numbers) -> _Texts:
        """Return the texts of some events, whose numbers rise."""
        rows = self.take(numbers, _TEXT)
        texts = lexicon.flat(rows.get_column("content"))
        lengths = texts.str.len_chars().to_numpy().astype(float)
        counted, paired = lexicon.counts(texts, self.terms), lexicon.presence(texts, self.pairs)
        return _Texts(numbers, rows, counted, paired, lengths)

    def tools(self, numbers: Numbers, rows: pl.DataFrame) -> pl.Series:
        """Return the call of each row that has no text to show, null for all others."""
        blank = rows.get_column("content").str.contains(_BLANK).to_numpy()
        calls: list[Any] = [None] * len(numbers)
        if blank.any():
            found = self.take(numbers[blank], ("tool",)).get_column("tool").to_list()
            for at, call in zip(np.flatnonzero(blank).tolist(), found, strict=True):
                calls[at] = call
        return pl.Series("tool", calls)


def _put_together(
    look: _Look, inside: Numbers, around: Numbers, first: _Texts, near: pl.DataFrame
) -> Candidates:
    known = look.known
    numbers = np.concatenate([inside, around])
    order = known.rows.get_column("id").gather(numbers).arg_sort().to_numpy()
    numbers = numbers[order]
    missing = np.setdiff1d(numbers, first.numbers)
    texts = first.of(look.texts(missing) if len(missing) else None, numbers)
    rows = known.rows.select(*_KEPT)[numbers].with_columns(
        pl.col("project").cast(pl.String), pl.Series("inside", order < len(inside)), *texts.rows.get_columns()
    )
    rows = rows.with_columns(look.tools(numbers, rows)).join(near, on="id", how="left", maintain_order="left")
    place = np.full(known.rows.height + 1, -1, dtype=np.int64)  # the last stands for "no such event"
    place[numbers] = np.arange(len(numbers))
    return Candidates(
        rows=rows,
        terms=look.terms,
        counted=texts.counted,
        paired=texts.paired,
        lengths=texts.lengths,
        cosine=rows.get_column("cosine").to_numpy().astype(float),
        before=place[known.before[numbers]],
        after=place[known.after[numbers]],
        session=rows.get_column("session_id").rank("dense").to_numpy().astype(np.int64) - 1,
        inside=rows.get_column("inside").to_numpy(),
        total=known.placed,
        known=known,
    )


def by_words(
    view: TableView, known: Positions, text: str, terms: tuple[lexicon.Term, ...], scope: Scope
) -> Numbers:
    """Return the numbers of the best events of each text column, rising."""
    inside = where(scope)
    parts = {"content": lexicon.with_endings(terms), "code": text, "cjk": cjk_runs(text)}
    asked = {column: clean_text(words[: limits.QUERY_CHARS]).strip() for column, words in parts.items()}
    found = [
        view.match(words, column, inside, limits.SEARCH_CANDIDATES, ["_rowid"])
        for column, words in asked.items()
        if words
    ]
    numbers = [known.of_rows(arm.get_column("_rowid")) for arm in found if arm is not None]
    every = np.unique(np.concatenate([*numbers, _NONE]))
    return every[every >= 0]


def by_meaning(
    stores: Stores, text: str, scope: Scope, encoder: QueryEncoder | None, most: int
) -> pl.DataFrame:
    """Return id, cosine and passage of at most so many nearest events; of one embedding version only.

    The passage, the text of the nearest chunk, is null unless the model reads several scripts: see `evidence`.
    """
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
    found = stores.nearest(
        ItemKind.ENTRY, text, encoder, inside, most, texts=scripts.reads_all(stores.embedding_version or "")
    )
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


def _within(view: TableView, known: Positions, numbers: Numbers, scope: Scope) -> Numbers:
    """Return those events that the scope lets through: all of the project are known, the rest of it is looked up."""
    if scope == scope.of_project() or not len(numbers):
        return numbers
    ids = known.rows.get_column("id").gather(numbers).to_list()
    return np.unique(known.of_ids(view.scan(["id"], ids_where(ids, scope)).get_column("id")))


def _beside(known: Positions, numbers: Numbers) -> Numbers:
    """Return the events beside some, without these: they speak for them, and are no answers themselves."""
    around = np.union1d(known.before[numbers], known.after[numbers])
    return np.setdiff1d(around[around >= 0], numbers)
