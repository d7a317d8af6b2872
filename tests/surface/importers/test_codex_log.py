from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from import_bench import bring_in, kinds, rows
from transcript_lines import at, write

from headwater.storage.home import Home

THREAD, PARENT = "01a22a69-0000-7000-8000-000000000001", "01a22a69-0000-7000-8000-000000000002"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home with the test embedder."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    return Home.open(tmp_path / "home")


def line(kind: str, second: float, **payload: Any) -> dict[str, Any]:
    """Return a rollout line."""
    return {"timestamp": at(second), "type": kind, "payload": payload}


def meta(**fields: Any) -> dict[str, Any]:
    """Return the first line of a rollout."""
    return line(
        "session_meta", 0, **({"id": THREAD, "timestamp": at(0), "cwd": "/p", "cli_version": "1"} | fields)
    )


def prompt(second: float, words: str) -> dict[str, Any]:
    """Return what a person said, as older versions write it."""
    return line("event_msg", second, type="user_message", message=words, images=[])


def message(second: float, role: str, words: str) -> dict[str, Any]:
    """Return a message as the model saw it."""
    return line(
        "response_item", second, type="message", role=role, content=[{"type": "output_text", "text": words}]
    )


def turn(second: float, turn_id: str) -> dict[str, Any]:
    """Return the start of a turn."""
    return line("event_msg", second, type="task_started", turn_id=turn_id)


def call(second: float, call_id: str, name: str, asked: Any) -> dict[str, Any]:
    """Return a call of a function."""
    return line(
        "response_item", second, type="function_call", name=name, call_id=call_id, arguments=json.dumps(asked)
    )


def output(second: float, call_id: str, text: Any) -> dict[str, Any]:
    """Return what a call gave."""
    return line("response_item", second, type="function_call_output", call_id=call_id, output=text)


def rollout(folder: Path, *lines: Any) -> Path:
    """Write a rollout."""
    return write(folder / f"rollout-2026-03-01T12-00-00-{THREAD}.jsonl", *lines)


def test_each_thing_is_told_once(place: Home, tmp_path: Path) -> None:
    """Of the two tellings of a prompt and an answer one counts; the rest is skipped with its reason."""
    path = rollout(
        tmp_path,
        meta(),
        message(1, "developer", "be good"),
        message(1, "user", "<environment_context>"),
        turn(1, "t1"),
        message(2, "user", "say hi"),
        prompt(2, "say hi"),
        line(
            "event_msg",
            2,
            type="item_completed",
            item={"type": "UserMessage", "content": [{"text": "say hi"}]},
        ),
        line("event_msg", 3, type="agent_message", message="hi"),
        message(3, "assistant", "hi"),
        line("event_msg", 4, type="task_complete", turn_id="t1", last_agent_message="hi"),
    )
    report = bring_in(place, path)
    found = rows(place)
    assert found["content"].to_list() == ["", "say hi", "hi"]
    assert found["turn_id"].to_list() == [None, "t1", "t1"]
    assert found["parent_id"][2] == found["id"][1]
    assert (report["lines"], report["noise"]) == (10, 7)


def test_two_prompts_of_one_turn_are_two(place: Home, tmp_path: Path) -> None:
    """What is said while a turn runs is a prompt of its own."""
    bring_in(place, rollout(tmp_path, meta(), turn(1, "t1"), prompt(2, "go"), prompt(9, "faster")))
    assert rows(place).filter(pl.col("kind") == "prompt")["content"].to_list() == ["go", "faster"]


HEAD = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
OLD_OUTPUT = json.dumps({"output": "a", "metadata": {"exit_code": 1}})


@pytest.mark.parametrize(
    ("asked", "told", "ended"),
    [
        (("exec_command", {"cmd": "ls"}), HEAD + "a.txt\n", ("$ ls\na.txt\n", True)),
        (
            ("shell_command", {"command": "ls x"}),
            "Exit code: 2\nOutput:\nno x",
            ("$ ls x\nno x\nerror: Exit code 2", False),
        ),
        (("shell", {"command": ["bash", "-lc", "ls"]}), OLD_OUTPUT, ("$ ls\na\nerror: Exit code 1", False)),
        (("shell", {"command": ["git", "log"]}), "text\nOutput", ("$ git log\ntext\nOutput", None)),
        (("update_plan", {"plan": []}), "updated", ('update_plan {"plan": []}\nupdated', None)),
    ],
)
def test_call_and_output_are_one_event(
    place: Home, tmp_path: Path, asked: tuple[str, Any], told: str, ended: tuple[str, bool | None]
) -> None:
    """A shell is called as the hooks call it; the exit code tells how it ended."""
    bring_in(place, rollout(tmp_path, meta(), turn(1, "t1"), call(2, "c1", *asked), output(3, "c1", told)))
    tool = rows(place).filter(pl.col("kind") == "tool").to_dicts()[0]
    assert (tool["content"], tool["tool"]["ok"]) == ended
    assert tool["tool"]["name"] == ("Bash" if ended[0].startswith("$") else asked[0])


def test_patch_names_its_files(place: Home, tmp_path: Path) -> None:
    """Files of a patch are relative to the project."""
    patch = "*** Begin Patch\n*** Add File: /p/new.py\n+x\n*** Update File: src/old.py\n*** Delete File: gone.py\n"
    asked = line("response_item", 2, type="custom_tool_call", name="apply_patch", call_id="c1", input=patch)
    gave = line(
        "response_item", 3, type="custom_tool_call_output", call_id="c1", output='{"output":"Success"}'
    )
    bring_in(place, rollout(tmp_path, meta(), asked, gave))
    tool = rows(place).filter(pl.col("kind") == "tool").to_dicts()[0]
    assert [(ref["path"], ref["op"]) for ref in tool["files"]] == [
        ("new.py", "write"),
        ("src/old.py", "edit"),
        ("gone.py", "delete"),
    ]


def test_fork_names_its_parent(place: Home, tmp_path: Path) -> None:
    """A thread that was forked, by its own word or by the head of its parent that it holds, goes on from it."""
    for n, first in enumerate(([meta(parent_thread_id=PARENT)], [meta(), meta(id=PARENT)])):
        home = Home.open(tmp_path / f"home{n}")
        bring_in(home, rollout(tmp_path / str(n), *first, turn(1, "t1"), prompt(2, "go")))
        assert rows(home)["prev_session_id"].to_list() == [PARENT, None]
        assert set(rows(home)["session_id"]) == {THREAD}


def test_compaction_and_search_are_events(place: Home, tmp_path: Path) -> None:
    """A compaction keeps its message, not the history that it repeats; a search of the web has no result."""
    compacted = line(
        "compacted", 5, message="we moved the map", replacement_history=[{"content": "x" * 1000}]
    )
    search = line("response_item", 6, type="web_search_call", status="completed", action={"query": "maps"})
    path = rollout(tmp_path, meta(), turn(1, "t1"), prompt(2, "go"), compacted, search)
    bring_in(place, path)
    found = rows(place)
    assert kinds(found) == {"session_start": 1, "prompt": 1, "compact": 1, "tool": 1}
    assert found.filter(pl.col("kind") == "compact")["content"].to_list() == ["we moved the map"]
    assert "xxxx" not in "".join(file.read_text() for file in place.journal.iterdir())


def test_odd_lines_are_accounted_for(place: Home, tmp_path: Path) -> None:
    """Unknown types, missing payloads and rubbish have a fate each; our own tools leave nothing."""
    path = rollout(
        tmp_path,
        meta(),
        {"timestamp": at(1), "type": "event_msg"},
        line("brand_new", 1),
        line("response_item", 2, type="brand_new"),
        call(3, "c1", "mcp__headwater__search", {"query": "x"}),
        output(4, "c1", "memory"),
        "rubbish",
    )
    report = bring_in(place, path)
    assert (report["lines"], report["events"], report["quarantined"]) == (7, 1, 1), report
    assert report["skipped"]["a call of our own tools"] == 2
