from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from lance_rows import NOW, event, rows

from headwater.schemas import limits
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import Part
from headwater.storage.day_files import Export, days_to_write, folder_of, is_closed, write_day
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore, LanceTable

EXPORT = Export(EVENTS, "at", ("agent", "session_id", "seq"), ("parts", "content_hash"))
LATER = NOW + timedelta(days=10)
DAY = 86_400


@pytest.fixture
def table(tmp_path: Path) -> LanceTable:
    """An events table in the first generation of a home."""
    return LanceStore(Home.open(tmp_path).lance).open(EVENTS)


def export(table: LanceTable, folder: Path, now: datetime = LATER) -> list[date]:
    """Write what is to be written; return those days."""
    days = days_to_write(table, EXPORT, folder, now)
    for day in days:
        write_day(table, EXPORT, folder, day)
    return [day.on for day in days]


def test_a_day_is_closed_some_time_after_its_end() -> None:
    """A day is closed an hour after midnight UTC, not before."""
    end = datetime(2026, 1, 6, tzinfo=UTC)
    assert not is_closed(date(2026, 1, 5), end + timedelta(seconds=limits.DAY_CLOSED_S - 1))
    assert is_closed(date(2026, 1, 5), end + timedelta(seconds=limits.DAY_CLOSED_S))


def test_each_closed_day_gets_one_file_in_order(table: LanceTable, tmp_path: Path) -> None:
    """Rows stand in the file of their day in the order of time, with every column; an open day has none."""
    table.add(rows(DAY + 2, 5, DAY + 1, 3, 4 * DAY))
    assert export(table, tmp_path / "days", NOW + timedelta(days=4)) == [date(2026, 1, 5), date(2026, 1, 6)]
    files = sorted((tmp_path / "days").rglob("*"))
    assert [path.relative_to(tmp_path / "days").as_posix() for path in files] == [
        "date=2026-01-05",
        "date=2026-01-05/part-0.parquet",
        "date=2026-01-06",
        "date=2026-01-06/part-0.parquet",
    ]
    first = pq.read_table(files[3], partitioning=None)
    assert first.schema.equals(EVENTS.arrow())
    assert first["id"].to_pylist() == ["evt_086401", "evt_086402"]
    whole = pl.scan_parquet(tmp_path / "days", hive_partitioning=True).sort("id").drop("date").collect()
    names = [column.name for column in EVENTS.columns]
    assert whole.equals(table.scan(names, "id != 'evt_345600'").sort("id").select(whole.columns))


def test_only_days_that_changed_are_written_again(table: LanceTable, tmp_path: Path) -> None:
    """A second look finds nothing; a late event, or one that was merged, brings its day alone back."""
    table.add(rows(1, DAY + 1))
    assert len(export(table, tmp_path)) == 2
    assert export(table, tmp_path) == []
    table.add(rows(2))
    assert export(table, tmp_path) == [date(2026, 1, 5)]
    told_again = replace(event(DAY + 1, "plain words"), parts=Part.HOOK | Part.TRANSCRIPT)
    table.upsert(events_to_arrow([told_again]))
    assert export(table, tmp_path) == [date(2026, 1, 6)]
    assert export(table, tmp_path) == []


def test_same_rows_give_the_same_file(
    table: LanceTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file depends on the rows alone; a damaged one is made again."""
    monkeypatch.setattr(limits, "DAY_ROWS", 2)
    table.add(rows(*range(7)))
    export(table, tmp_path)
    (path,) = tmp_path.glob("date=*/*.parquet")
    before = path.read_bytes()
    path.write_bytes(b"rubbish")
    assert export(table, tmp_path) == [date(2026, 1, 5)]
    assert path.read_bytes() == before


def test_days_belong_to_a_generation(tmp_path: Path) -> None:
    """Each generation has days of its own, below the archive."""
    home = Home.open(tmp_path)
    assert folder_of(home.at("gen-3"), EXPORT) == home.archive / "gen-3" / "events"


def test_table_without_rows_has_no_days(table: LanceTable, tmp_path: Path) -> None:
    """Nothing is written for nothing, nor for a table that does not exist."""
    assert days_to_write(table, EXPORT, tmp_path, LATER) == []
    none = LanceStore(tmp_path / "none").open(EVENTS, create=False)
    assert days_to_write(none, EXPORT, tmp_path, LATER) == []
