"""Reads of a Lance table, straight from Lance: through lancedb they take three times as long, for it changes threads.

Each view is of the newest version; what is open of indexes and manifests is shared by a session, so that a view costs
next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from headwater.schemas import limits

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from pathlib import Path

    import pyarrow as pa

_NO_TEXT_INDEX = "unless an INVERTED index"
_NPROBES = 20  # of an IVF index: recall 1.00 with the refinement below, at 100,000 rows and 100 partitions
_REFINE = 2  # candidates times this are compared with their full vectors: of 400 asked for, the best 200 are all right
_FRAGMENT_BITS = 32  # of a row's number: its fragment stands above them, its place in the fragment below


def new_session() -> Any:
    """Return what reads of one folder share, in bounds."""
    import lance

    library: Any = lance  # its types do not export it
    return library.Session(limits.INDEX_CACHE_BYTES, limits.METADATA_CACHE_BYTES)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a table: `files` change with its rows, `deleted` when some of them were deleted or replaced."""

    files: tuple[str, ...]
    deleted: str


class TableView:
    """One version of a table: all reads of a view see the same rows. Raises what Lance raises.

    In a view a row has a number, `_rowid` (UInt64). It is good for this view alone, and for another one as long as the
    row's fragment is the same there (`fragments`).
    """

    def __init__(self, folder: Path, session: Any) -> None:
        """Open the newest version."""
        import lance

        self._data: Any = lance.dataset(str(folder), session=session)
        self.stamp: Hashable = (folder.stat().st_ino, self._data.version)

    def scan(
        self,
        columns: Sequence[str],
        where: str | None,
        limit: int | None = None,
        *,
        numbered: bool = False,
        fragments: Sequence[int] | None = None,
    ) -> pl.DataFrame:
        """Return rows in no particular order, with their `_rowid` when `numbered`; of some fragments or of all."""
        parts = None
        if fragments is not None:
            wanted = frozenset(fragments)
            parts = [one for one in self._data.get_fragments() if one.fragment_id in wanted]
        scanner = self._data.scanner(
            columns=list(columns), filter=where, limit=limit, with_row_id=numbered, fragments=parts
        )
        return _frame(scanner.to_table())

    def match(
        self, text: str, column: str, where: str | None, limit: int, columns: Sequence[str]
    ) -> pl.DataFrame | None:
        """Return the best rows by BM25 with `_score`, best first, None while the column has no index."""
        from lance.query import MatchQuery

        try:
            scanner = self._data.scanner(
                columns=[*columns, "_score"],
                full_text_query=MatchQuery(text, column),
                filter=where,
                prefilter=True,
                limit=limit,
            )
            rows = scanner.to_table()
        except (OSError, RuntimeError, ValueError) as error:
            if _NO_TEXT_INDEX in str(error):  # another process is about to make it
                return None
            raise
        return _frame(rows).sort("_score", descending=True, maintain_order=True)

    def nearest(self, vector: Any, where: str | None, limit: int, columns: Sequence[str]) -> pl.DataFrame:
        """Return the rows whose `vector` is nearest by cosine, nearest first, with `_distance`."""
        query = {
            "column": "vector", "q": vector, "k": limit, "metric": "cosine", "nprobes": _NPROBES,
            "refine_factor": _REFINE,
        }  # fmt: skip
        scanner = self._data.scanner(
            columns=[*columns, "_distance"], nearest=query, filter=where, prefilter=True
        )
        return _frame(scanner.to_table()).sort("_distance", maintain_order=True)

    def take(self, numbers: pl.Series, columns: Sequence[str]) -> pl.DataFrame:
        """Return the rows with these numbers, in their order: without a look into an index, a third of the time."""
        return _frame(self._data._take_rows(numbers.to_list(), columns=list(columns)))  # noqa: SLF001

    def fragments(self) -> dict[int, Fragment]:
        """Return what the rows lie in, by its number."""
        return {
            one.fragment_id: Fragment(
                tuple(file.path for file in one.metadata.files), repr(one.metadata.deletion_file)
            )
            for one in self._data.get_fragments()
        }


def fragment_of(numbers: pl.Expr) -> pl.Expr:
    """Return the fragment that each numbered row lies in."""
    return numbers // (1 << _FRAGMENT_BITS)


def _frame(table: pa.Table) -> pl.DataFrame:
    return cast("pl.DataFrame", pl.from_arrow(table))
