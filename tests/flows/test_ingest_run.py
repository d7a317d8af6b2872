from __future__ import annotations

import gc
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from generation_rows import memory_differences, memory_of
from journal_lines import S, append, encode, envelope, live, payload, story

from headwater.flows.event_writer import EventWriter, Written
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.source import Wakes
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError, StoreError
from headwater.schemas.events import Draft
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.storage.outbox import VectorOutbox
from headwater.storage.run_files import read_ingest_state
from headwater.storage.tables import LanceStore

VERSION = "test-4-abc"
LIMIT_S = 60.0
SUMMARIES = 25  # of memories and sessions of the recorded set
LIVE_FATES = {"event": 108, "merged": 30, "duplicate": 1, "noise": 46}


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """An empty home."""
    return Home.open(tmp_path / "home")


@pytest.fixture
def recorded(place: Home) -> Home:
    """A home whose journal holds the recorded sessions."""
    for line in live():
        append(place.journal, line)
    return place


def run(home: Home) -> Wakes:
    """Run the flow until all is read."""
    return run_ingest(home, IngestOptions(embedding_version=VERSION, until_idle=True))


def fates(home: Home) -> dict[str, int]:
    """Return how many lines had each fate, but for those that none had."""
    known = KnownIds(home.ids_file)
    try:
        return {fate.value: n for fate, n in known.count_fates().items() if n}
    finally:
        known.close()


def settled(home: Home, lines: int) -> bool:
    """Whether so many lines have their fate."""
    return sum(fates(home).values()) == lines


def ids(home: Home) -> list[str]:
    """Return the ids of all events, sorted."""
    return sorted(LanceStore(home.lance).open(EVENTS, create=False).scan(["id"])["id"].to_list())


def rows(home: Home) -> list[dict[str, Any]]:
    """Return all events as rows, sorted by id."""
    names = [column.name for column in EVENTS.columns]
    return LanceStore(home.lance).open(EVENTS).scan(names).sort("id").to_dicts()


def until(done: Callable[[], bool]) -> None:
    """Wait until something holds; fail after the limit."""
    end_s = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.02)


class Running:
    """A flow in a thread, as `up` runs it, until it is stopped."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.stop = threading.Event()
        self.wakes: Wakes | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.wakes = run_ingest(self.home, IngestOptions(embedding_version=VERSION, stop=self.stop))
        except BaseException as error:  # noqa: BLE001 - told by `end`
            self.error = error

    def end(self) -> Wakes:
        """Stop it and return what woke it."""
        self.stop.set()
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error
        assert self.wakes is not None
        return self.wakes


@pytest.fixture
def running(place: Home) -> Iterator[Callable[[], Running]]:
    """Start flows that end with the test."""
    started: list[Running] = []

    def start() -> Running:
        started.append(Running(place))
        return started[-1]

    yield start
    for one in started:
        one.stop.set()
        one.thread.join(LIMIT_S)


def test_recorded_sessions_are_counted_right(recorded: Home) -> None:
    """Every recorded line has the fate of the golden table; every event is in the table, every text has a job."""
    run(recorded)
    assert fates(recorded) == LIVE_FATES
    assert len(ids(recorded)) == 108
    outbox = VectorOutbox(recorded.outbox_file)
    assert outbox.counts(VERSION).pending == 69 + SUMMARIES  # all but starts and ends of sessions
    outbox.close()


def test_invented_project_is_read_whole(place: Home) -> None:
    """Of a project's sessions each line is an event, or joined to one, or noise."""
    lines = story()
    for line in lines:
        append(place.journal, line)
    run(place)
    found = fates(place)
    assert sum(found.values()) == len(lines)
    assert found["event"] == len(ids(place))
    assert "quarantined" not in found
    assert "duplicate" not in found


def test_second_run_adds_nothing(recorded: Home) -> None:
    """Running again over the same journal reads nothing and changes nothing."""
    run(recorded)
    before = rows(recorded)
    run(recorded)
    assert rows(recorded) == before
    assert fates(recorded) == LIVE_FATES


@pytest.mark.parametrize(
    "lost", ["recovery", "ids.sqlite", "both", "outbox.sqlite", "empty snapshots", "bad snapshots"]
)
def test_what_is_disposable_can_be_lost(recorded: Home, lost: str) -> None:
    """Without snapshots, register or outbox, the journal gives the same rows and the same counts again."""
    run(recorded)
    before = rows(recorded)
    if lost in {"recovery", "both"}:
        shutil.rmtree(recorded.recovery)
    if lost in {"ids.sqlite", "both"}:
        for path in recorded.root.glob("ids.sqlite*"):
            path.unlink()
    if lost == "outbox.sqlite":
        for path in recorded.root.glob("outbox.sqlite*"):
            path.unlink()
    if lost.endswith("snapshots"):
        for path in recorded.recovery.iterdir():
            path.write_bytes(b"" if lost.startswith("empty") else b"no database" * 1000)
    run(recorded)
    assert rows(recorded) == before
    assert fates(recorded) == LIVE_FATES


def test_lost_table_is_made_again(recorded: Home) -> None:
    """Deleting the events' table brings all of it back from the journal."""
    run(recorded)
    before = rows(recorded)
    shutil.rmtree(recorded.lance)
    run(recorded)
    assert rows(recorded) == before
    assert fates(recorded) == LIVE_FATES


def test_count_of_equal_facts_survives_a_lost_register(place: Home) -> None:
    """The same words said again after the register was lost are a new prompt, not the old one told twice."""
    go_on = payload("UserPromptSubmit", prompt="go on")
    append(place.journal, {"received_at_ns": 10**18 * 2, "payload": go_on})
    run(place)
    for path in place.root.glob("ids.sqlite*"):
        path.unlink()
    append(place.journal, {"received_at_ns": 10**18 * 2 + 60 * S, "payload": go_on})
    run(place)
    assert len(ids(place)) == 2


def test_bad_lines_are_set_aside_and_the_rest_is_read(place: Home) -> None:
    """Torn, welded and foreign lines cost themselves alone."""
    good = [encode(envelope(payload("UserPromptSubmit", prompt=str(n), prompt_id=f"p{n}"))) for n in range(5)]
    lines = [good[0], good[1][:50] + good[2], b"rubbish", b"\x00" * 8, b"", good[3] + good[4], b"[]"]
    (place.journal / "claude-code-s1.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run(place)
    assert fates(place) == {"event": 4, "quarantined": 4}
    found = [json.loads(line) for line in place.quarantine_file.read_text(encoding="utf-8").splitlines()]
    assert len(found) == 4
    assert all(one["file"].startswith("claude-code-s1.jsonl@") and one["reason"] for one in found)


def test_text_that_no_store_takes_is_stored_made_valid(place: Home) -> None:
    """Half surrogates, NUL and endless numbers anywhere in a payload do not stop the flow."""
    odd = payload(
        "PostToolUse", tool_name="B\ud83dsh", tool_input={"file_path": "a\x00b", "command": "\udfff"}
    )
    odd |= {
        "tool_use_id": "u\ud83d",
        "tool_response": "x\ud83dy",
        "duration_ms": 10**30,
        "agent_id": "\ud83d",
    }
    odd |= {"cwd": "/\ud83d", "permission_mode": "\udc00"}
    line = json.dumps(
        envelope(odd, source={"file": "\ud83d", "offset": 10**30, "n": -1}, clipped={"a": 10**30})
    )
    (place.journal / "claude-code-s1.jsonl").write_text(line + "\n")
    run(place)
    (row,) = rows(place)
    assert row["tool"]["name"] == "B\ufffdsh"
    assert "x\ufffdy" in row["content"]


def test_old_session_keeps_its_turns_over_many_batches(place: Home) -> None:
    """Thousands of old calls without ids all belong to the one prompt before them."""
    start_ns = 1_600_000_000 * S
    told = [payload("UserPromptSubmit", prompt="go")]
    told += [payload("PostToolUse", tool_name="Bash", tool_input={"command": str(n)}) for n in range(3000)]
    for n, content in enumerate(told):
        append(place.journal, {"received_at_ns": start_ns + n * S, "payload": content})
    run(place)
    found = rows(place)
    assert len(found) == len(told)
    assert len({row["turn_id"] for row in found}) == 1


def test_lines_appended_while_it_runs_are_read(place: Home, running: Callable[[], Running]) -> None:
    """A running flow takes new lines of old and new files, a torn one when it is whole, and stops when told."""
    flow = running()
    append(
        place.journal,
        {"received_at_ns": 10**18 * 2, "payload": payload("UserPromptSubmit", prompt="1", prompt_id="a")},
    )
    until(lambda: len(ids(place)) == 1)
    whole = encode(envelope(payload("UserPromptSubmit", prompt="2", prompt_id="b"))) + b"\n"
    with (place.journal / "claude-code-s1.jsonl").open("ab", buffering=0) as file:
        file.write(whole[:60])
        append(
            place.journal,
            {
                "received_at_ns": 10**18 * 2,
                "payload": payload("UserPromptSubmit", prompt="3", prompt_id="c", session_id="s2"),
            },
        )
        until(lambda: len(ids(place)) == 2)
        file.write(whole[60:])
    until(lambda: len(ids(place)) == 3)
    wakes = flow.end()
    assert wakes.watch + wakes.rescan >= 2
    assert fates(place) == {"event": 3}


def test_stop_leaves_a_snapshot_so_that_a_restart_reads_nothing_again(
    recorded: Home, running: Callable[[], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an orderly stop the next run begins where the last one ended."""
    flow = running()
    until(lambda: sum(fates(recorded).values()) == len(live()))
    flow.end()
    sizes = {path.name: path.stat().st_size for path in recorded.journal.glob("*.jsonl")}
    assert read_ingest_state(recorded)["cursors"] == sizes
    seen: list[int] = []
    real = EventWriter.write_events

    def counting(self: EventWriter, drafts: list[Draft]) -> list[Written]:
        seen.append(len(drafts))
        return real(self, drafts)

    monkeypatch.setattr(EventWriter, "write_events", counting)
    flow = running()
    append(
        recorded.journal, {"received_at_ns": 10**18 * 2, "payload": payload("UserPromptSubmit", prompt="new")}
    )
    until(lambda: fates(recorded).get("event") == 109)
    flow.end()
    assert sum(seen) == 1
    sizes = {path.name: path.stat().st_size for path in recorded.journal.glob("*.jsonl")}
    assert read_ingest_state(recorded)["cursors"] == sizes


def test_two_flows_on_one_home_are_refused(place: Home, running: Callable[[], Running]) -> None:
    """A second flow says that the first one runs, and changes nothing."""
    flow = running()
    append(place.journal, {"received_at_ns": 10**18 * 2, "payload": payload("UserPromptSubmit", prompt="x")})
    until(lambda: len(ids(place)) == 1)
    with pytest.raises(BusyError, match="already running"):
        run(place)
    flow.end()


def test_error_of_a_step_comes_out_as_ours(recorded: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stopped the flow is told as it was raised, not as the engine wraps it, and a later run completes.

    Cycles are looked for rarely while it runs, and as before it afterwards.
    """
    before = gc.get_threshold()

    def full(self: EventWriter, drafts: object) -> None:
        assert gc.get_threshold() == limits.GC_THRESHOLDS != before
        raise StoreError("table events", "disk full", "free disk space")

    monkeypatch.setattr(EventWriter, "write_events", full)
    with pytest.raises(StoreError, match="disk full"):
        run(recorded)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
    monkeypatch.undo()
    run(recorded)
    assert fates(recorded) == LIVE_FATES


def test_live_with_restarts_equals_one_run(
    place: Home, tmp_path: Path, running: Callable[[], Running]
) -> None:
    """A journal that grew under a flow with restarts gives the rows that one run over all of it gives."""
    lines = live()
    for start in range(0, len(lines), 62):
        flow = running()
        for line in lines[start : start + 62]:
            append(place.journal, line)
        until(partial(settled, place, min(start + 62, len(lines))))
        flow.end()
    other = Home.open(tmp_path / "other")
    for line in lines:
        append(other.journal, line)
    run(other)
    run(place)
    assert rows(place) == rows(other)
    assert memory_differences(memory_of(place), memory_of(other)) == []
    assert len(memory_of(place)["memories"]) > 5
    assert fates(place) == fates(other) == LIVE_FATES
