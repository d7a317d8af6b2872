"""Events for other programs: JSON lines or Parquet, oldest first, as of the moment the export began."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from headwater.schemas import limits
from headwater.schemas.clock import iso
from headwater.schemas.columns import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from headwater.storage.tables import LanceTable

_ORDER = ("at", "agent", "session_id", "seq", "id")
_SEARCH_ONLY = ("code", "cjk")  # parts of `content`, kept for its indexes
COLUMNS = tuple(column for column in EVENTS.columns if column.name not in _SEARCH_ONLY)
"""What is exported, in this order."""

SCHEMA = pa.schema([pa.field(column.name, column.dtype, nullable=column.nullable) for column in COLUMNS])
"""The same for Arrow and Parquet."""


def write_events(
    table: LanceTable,
    where: str | None,
    file: BinaryIO,
    form: str,
    update: Callable[[int, int | None], None] = lambda _done, _total: None,
    *,
    renamed: Callable[[pl.DataFrame], pl.DataFrame] = lambda rows: rows,
) -> int:
    """Write the events of a filter and return how many. `update` is told how many are written, and of how many.

    `renamed` gives rows the names that their projects have now.

    `form` "jsonl": one object per line, `at` ISO 8601 in UTC with microseconds, `meta` an object. "parquet": one file
    of `SCHEMA`, zstd. Raises StoreError, DamagedError; OSError when the file cannot be written.
    """
    if form == "parquet":
        return _write_parquet(table, where, file, update, renamed)
    count = 0
    for frame, total in _batches(table, where):
        file.writelines(map(_line, renamed(frame).iter_rows(named=True)))
        count += frame.height
        update(count, total)
    return count


def _write_parquet(
    table: LanceTable,
    where: str | None,
    file: BinaryIO,
    update: Callable[[int, int | None], None],
    renamed: Callable[[pl.DataFrame], pl.DataFrame],
) -> int:
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for frame, total in _batches(table, where):
            writer.write_table(renamed(frame).to_arrow().cast(SCHEMA))
            count += frame.height
            update(count, total)
    return count


def _batches(table: LanceTable, where: str | None) -> Iterator[tuple[pl.DataFrame, int]]:
    """Yield the rows in order, few at a time, with how many there are in all; rows deleted meanwhile are left out."""
    ids = table.scan(list(_ORDER), where).sort(_ORDER).select("id")
    names = [column.name for column in COLUMNS]
    for start in range(0, ids.height, limits.EXPORT_ROWS):
        wanted = ids.slice(start, limits.EXPORT_ROWS)
        found = table.by_ids(wanted["id"].to_list(), names)
        yield wanted.join(found, on="id", how="inner", maintain_order="left").select(names), ids.height


def _line(row: dict[str, Any]) -> bytes:
    plain = row | {"at": iso(row["at"]), "meta": json.loads(row["meta"]) if row["meta"] else {}}
    # half a code point stays what it is in JSON: an escape
    return json.dumps(plain, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
