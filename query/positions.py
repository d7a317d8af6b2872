"""Where every event of a project stands: what a search looks at of all of them is kept in memory, texts are not.

A reading of all of them takes a tenth of a second at 100,000 events; after a commit only those fragments of the table
are read that are new.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headwater.query.scope import where
from headwater.schemas import limits
from headwater.schemas.events import Kind
from headwater.storage.table_reads import fragment_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy.typing as npt

    from headwater.query.stores import Stores
    from headwater.schemas.answers import Scope
    from headwater.storage.table_reads import Fragment, TableView

    Numbers = npt.NDArray[np.int32]

_READ = ("id", "session_id", "turn_id", "at", "seq", "kind", "project", "content_hash")
_SILENT = (Kind.SESSION_START.value, Kind.SESSION_END.value)
_ORDER = ("session_id", "at", "seq", "id")


@dataclass(frozen=True)
class Positions:
    """The events of a scope's project, or of all, in one view of the table; a row is named by its number here.

    `rows`: id, session_id, turn_id, at, seq, kind, project, content_hash (its hash, a number), `_rowid` and `place`.
    The first `placed` stand by session and time. Messages (what is no tool call) have whole places in their session
    from 0; calls stand between them, at a half. The others, starts and ends of sessions, have no place (null).
    `before` and `after`: the numbers of the messages before and after each, -1 when there is none.
    """

    stamp: Hashable
    fragments: dict[int, Fragment]
    rows: pl.DataFrame
    placed: int
    before: Numbers
    after: Numbers

    @property
    def order(self) -> pl.DataFrame:
        """The rows that have a place, in order."""
        return self.rows.head(self.placed)

    def of_ids(self, ids: pl.Series) -> Numbers:
        """Return the number of each id, -1 for those that are not here."""
        hashes, numbers = self._by_id
        found = _found(ids.hash().to_numpy(), hashes, numbers)
        known = found >= 0
        same = self.rows.get_column("id").gather(found[known]) == ids.filter(pl.Series(known))
        found[np.flatnonzero(known)[~same.to_numpy()]] = -1  # another id with the same hash
        return found

    def of_rows(self, row_ids: pl.Series) -> Numbers:
        """Return the number of each row of the table, -1 for those that are not here."""
        return _found(row_ids.to_numpy(), *self._by_row)

    def alike(self, ids: pl.Series) -> list[str]:
        """Return the ids that begin with the same SHORT_ID_CHARS characters as one of these, each once."""
        keys, numbers = self._by_beginning
        wanted = np.unique(_beginnings(ids))
        first, last = np.searchsorted(keys, wanted, side="left"), np.searchsorted(keys, wanted, side="right")
        found = [numbers[start:end] for start, end in zip(first, last, strict=True)]
        alike: list[str] = self.rows.get_column("id").gather(np.concatenate([*found, numbers[:0]])).to_list()
        return alike

    @cached_property
    def _by_beginning(self) -> tuple[npt.NDArray[np.uint64], Numbers]:
        return _sorted(_beginnings(self.rows.get_column("id")))

    @cached_property
    def _by_id(self) -> tuple[npt.NDArray[np.uint64], Numbers]:
        return _sorted(self.rows.get_column("id").hash().to_numpy())

    @cached_property
    def _by_row(self) -> tuple[npt.NDArray[np.uint64], Numbers]:
        return _sorted(self.rows.get_column("_rowid").to_numpy())


def positions(stores: Stores, scope: Scope, view: TableView) -> Positions:
    """Return where the events of a scope's project stand, or of all, in a view of the table of events."""
    project = scope.of_project()
    kept = stores.positions.get(project)
    if kept is not None and kept.stamp == view.stamp:
        return kept
    made = _read(view, where(project), kept)
    stores.positions[project] = made
    while len(stores.positions) > limits.POSITIONS_KEPT:
        stores.positions.pop(next(iter(stores.positions)), None)
    return made


def _read(view: TableView, inside: str | None, kept: Positions | None) -> Positions:
    fragments = view.fragments()
    if kept is None:
        return _placed(_scan(view, inside, None), view.stamp, fragments)
    lies_in = fragment_of(pl.col("_rowid"))
    still = kept.rows.filter(
        lies_in.is_in([one for one, was in kept.fragments.items() if fragments.get(one) == was])
    )
    known = {
        one for one, was in kept.fragments.items() if one in fragments and fragments[one].files == was.files
    }
    trimmed = sorted(one for one in known if fragments[one] != kept.fragments[one])
    if trimmed:  # rows were deleted there: the others are as they were
        live = view.scan([], None, numbered=True, fragments=trimmed)
        left = kept.rows.filter(lies_in.is_in(trimmed)).join(live, on="_rowid", how="semi")
        still = pl.concat([still, left])
    fresh = sorted(set(fragments) - known)
    new = _scan(view, inside, fresh) if fresh else still.clear().drop("place")
    if new.is_empty() and still.height == kept.rows.height:
        return Positions(view.stamp, fragments, kept.rows, kept.placed, kept.before, kept.after)
    return _placed(pl.concat([still.drop("place"), new]), view.stamp, fragments)


def _scan(view: TableView, inside: str | None, fragments: list[int] | None) -> pl.DataFrame:
    rows = view.scan(_READ, inside, numbered=True, fragments=fragments)
    return rows.with_columns(pl.col("content_hash").hash())


def _placed(rows: pl.DataFrame, stamp: Hashable, fragments: dict[int, Fragment]) -> Positions:
    is_silent = pl.col("kind").is_in(_SILENT)
    ordered = rows.filter(~is_silent).sort(_ORDER)
    is_message = pl.col("kind") != Kind.TOOL.value
    said = is_message.cast(pl.Float64).cum_sum().over("session_id")
    place = said - pl.when(is_message).then(1.0).otherwise(0.5)
    silent = rows.filter(is_silent).with_columns(pl.lit(None, pl.Float64).alias("place"))
    before, after = _neighbours(ordered, silent.height)
    told = pl.concat([ordered.with_columns(place.alias("place")), silent])
    return Positions(stamp, fragments, told, ordered.height, before, after)


def _neighbours(ordered: pl.DataFrame, more: int) -> tuple[Numbers, Numbers]:
    """Return the numbers of the messages before and after each of the ordered rows, and -1 for so many more."""
    count = ordered.height
    number = np.arange(count, dtype=np.int32)
    is_message = (ordered.get_column("kind") != Kind.TOOL.value).to_numpy()
    lengths = ordered.get_column("session_id").rle().struct.field("len").to_numpy()
    ends = np.cumsum(lengths)  # of the sessions
    start, end = np.repeat(ends - lengths, lengths), np.repeat(ends, lengths)
    before = np.full(count + more, -1, dtype=np.int32)
    after = before.copy()
    last = np.maximum.accumulate(np.where(is_message, number, -1))[:-1]
    before[1:count] = np.where(last >= start[1:], last, -1)
    next_ = np.minimum.accumulate(np.where(is_message, number, count)[::-1])[::-1][1:]
    after[: max(0, count - 1)] = np.where(next_ < end[:-1], next_, -1)
    return before, after


def _beginnings(ids: pl.Series) -> npt.NDArray[np.uint64]:
    return ids.str.slice(0, limits.SHORT_ID_CHARS).hash().to_numpy()


def _sorted(keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], Numbers]:
    order = np.argsort(keys, kind="stable").astype(np.int32)  # the numbers of rows rise in long runs
    return keys[order], order


def _found(wanted: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64], numbers: Numbers) -> Numbers:
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int32)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: Numbers = np.where(keys[at] == wanted, numbers[at], np.int32(-1)).astype(np.int32)
    return found
