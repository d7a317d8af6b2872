"""Reads of a Lance table, straight from Lance: through lancedb they take three times as long, for it changes threads.

Each opens the newest version; what is open of indexes and manifests is shared by a session, so that this costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.schemas import limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

_NO_TEXT_INDEX = "unless an INVERTED index"


def new_session() -> Any:
    """Return what reads of one folder share, in bounds."""
    import lance

    library: Any = lance  # its types do not export it
    return library.Session(limits.INDEX_CACHE_BYTES, limits.METADATA_CACHE_BYTES)


def scan(
    folder: Path, session: Any, columns: Sequence[str], where: str | None, limit: int | None
) -> pa.Table:
    """Return rows in no particular order. Raises what Lance raises."""
    rows: pa.Table = (
        _newest(folder, session).scanner(columns=list(columns), filter=where, limit=limit).to_table()
    )
    return rows


def match(
    folder: Path,
    session: Any,
    text: str,
    column: str,
    *,
    where: str | None,
    limit: int,
    columns: Sequence[str],
) -> pa.Table | None:
    """Return the best rows by BM25 with `_score`, None while the column has no index. Raises what Lance raises."""
    from lance.query import MatchQuery

    try:
        scanner = _newest(folder, session).scanner(
            columns=[*columns, "_score"],
            full_text_query=MatchQuery(text, column),
            filter=where,
            prefilter=True,
            limit=limit,
        )
        rows: pa.Table = scanner.to_table()
    except (OSError, RuntimeError, ValueError) as error:
        if _NO_TEXT_INDEX in str(error):  # another process is about to make it
            return None
        raise
    return rows


def _newest(folder: Path, session: Any) -> Any:
    import lance

    return lance.dataset(str(folder), session=session)
