from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest
from lance_rows import NOW, event

from headwater.schemas import limits
from headwater.schemas.columns import EVENTS, event_from_row, event_to_row, events_to_arrow
from headwater.schemas.events import Event, Kind, ToolCall
from headwater.storage.export import SCHEMA, write_events
from headwater.storage.tables import LanceStore, LanceTable


@pytest.fixture
def told(events: LanceTable, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Seven events in a table, written in another order than they happened, exported three at a time."""
    monkeypatch.setattr(limits, "EXPORT_ROWS", 3)
    made = [replace(event(n, f"text {n}"), meta={"n": n} if n % 2 else {}) for n in range(5)]
    made.append(
        replace(event(5, '줄\n바꿈 "따옴표"'), tool=ToolCall("Bash", "t1", ok=None), kind=Kind.TOOL, files=())
    )
    made.append(replace(made[5], id="evt_0", seq=7, host="", at=made[5].at, project="/other"))
    events.add(events_to_arrow(made[::-1]))
    return made


def test_jsonl_has_every_column(events: LanceTable, told: list[Event]) -> None:
    """One object per line, oldest first, times in ISO with their zone, texts as they are, nothing but columns."""
    file, steps = io.BytesIO(), list[tuple[int, int | None]]()
    count = write_events(events, None, file, "jsonl", lambda done, total: steps.append((done, total)))
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert count == len(lines) == 7
    assert steps == [(3, 7), (6, 7), (7, 7)]
    assert [line["id"] for line in lines] == [one.id for one in told]
    assert list(lines[0]) == [column.name for column in EVENTS.columns if column.name not in ("code", "cjk")]
    for line, one in zip(lines, told, strict=True):
        at = datetime.fromisoformat(line.pop("at"))
        assert at == one.at
        assert at.utcoffset() == timedelta(0)
        assert line == {key: value for key, value in event_to_row(one).items() if key in line} | {
            "meta": one.meta
        }


def test_parquet_has_every_column(events: LanceTable, told: list[Event]) -> None:
    """The same rows in the same order, with the types of the table; an event can be read back whole."""
    file = io.BytesIO()
    assert write_events(events, None, file, "parquet") == 7
    table = pq.read_table(file)
    assert table.schema == SCHEMA
    assert [event_from_row(row) for row in table.to_pylist()] == told


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_filter_and_nothing(events: LanceTable, told: list[Event], form: str) -> None:
    """Only what the filter lets through; nothing at all is a readable file as well."""
    since = (NOW + timedelta(seconds=5)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    file = io.BytesIO()
    assert write_events(events, f"at >= timestamp '{since}' AND project = '/other'", file, form) == 1
    for table in (events, LanceStore(events._store.folder / "none").open(EVENTS, create=False)):
        file = io.BytesIO()
        assert write_events(table, "project = 'none'", file, form) == 0
        assert form == "jsonl" or pq.read_table(file).schema == SCHEMA


def test_what_is_deleted_meanwhile_is_left_out(events: LanceTable, told: list[Event]) -> None:
    """Rows that go between two batches are not there; the others are."""
    file = io.BytesIO()
    count = write_events(
        events, None, file, "jsonl", lambda _done, _total: events.delete("id = 'evt_000004'")
    )
    assert count == 6
