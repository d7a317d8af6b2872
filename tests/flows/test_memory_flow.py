"""Memory through the real flow: live, stopped, killed, late and as a whole, the tables hold the same."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from generation_rows import compare, memory_differences, memory_of
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_lines import append, live
from journal_lines import story as story_lines
from memory_check import check_memory, whole_memory

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.schemas import limits
from headwater.schemas.clock import SYSTEM, to_ns
from headwater.schemas.errors import HeadwaterError
from headwater.storage.control import ControlJournal
from headwater.storage.faults import POINTS, Plan, SimulatedCrash, planned
from headwater.storage.home import Home
from headwater.storage.run_files import read_ingest_state

LIMIT_S = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """An empty home."""
    return Home.open(tmp_path / "home")


def put(home: Home, line: dict[str, Any]) -> None:
    """Append a line of a story to its session's file; its folder is its project."""
    append(home.journal, line, project=line["payload"]["cwd"])


def ingest(home: Home, **options: Any) -> None:
    """Read all there is, and end."""
    run_ingest(home, IngestOptions(None, until_idle=True, **options))


class Live:
    """A flow that runs on until the block ends."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            run_ingest(self.home, IngestOptions(None, stop=self.stop))
        except BaseException as error:  # noqa: BLE001 - told when the block ends
            self.error = error

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop.set()
        self.thread.join(LIMIT_S)
        assert self.error is None
        assert not self.thread.is_alive()

    def until(self, done: Any) -> None:
        """Wait until something holds."""
        end_s = time.monotonic() + LIMIT_S
        while not done():
            assert time.monotonic() < end_s, "it did not come"
            time.sleep(0.05)

    def read_all(self) -> None:
        """Wait until the flow has read everything that is there."""
        sizes = {path.name: path.stat().st_size for path in self.home.journal.glob("*.jsonl")}
        sizes.pop("control.jsonl", None)
        self.until(lambda: read_ingest_state(self.home).get("cursors") == sizes)


@pytest.fixture
def story(place: Home) -> Home:
    """A home whose journal holds a story of several sessions, unread."""
    for line in story_lines():
        put(place, line)
    return place


def test_a_story_has_threads_memories_and_a_log(story: Home) -> None:
    """One run over a story of ten subjects: the tables hold what the events give, and everything is there."""
    ingest(story)
    stored = check_memory(story)
    assert 6 <= len(stored["threads"]) <= 16
    assert len(stored["memories"]) >= 15
    assert len(stored["continuity_log"]) >= 40
    assert len(stored["sessions"]) == 9
    assert len(stored["event_threads"]) > 200
    assert stored["reversals"]
    sources = [id_ for row in stored["memories"].values() for id_ in row["source_events"]]
    assert len(sources) == len(set(sources))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=5, deadline=None)
def test_live_stopped_and_killed_at_random_is_the_same_as_a_whole(seed: int) -> None:
    """The same journal in pieces, with stops and crashes between and in them, and through `reprocess`: equal rows."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        home = Home.open(Path(folder) / "home")
        lines = live()
        places = sorted(chance.sample(range(1, len(lines)), 3))
        for start, end in zip([0, *places], [*places, len(lines)], strict=True):
            for line in lines[start:end]:
                append(home.journal, line)
            if chance.random() < 0.6:
                plan = Plan(chance.choice(POINTS), chance.randint(1, 3), "crash")
                try:
                    with planned(plan):
                        ingest(home)
                except (SimulatedCrash, HeadwaterError):
                    assert plan.fired
            else:
                ingest(home)
        ingest(home)
        check_memory(home, f"seed {seed}")
        reprocess(home, ReprocessOptions())
        assert compare(home, "gen-1", "gen-2") == []


def test_a_late_import_makes_only_its_project_dirty(place: Home) -> None:
    """An older session of one project, read by the running flow: that project is derived anew, the other is not."""
    lines = story_lines()
    sessions = list(dict.fromkeys(line["payload"]["session_id"] for line in lines))
    late, others = sessions[1], set(sessions) - {sessions[1]}
    other_project = [_moved(line) for line in lines]
    for line in [*(one for one in lines if one["payload"]["session_id"] in others), *other_project]:
        put(place, line)
    ingest(place)
    before = memory_of(place)
    built: list[str] = []
    for line in lines:
        if line["payload"]["session_id"] == late:
            put(place, line)
    ingest(place, update=built.append)
    assert built == [lines[0]["payload"]["cwd"]]
    stored = check_memory(place)
    moved = {k for k, row in before["memories"].items() if row["project"] == "/moved"}
    assert {k: stored["memories"][k] for k in moved} == {k: before["memories"][k] for k in moved}
    reprocess(place, ReprocessOptions())
    assert compare(place, "gen-1", "gen-2") == []
    assert memory_differences(before, stored) != []


def _moved(line: dict[str, Any]) -> dict[str, Any]:
    """Return the same line as one of another project and session."""
    payload = dict(line["payload"], cwd="/moved")
    payload["session_id"] = "m-" + payload["session_id"]
    return {**line, "payload": payload}


def test_the_running_flow_rebuilds_a_dirty_project_in_the_background(story: Home) -> None:
    """Lines that come out of order while the flow runs: after a moment the tables are those of the whole."""
    held = story.journal / min(path.name for path in story.journal.glob("*.jsonl"))
    away = held.with_suffix(".away")
    held.rename(away)
    ingest(story)
    with Live(story) as flow:
        flow.read_all()
        away.rename(held)
        flow.read_all()
        flow.until(lambda: memory_differences(memory_of(story), whole_memory(story)) == [])
    check_memory(story)


def test_a_person_asks_for_consolidation(place: Home) -> None:
    """A line of the control journal closes the open windows, live and when all is derived anew."""
    now_ns = to_ns(SYSTEM.now() - timedelta(seconds=300))
    for n, line in enumerate(story_lines()[:12]):
        put(place, {**line, "received_at_ns": now_ns + n * 1_000_000_000})
    project = story_lines()[0]["payload"]["cwd"]
    with Live(place) as flow:
        flow.read_all()
        time.sleep(limits.REORDER_S)
        assert memory_of(place)["memories"] == {}
        ControlJournal(place).append("consolidate", {"project": project})
        flow.until(lambda: memory_of(place)["memories"])
    stored = check_memory(place)
    assert {row["closed_by"] for row in stored["memories"].values()} == {"by_hand"}
    reprocess(place, ReprocessOptions())
    assert memory_of(place)["memories"] == stored["memories"]


def test_thirty_stops_give_one_session_summary(place: Home) -> None:
    """A Stop comes with every answer; the session has one row, told when it falls silent."""
    start_ns = to_ns(SYSTEM.now() - timedelta(days=2))
    for n in range(30):
        for k, fields in enumerate(
            (
                {"hook_event_name": "UserPromptSubmit", "prompt": f"tile cache: change the limit to {n} MiB"},
                {"hook_event_name": "Stop", "last_assistant_message": f"the tile cache limit is {n} MiB now"},
            )
        ):
            payload = {"session_id": "s1", "cwd": "/p", "prompt_id": f"p{n}", **fields}
            put(place, {"received_at_ns": start_ns + (60 * n + 20 * k) * 10**9, "payload": payload})
        if n % 10 == 9:
            ingest(place)
    stored = check_memory(place)
    (row,) = stored["sessions"].values()
    assert (row["prompts"], row["ended_by"]) == (30, "idle")
    assert "29 MiB" in row["summary"]


@pytest.mark.parametrize("lost", ["memories", "working_set", "event_threads"])
def test_a_lost_table_of_memory_is_made_again(story: Home, lost: str) -> None:
    """Somebody deletes a table: the next run derives everything of it anew."""
    ingest(story)
    before = memory_of(story)
    shutil.rmtree(story.lance / f"{lost}.lance")
    ingest(story)
    assert memory_differences(memory_of(story), before) == []


def test_what_is_told_is_json_ready(story: Home) -> None:
    """Rows hold nothing that JSON cannot say but times."""
    ingest(story)
    for rows in memory_of(story).values():
        json.dumps(list(rows.values()), default=str)
