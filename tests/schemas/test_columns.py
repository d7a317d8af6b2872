from __future__ import annotations

import dataclasses
import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.columns import (
    EVENTS,
    TableDef,
    event_from_row,
    event_to_row,
    events_to_arrow,
    vectors_def,
)
from headwater.schemas.events import Event, FileOp, FileRef, Kind, Part, ToolCall

ROOT = Path(__file__).resolve().parents[2]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # hypothesis adds the zone
MAYBE = st.none() | TEXT
INT64 = st.integers(0, 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
TOOLS = st.builds(
    ToolCall,
    name=TEXT,
    use_id=MAYBE,
    ok=st.none() | st.booleans(),
    error=MAYBE,
    duration_ms=st.none() | INT64,
)
EVENTS_OF_ALL_KINDS = st.builds(
    Event,
    id=TEXT,
    agent=TEXT,
    session_id=TEXT,
    project=TEXT,
    at=st.datetimes(EARLIEST, timezones=st.just(UTC)),
    kind=st.sampled_from(Kind),
    content=TEXT,
    host=TEXT,
    prev_session_id=MAYBE,
    turn_id=MAYBE,
    agent_id=MAYBE,
    cwd=MAYBE,
    at_source=st.sampled_from(["hook", "transcript", "received", "synthetic"]),
    seq=INT64,
    role=MAYBE,
    content_length=INT64,
    content_hash=TEXT,
    tool=st.none() | TOOLS,
    files=st.lists(st.builds(FileRef, TEXT, st.sampled_from(FileOp)), max_size=3).map(tuple),
    entities=st.lists(TEXT, max_size=3).map(tuple),
    topics=st.lists(TEXT, max_size=3).map(tuple),
    parent_id=MAYBE,
    parts=st.integers(0, 15).map(Part),
    meta=st.dictionaries(TEXT, JSON, max_size=3),
)


@given(EVENTS_OF_ALL_KINDS)
def test_an_event_survives_its_row(event: Event) -> None:
    """A row gives back the very event it was made of."""
    assert event_from_row(event_to_row(event)) == event


@given(st.lists(EVENTS_OF_ALL_KINDS, max_size=5))
def test_events_survive_arrow(events: list[Event]) -> None:
    """Through an Arrow table, in order, nothing is lost, whatever the texts hold."""
    table = events_to_arrow(events)
    assert table.schema == EVENTS.arrow()
    assert [event_from_row(row) for row in table.to_pylist()] == events


def test_every_field_of_an_event_has_a_column() -> None:
    """No field is forgotten in the table; `code` and `cjk` are derived from the content."""
    fields = {field.name for field in dataclasses.fields(Event)}
    assert {column.name for column in EVENTS.columns} == fields | {"code", "cjk"}


def test_text_columns_are_filled_from_the_content() -> None:
    """Identifiers and CJK of a text stand in their own columns."""
    row = event_to_row(
        Event("e", "a", "s", "p", datetime(2026, 1, 1, tzinfo=UTC), Kind.NOTE, "src/a.py의 fooBar 검색")
    )
    assert (row["code"], row["cjk"]) == ("src/a.py fooBar", "의 검색")


def test_a_struct_of_nulls_is_no_tool() -> None:
    """A store that gives back a struct of nulls for a null struct means the same."""
    event = Event("e", "a", "s", "p", datetime(2026, 1, 1, tzinfo=UTC), Kind.NOTE)
    row = event_to_row(event) | {
        "tool": dict.fromkeys(("name", "use_id", "ok", "error", "duration_ms")),
        "host": None,
        "content_length": None,
        "content_hash": None,
        "files": None,
        "entities": None,
        "topics": None,
        "parts": int(event.parts),
    }
    assert event_from_row(row) == event


def test_odd_text_in_meta_is_stored() -> None:
    """Half of a surrogate pair in what else came along does not stop a batch."""
    event = Event(
        "e", "a", "s", "p", datetime(2026, 1, 1, tzinfo=UTC), Kind.NOTE, meta={"model": "\ud83d", "n": "\x00"}
    )
    (row,) = events_to_arrow([event]).to_pylist()
    assert event_from_row(row).meta == {"model": "\ufffd", "n": "\x00"}


@pytest.mark.parametrize("definition", [EVENTS, vectors_def(384)], ids=lambda definition: definition.name)
def test_definitions_hold_together(definition: TableDef) -> None:
    """Key first and never null, names once, indexed columns exist and have a fitting type."""
    types: dict[str, Any] = {column.name: column.dtype for column in definition.columns}
    assert len(types) == len(definition.columns)
    assert definition.columns[0].name == definition.key
    assert not definition.columns[0].nullable
    assert all(column.meaning for column in definition.columns)
    assert {kind for _, kind in definition.scalar} <= {"BTREE", "BITMAP"}
    for name, _ in (*definition.scalar, *definition.text):
        assert pa.types.is_string(types[name])


def test_vectors_have_their_dimension() -> None:
    """A vector column holds exactly as many numbers as its embedding version says."""
    assert vectors_def(7).arrow().field("vector").type == pa.list_(pa.float32(), 7)


def test_the_tables_page_is_up_to_date() -> None:
    """docs/tables.md is what `scripts/gen_tables.py` makes of the definitions."""
    made = runpy.run_path(str(ROOT / "scripts" / "gen_tables.py"))["tables_page"]()
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == made
