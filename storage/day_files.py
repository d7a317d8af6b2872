"""Days of a table as Parquet files, for analysis: `archive/gen-N/<table>/date=YYYY-MM-DD/part-0.parquet`.

Derived from the table and written again when rows of a closed day change; each file appears whole, by rename.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from headwater.schemas import limits
from headwater.schemas.clock import iso
from headwater.schemas.errors import StoreError
from headwater.storage.faults import fault_point
from headwater.storage.publish import sync_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headwater.schemas.columns import TableDef
    from headwater.storage.home import Home
    from headwater.storage.tables import LanceTable

FILE = "part-0.parquet"
_DIGEST = b"headwater:digest"


@dataclass(frozen=True, slots=True)
class Export:
    """A table whose days are exported.

    `time` is the column that says on which day a row happened; rows are ordered by it and `order`. `tells` are columns
    of which one differs whenever a row was changed.
    """

    definition: TableDef
    time: str
    order: tuple[str, ...]
    tells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Day:
    """One closed day of a table: how many rows, and what stands for their content."""

    on: date
    rows: int
    digest: str


def folder_of(home: Home, export: Export) -> Path:
    """Return where the days of a table are, for the generation of the home."""
    return home.archive / home.lance.name / export.definition.name


def is_closed(day: date, now: datetime) -> bool:
    """Return whether a day (UTC) has been over for long enough."""
    end = datetime.combine(day, time(), UTC) + timedelta(days=1)
    return now >= end + timedelta(seconds=limits.DAY_CLOSED_S)


def days_to_write(table: LanceTable, export: Export, folder: Path, now: datetime) -> list[Day]:
    """Return the closed days whose file is missing or of other rows, in order. Raises StoreError, DamagedError."""
    key = export.definition.key
    frame = table.scan(list(dict.fromkeys([key, export.time, *export.tells])))
    if frame.is_empty():
        return []
    days = frame.with_columns(pl.col(export.time).dt.date().alias("_on")).sort(key)
    found = []
    for (on,), rows in days.group_by(["_on"], maintain_order=True):
        if isinstance(on, date) and is_closed(on, now):
            digest = _digest(rows, [key, *export.tells])
            if _written(_file(folder, on)) != digest:
                found.append(Day(on, rows.height, digest))
    return sorted(found, key=lambda day: day.on)


def write_day(table: LanceTable, export: Export, folder: Path, day: Day) -> Path:
    """Write the file of a day, in place of an older one. Durable on return; idempotent. Raises StoreError."""
    import pyarrow.parquet as pq

    start = datetime.combine(day.on, time(), UTC)
    where = f"{export.time} >= {_literal(start)} AND {export.time} < {_literal(start + timedelta(days=1))}"
    key = export.definition.key
    order = [export.time, *export.order, key]
    ids = table.scan(list(dict.fromkeys(order)), where).sort(order)[key]
    path = _file(folder, day.on)
    temporary = path.with_name(f".{FILE}.tmp")
    schema = export.definition.arrow().with_metadata({_DIGEST: day.digest.encode()})
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with temporary.open("wb") as out:
            with pq.ParquetWriter(out, schema, compression="zstd") as writer:
                for at in range(0, len(ids), limits.DAY_ROWS):
                    part = ids.slice(at, limits.DAY_ROWS)
                    rows = table.by_ids(part.to_list(), id_column=key)
                    ordered = pl.DataFrame({key: part}).join(rows, on=key, how="inner", maintain_order="left")
                    writer.write_table(ordered.select(schema.names).to_arrow().cast(schema))
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            str(path), f"cannot be written: {error}", "free disk space and check permissions"
        ) from error
    fault_point("archive.exported")
    return path


def scan_days(
    home: Home, definition: TableDef, since: datetime | None, until: datetime | None
) -> pl.LazyFrame | None:
    """Return the days of a table in the archive that a stretch of time touches, None when there are none.

    Only what is asked of the frame is read: columns, and groups of rows by the bounds of their times. Rows are those of
    whole days. Raises nothing by itself; a file that cannot be read is left out, for the table has its rows as well.
    """
    import pyarrow.parquet as pq

    wanted = {column.name for column in definition.columns}
    found = []
    for path in sorted((home.archive / home.lance.name / definition.name).glob(f"date=*/{FILE}")):
        try:
            start = datetime.combine(date.fromisoformat(path.parent.name.removeprefix("date=")), time(), UTC)
            is_outside = (since is not None and start + timedelta(days=1) <= since) or (
                until is not None and start >= until
            )
            if not is_outside and wanted.issubset(pq.read_schema(path).names):
                found.append(path)
        except (OSError, ValueError, pa.ArrowException):
            continue  # derived: the next archive run makes it again
    return pl.scan_parquet(found, hive_partitioning=False) if found else None


def _file(folder: Path, on: date) -> Path:
    return folder / f"date={on.isoformat()}" / FILE


def _digest(rows: pl.DataFrame, columns: Sequence[str]) -> str:
    """Return what stands for rows that are sorted by key."""
    return hashlib.sha256(rows.select(columns).write_json().encode()).hexdigest()[:16]


def _written(path: Path) -> str | None:
    """Return the digest of the rows a file was written for; None when it has to be written."""
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None  # missing, or no Parquet: derived, so it is simply made again
    return bytes(metadata.get(_DIGEST, b"")).decode("ascii", "replace")


def _literal(at: datetime) -> str:
    return f"timestamp '{iso(at)}'"
