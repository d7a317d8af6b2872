"""What each thread is called, and which events it has."""

from __future__ import annotations

from datetime import timedelta

from project_events import AT, event, turn

from headwater.flows.project_memory import MemoryConfig, ProjectLogic
from headwater.schemas import limits
from headwater.schemas.events import Kind
from headwater.schemas.memory_columns import EVENT_THREADS, THREADS

WEBHOOK = "the webhook worker must retry each delivery five times with jitter and exponential backoff"
IMAGE = "docker image of the build is too large, alpine base with musl wheels instead of debian"


def test_a_thread_is_called_by_its_first_prompt() -> None:
    """Title, times, counts, topics and files of two subjects; a late event of a turn counts as well."""
    logic = ProjectLogic("/p", MemoryConfig())
    late = event("late", Kind.TOOL, "Edit b.py", at_s=400, turn="a", files=("b.py",))
    for one in [*turn("a", WEBHOOK, "retries are in"), *turn("b", IMAGE, "alpine it is", at_s=200), late]:
        logic.on_event(one)
    made = logic.rows()
    first, second = sorted(made[THREADS.name], key=lambda row: row["first_at"])
    assert first["title"] == WEBHOOK[: len(first["title"]) - 1] + "…" or first["title"] == WEBHOOK
    assert len(first["title"]) <= limits.THREAD_TITLE_CHARS < len(WEBHOOK)
    assert (first["turns"], first["events"]) == (1, 4)
    assert first["last_at"] == AT + timedelta(seconds=400)
    assert "webhook" in first["topics"]
    assert first["files"] == ["a.py"]
    assert (second["turns"], "alpine" in second["topics"]) == (1, True)
    threads = {row["event_id"]: row["thread_id"] for row in made[EVENT_THREADS.name]}
    assert threads["a-p"] == threads["a-t"] == threads["late"] == first["thread_id"]
    assert threads["b-p"] == second["thread_id"]


def test_rows_are_told_once_per_change() -> None:
    """What did not change since the last look is not written again; a thread that is over is."""
    logic = ProjectLogic("/p", MemoryConfig())
    for one in turn("a", WEBHOOK, "retries are in"):
        logic.on_event(one)
    assert len(logic.rows()[THREADS.name]) == 1
    assert logic.rows()[THREADS.name] == []
    for one in turn("b", WEBHOOK, "once more", at_s=300):
        logic.on_event(one)
    for one in turn("c", IMAGE, "alpine", at_s=40 * 86_400):
        logic.on_event(one)
    rows = logic.rows()[THREADS.name]
    assert sorted(row["turns"] for row in rows) == [1, 2]
    assert len(logic.threads.snapshot()["threads"]) == 1
