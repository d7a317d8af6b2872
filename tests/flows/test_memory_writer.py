"""Rows of memory into their tables."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from project_events import AT

from headwater.flows.memory_writer import MemoryWriter, open_tables
from headwater.flows.moments import TableChange
from headwater.schemas import limits
from headwater.schemas.memory_columns import EVENT_THREADS
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore


@pytest.mark.parametrize("count", [limits.IDS_PER_FILTER // 10, limits.IDS_PER_FILTER + 100])
def test_rows_written_again_are_there_once_as_they_were_last(tmp_path: Path, count: int) -> None:
    """Few rows are looked up by their keys, many by the whole column: half of them new, half known, each once."""
    tables, _ = open_tables(LanceStore(tmp_path / "lance"))

    def change(start: int, thread: str) -> tuple[str, TableChange]:
        rows = tuple(
            {"event_id": f"e{n}", "project": "/p", "thread_id": thread, "at": AT + timedelta(seconds=n)}
            for n in range(start, start + count)
        )
        return "/p", TableChange(EVENT_THREADS.name, rows)

    with closing(VectorOutbox(tmp_path / "outbox.sqlite")) as outbox:
        writer = MemoryWriter(tables, outbox, None)
        writer.write([change(0, "first")])
        writer.write([change(count // 2, "second")])
        writer.write([change(count // 2, "second")])
    found = dict(tables[EVENT_THREADS.name].scan(["event_id", "thread_id"]).iter_rows())
    expected = {f"e{n}": "first" for n in range(count // 2)}
    assert found == expected | {f"e{n}": "second" for n in range(count // 2, count // 2 + count)}
    assert tables[EVENT_THREADS.name].count() == len(found)
