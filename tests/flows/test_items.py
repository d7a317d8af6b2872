from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from embed_bench import NOW, Bench

from headwater.flows.event_writer import vector_requests
from headwater.flows.items import SOURCES, Item, Items
from headwater.flows.missing import enqueue_missing, missing_vectors, orphaned_vectors
from headwater.flows.reconcile import reconcile
from headwater.flows.task_titles import task_titles
from headwater.schemas.columns import EVENTS, TableDef, events_to_arrow
from headwater.schemas.events import Event, ItemKind, Kind, ToolCall
from headwater.schemas.ids import content_hash
from headwater.schemas.jobs import JobCounts
from headwater.schemas.memory_columns import MEMORIES, SESSIONS
from headwater.storage.tables import LanceStore


def todo(*contents: str) -> list[dict[str, str]]:
    """Return a list of tasks as the agent writes it."""
    return [{"content": one, "status": "pending", "activeForm": one} for one in contents]


def todo_text(new: list[dict[str, str]], old: list[dict[str, str]] | None = None) -> str:
    """Return the text of a TodoWrite call, with its answer when there is one."""
    answer = "" if old is None else "\n" + json.dumps({"oldTodos": old, "newTodos": new})
    return f"TodoWrite {json.dumps({'todos': new})}{answer}"


def event(n: int, content: str, tool: str | None = None) -> Event:
    """Return a tool call with that text, or a prompt."""
    return Event(
        id=f"evt_{n}",
        agent="a",
        session_id="s",
        project="p",
        at=NOW + timedelta(seconds=n),
        kind=Kind.TOOL if tool else Kind.PROMPT,
        content=content,
        content_hash=content_hash(content),
        tool=ToolCall(tool) if tool else None,
    )


def row_of(definition: TableDef, **values: Any) -> pa.Table:
    """Return one row of a table; what is not named gets the least there is."""
    least: dict[Any, Any] = {pa.string(): "x", pa.int64(): 0, pa.float64(): 0.0}
    row = {
        column.name: None if column.nullable else least.get(column.dtype, NOW)
        for column in definition.columns
    }
    return pa.Table.from_pylist([row | values], schema=definition.arrow())


class TestTaskTitles:
    """Titles in the text of a tool call."""

    def test_a_first_list(self) -> None:
        """Each task of a list is an item, by its place; blank ones are none."""
        found = task_titles("evt_1", "TodoWrite", todo_text(todo("write it", " ", "test it")))
        assert found == {"evt_1~0": "write it", "evt_1~2": "test it"}

    def test_a_list_written_again(self) -> None:
        """Only what the list did not hold before is new."""
        text = todo_text(todo("write it", "test it", "ship it"), todo("write it", "test it"))
        assert task_titles("evt_2", "TodoWrite", text) == {"evt_2~2": "ship it"}

    def test_a_title_twice_in_one_list(self) -> None:
        """It is one item."""
        assert task_titles("e", "TodoWrite", todo_text(todo("same", "same"))) == {"e~0": "same"}

    def test_a_created_task(self) -> None:
        """Its subject is its title, whatever was answered."""
        text = 'TaskCreate {"subject": "결제 재시도", "description": "long"}\nTask #1 created'
        assert task_titles("e", "TaskCreate", text) == {"e~0": "결제 재시도"}

    @pytest.mark.parametrize(
        ("tool", "text"),
        [
            ("Bash", "$ ls"),
            (None, "TodoWrite {}"),
            ("TodoWrite", "TodoWrite"),
            ("TodoWrite", 'TodoWrite {"todos": [{"content": "cut of'),
            ("TodoWrite", 'TodoWrite {"todos": "none"}'),
            ("TodoWrite", 'TodoWrite {"todos": [1, {"content": 2}, {}]}'),
            ("TaskCreate", "TaskCreate [1]"),
            ("TaskCreate", 'TaskCreate {"subject": ["x"]}'),
        ],
    )
    def test_anything_else_has_none(self, tool: str | None, text: str) -> None:
        """Other tools, clipped texts and other shapes give no titles, and do not raise."""
        assert task_titles("e", tool, text) == {}


def test_every_kind_has_a_source(tmp_path: Path) -> None:
    """Each kind of item says where it is; over an empty home all of them are empty."""
    bench = Bench(tmp_path / "h")
    assert set(SOURCES) == set(ItemKind)
    items = Items(bench.home)
    for kind in ItemKind:
        assert items.get(kind, ["x"]) == {}
        assert items.get(kind, []) == {}
        assert items.wanted(kind).is_empty()
        assert not items.is_there(kind)
    bench.outbox.close()


def test_titles_are_asked_for_embedded_and_compared(tmp_path: Path) -> None:
    """A list of tasks gives jobs, vectors of each title, and, when its event goes, orphans that reconcile removes."""
    bench = Bench(tmp_path / "h")
    first = event(1, todo_text(todo("write the parser", "test it"), []), "TodoWrite")
    second = event(2, todo_text(todo("write the parser", "ship"), todo("write the parser")), "TodoWrite")
    table = LanceStore(bench.home.lance).open(EVENTS)
    table.add(events_to_arrow([first, second, event(3, "ls"), event(4, "TodoWrite {}", "Bash")]))
    requests = vector_requests([first, second], bench.encoder.version)
    assert [(one.item_kind, one.item_id) for one in requests] == [
        ("entry", "evt_1"),
        ("task_title", "evt_1~0"),
        ("task_title", "evt_1~1"),
        ("entry", "evt_2"),
        ("task_title", "evt_2~1"),
    ]
    missing = missing_vectors(bench.home, bench.encoder.version)
    assert missing.get_column("item_id").to_list() == [
        "evt_4", "evt_3", "evt_2", "evt_2~1", "evt_1", "evt_1~0", "evt_1~1",
    ]  # fmt: skip
    bench.outbox.enqueue_batch(requests)
    assert enqueue_missing(bench.home, bench.outbox, bench.encoder.version) == 2
    assert bench.run().succeeded == 7
    assert bench.outbox.counts() == JobCounts(done=7)
    found = bench.vectors.nearest(
        bench.encoder.version, bench.encoder.encode_query("write the parser"), "kind = 'tool'", 1
    )
    assert found.select("item_kind", "item_id", "content").row(0) == (
        "task_title",
        "evt_1~0",
        "write the parser",
    )
    assert missing_vectors(bench.home, bench.encoder.version).is_empty()
    table.delete("id = 'evt_1'")
    assert sorted(orphaned_vectors(bench.home, bench.encoder.version).rows()) == [
        ("entry", "evt_1"),
        ("task_title", "evt_1~0"),
        ("task_title", "evt_1~1"),
    ]
    assert reconcile(bench.home, bench.outbox, bench.encoder.version).deleted == 3
    assert bench.vectors.count_items(bench.encoder.version) == 4
    bench.outbox.close()


def test_memories_and_sessions_are_items(tmp_path: Path) -> None:
    """Their summaries are embedded from their tables, as insights of their project."""
    bench = Bench(tmp_path / "h")
    store = LanceStore(bench.home.lance)
    summary = "the webhook is retried five times"
    common = {"summary": summary, "content_hash": content_hash(summary), "project": "p", "last_at": NOW}
    store.open(MEMORIES).add(row_of(MEMORIES, memory_id="mem_1", **common))
    store.open(SESSIONS).add(row_of(SESSIONS, id="ses_1", session_id="s9", agent="codex", **common))
    items = Items(bench.home)
    plain = Item("mem_1", summary, content_hash(summary), "p", NOW, "insight")
    assert items.get(ItemKind.MEMORY, ["mem_1", "mem_2"]) == {"mem_1": plain}
    assert items.get(ItemKind.SESSION_SUMMARY, ["ses_1"]) == {
        "ses_1": Item("ses_1", summary, content_hash(summary), "p", NOW, "insight", "s9", "codex")
    }
    assert enqueue_missing(bench.home, bench.outbox, bench.encoder.version) == 2
    assert bench.run().succeeded == 2
    assert bench.vectors.count_items(bench.encoder.version, "memory") == 1
    assert bench.vectors.count_items(bench.encoder.version, "session_summary") == 1
    assert orphaned_vectors(bench.home, bench.encoder.version).is_empty()
    bench.outbox.close()
