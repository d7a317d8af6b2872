"""Every limit is reached by a test: by one that names it, or by the one that the table here names."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lance_rows import NOW, ids, rows
from stage import Stage, assert_one_line, line_of

from headwater.query.search import search_index
from headwater.query.stores import Stores
from headwater.schemas import clock, limits
from headwater.schemas.answers import Scope
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import InputError, StoreError
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import SERVER_LOCK
from headwater.storage.tables import LanceStore, LanceTable
from headwater.surface import client, doctor, processes, server, workers
from headwater.surface.operations import Context
from headwater.surface.verbs import lifecycle

TESTS = Path(__file__).resolve().parents[1]
# limit -> the test that reaches it without naming it, or why nothing can be reached
REACHED = {
    "READ_PACE_S": "flows/test_source.py::test_reads_keep_the_beat",
    "WATCH_STEP_MS": "flows/test_watcher.py::test_changes_are_named_in_their_shard",
    "WATCH_DEBOUNCE_MS": "flows/test_watcher.py::test_changes_are_named_in_their_shard",
    "HEAD_BYTES": "storage/test_journal.py::test_first_line_longer_than_the_head",
    "BACKOFF_S": "storage/test_outbox.py::test_waits_between_tries",
    "CHUNK_OVERLAP_TOKENS": "flows/test_chunking.py::test_short_texts_are_covered_with_overlap",
    "LOCK_TRIES": "storage/test_locks.py::test_looking_keeps_nobody_from_taking",
    "LOCK_PAUSE_S": "storage/test_locks.py::test_looking_keeps_nobody_from_taking",
    "POLL_JOBS_S": "surface/test_live.py::"
    "test_two_hundred_hook_processes_give_two_hundred_findable_events_by_watchfiles_alone",
    "START_TRIES": "robustness/test_resources.py::test_up_that_cannot_start_says_why",
    "HANDLES_LEFT": "robustness/test_limits.py::test_table_is_not_moved_aside_for_want_of_handles",
    "TURN_IDLE_S": "flows/test_threads.py::test_a_turn_without_an_answer_is_decided",
    "DECISIONS_LOOK_S": "flows/test_memory_flow.py::test_a_person_asks_for_consolidation",
    "JOBS_CLEAN_EVERY_S": "flows/test_vector_worker.py::test_old_done_jobs_are_cleaned_up",
    "HANDOVER_LOOK_S": "flows/test_reprocess.py::test_lines_that_come_meanwhile_are_in_both",
    "CATCH_UP_RUNS": "flows/test_reprocess.py::test_lines_that_come_meanwhile_are_in_both",
    "GENERATIONS_KEPT": "flows/test_reprocess.py::test_old_generations_are_kept_as_asked",
    "COMMIT_TRIES": "robustness/test_limits.py::test_overtaken_write_is_tried_again_and_given_up",
}


@cache
def found_tests(path: Path) -> dict[str, str]:
    """Return name -> source of the tests of a file, with what decorates them."""
    text = path.read_text(encoding="utf-8")
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            parts = [node, *node.decorator_list]
            found[node.name] = "\n".join(ast.get_source_segment(text, part) or "" for part in parts)
    return found


@cache
def sources() -> str:
    """Return the source of all tests but those that only compare copies of limits."""
    mine = Path(__file__).resolve()
    others = [path for path in TESTS.rglob("test_*.py") if path not in (mine, TESTS / "schemas" / mine.name)]
    return "\n".join([*found_tests(mine).values(), *(path.read_text(encoding="utf-8") for path in others)])


@pytest.mark.parametrize("name", [name for name in vars(limits) if name.isupper()])
def test_limit_is_reached(name: str) -> None:
    """A new limit needs a test that names it (`limits.NAME`), or a line in the table above."""
    if name not in REACHED:
        is_named = re.search(rf"\b{name}\b", sources()) is not None
        assert is_named, f"{name}: write a test that names it, or name one in REACHED"
        return
    file, _, test = REACHED[name].partition("::")
    assert test in found_tests(TESTS / file), f"{name}: {REACHED[name]} does not exist"


def test_no_entry_of_the_table_is_left_over() -> None:
    """The table names limits that exist."""
    assert [name for name in REACHED if not hasattr(limits, name)] == []


# --- reading ---


def test_line_longer_than_the_limit_is_quarantined_and_the_rest_is_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line above LINE_BYTES, read in READ_BYTES, costs itself; the excerpt and the next line are there."""
    monkeypatch.setattr(limits, "LINE_BYTES", 3_000_000)
    stage.write("s", line_of("s", "UserPromptSubmit", prompt="x" * 3_000_001))
    stage.write("s", line_of("s", "UserPromptSubmit", prompt="after it"))
    stage.work()
    assert stage.row("s")["content"] == "after it"
    (bad,) = stage.quarantined("s")
    assert "wanted at most 3000000" in bad["reason"]
    assert len(bad["excerpt"]) == limits.EXCERPT_CHARS


def test_whole_ceiling_of_a_line_is_read(stage: Stage) -> None:
    """A line of just below LINE_BYTES is an event like any other."""
    line = line_of("s", "UserPromptSubmit", prompt="@")
    stage.write("s", line.replace(b"@", b"y" * (limits.LINE_BYTES - len(line))))
    stage.work()
    assert len(stage.row("s")["content"]) <= limits.CONTENT_CHARS


# --- tables ---


@pytest.fixture
def table(tmp_path: Path) -> LanceTable:
    """An empty events table."""
    return LanceStore(tmp_path / "t").open(EVENTS)


def test_big_fragments_are_left_alone(table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction joins small fragments up to COMPACT_ROWS and does not rewrite those that have so many."""
    monkeypatch.setattr(limits, "COMPACT_ROWS", 4)
    for n in range(6):
        table.add(rows(2 * n, 2 * n + 1))
    assert table.maintain(NOW, force=True).compacted
    sizes = [fragment.count_rows() for fragment in table._open().to_lance().get_fragments()]
    assert (sum(sizes), max(sizes)) == (12, 4)


def test_busy_table_loses_its_old_versions_at_once(
    table: LanceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From VERSIONS_MAX commits on, versions older than VERSION_KEEP_BUSY_S go without waiting for CLEAN_EVERY_S."""
    monkeypatch.setattr(limits, "VERSIONS_MAX", 5)
    monkeypatch.setattr(limits, "VERSION_KEEP_BUSY_S", 0.0)
    table.maintain(NOW)
    for n in range(8):
        table.add(rows(n))
    assert table.maintain(NOW + timedelta(seconds=1)).versions_removed >= 5
    assert table.count() == 8


def test_caches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lance gets INDEX_CACHE_BYTES and METADATA_CACHE_BYTES, where its own defaults would be gigabytes."""
    import lancedb

    given: dict[str, Any] = {}
    real = lancedb.Session

    def session(**kwargs: Any) -> Any:
        given.update(kwargs)
        return real(**kwargs)

    monkeypatch.setattr(lancedb, "Session", session)
    LanceStore(tmp_path / "t").connection()
    assert given == {
        "index_cache_size_bytes": limits.INDEX_CACHE_BYTES,
        "metadata_cache_size_bytes": limits.METADATA_CACHE_BYTES,
    }


def test_longest_word_that_is_found(table: LanceTable) -> None:
    """A word of TOKEN_CHARS is indexed, such as a hash; a longer one is not, and stops nothing."""
    fits, too_long = "f" * (limits.TOKEN_CHARS - 1), "l" * (limits.TOKEN_CHARS + 50)
    table.add(rows(1, content=f"word {fits}"))
    table.add(rows(2, content=f"word {too_long}"))
    table.maintain(NOW, force=True)
    assert ids(table, fits, "content") == ["evt_000001"]
    assert ids(table, too_long, "content") in ([], ["evt_000002"])
    assert len(ids(table, "word", "content")) == 2


def test_overtaken_write_is_tried_again_and_given_up(table: LanceTable) -> None:
    """A write that others overtake is tried so often, then told as an error."""
    for failing, passes in ((2, True), (99, False)):
        left = iter(range(failing))

        def overtaken(_table: Any, left: Iterator[int] = left) -> None:
            if next(left, None) is not None:
                raise RuntimeError("Commit conflict for version 7")

        if passes:
            table._write(overtaken)
        else:
            with pytest.raises(StoreError) as caught:
                table._write(overtaken)
            assert_one_line(str(caught.value))
            assert next(left) == limits.COMMIT_TRIES


def test_table_is_not_moved_aside_for_want_of_handles(
    table: LanceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that cannot be opened because the process has no file handles left is not held to be damaged."""
    table.add(rows(1))
    again = LanceStore(table._folder.parent)
    real = os.open

    def scarce(path: Any, *args: Any, **kwargs: Any) -> int:
        if path == os.devnull:
            raise OSError(24, "Too many open files")
        return real(path, *args, **kwargs)

    class Panicking:
        def open_table(self, _name: str) -> None:
            raise RuntimeError("rust future panicked: unknown error")

    monkeypatch.setattr(again, "_db", Panicking())
    monkeypatch.setattr(os, "open", scarce)
    with pytest.raises(Exception, match="panicked"):
        again.open(EVENTS)
    assert table._folder.is_dir()


# --- query ---


def test_long_queries_are_cut(table: LanceTable) -> None:
    """Words behind QUERY_CHARS are not looked at."""
    table.add(rows(1, content="walrus"))
    assert ids(table, "x " * (limits.QUERY_CHARS // 2) + "walrus", "content") == []
    assert ids(table, "x " * (limits.QUERY_CHARS // 2 - 10) + "walrus", "content") == ["evt_000001"]


def test_more_identifiers_and_candidates_than_are_looked_at(stage: Stage) -> None:
    """A query of more than EXACT_WORDS identifiers over more than CANDIDATES rows gives its top rows."""
    for n in range(limits.CANDIDATES + 20):
        stage.tell("s", "UserPromptSubmit", float(n), prompt=f"call some_name_{n} now", prompt_id=f"p{n}")
    stage.work()
    query = " ".join(f"some_name_{n}" for n in range(limits.EXACT_WORDS + 10))
    found = search_index(Stores.open(stage.home), query, Scope(project=None), limits.TOP_K_MAX, None)
    assert 0 < len(found) <= limits.CANDIDATES


# --- doctor ---


@pytest.mark.parametrize(
    ("free_bytes", "level"), [(limits.DISK_FREE_BYTES - 1, "bad"), (limits.DISK_FREE_BYTES, "ok")]
)
def test_little_space_is_an_alarm(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, free_bytes: int, level: str
) -> None:
    """Below DISK_FREE_BYTES the doctor says so, with the fix."""
    usage = type("Usage", (), {"free": free_bytes})
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    (check,) = (one for one in doctor.examine(stage.home) if one.name == "disk")
    assert (check.level, bool(check.fix)) == (level, level == "bad")


@pytest.mark.parametrize(("extra", "level"), [(0, "ok"), (1, "warn")])
def test_long_backlog_is_told(stage: Stage, extra: int, level: str) -> None:
    """More than LAG_BYTES of unread journal is worth a word."""
    stage.write("s", b"x" * (limits.LAG_BYTES + extra))
    (check,) = (one for one in doctor.examine(stage.home) if one.name == "lag")
    assert (check.level, bool(check.fix)) == (level, level == "warn")


# --- processes ---


def test_log_files_are_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log has at most LOG_BYTES, and one older one is kept."""
    monkeypatch.setattr(limits, "LOG_BYTES", 2000)
    monkeypatch.setattr(workers, "LOG", logging.getLogger("headwater-test"))
    workers.set_up_logging(stage.home, "ingest")
    for n in range(200):
        workers.LOG.warning("line %d", n)
    for handler in workers.LOG.handlers:
        handler.close()
    sizes = {path.name: path.stat().st_size for path in stage.home.logs.iterdir()}
    assert sizes.keys() == {"ingest.log", "ingest.log.1"}
    assert max(sizes.values()) <= 2000


def test_request_longer_than_the_limit_is_answered(stage: Stage) -> None:
    """More than REQUEST_BYTES is refused in one line; the server goes on."""
    context = Context(stage.home)
    line = json.dumps({"op": "search", "args": {"query": "x" * limits.REQUEST_BYTES}}).encode()
    body = json.loads(server.answer_line(context, line))
    error = body["error"]
    assert (body["ok"], error["type"]) == (False, "InputError")
    assert_one_line(str(InputError(error["where"], error["problem"], error["fix"])))
    assert json.loads(server.answer_line(context, b'{"op": "ping"}'))["ok"]


def test_server_that_does_not_answer_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client waits for REQUEST_S, then says what to do."""
    import socket

    stage = Stage(home)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(stage.home.socket))
        silent.listen()
        with pytest.raises(StoreError, match="no answer") as caught:
            client.ask_server(stage.home, "ping", {}, limit_s=min(limits.REQUEST_S, 0.1))
    assert_one_line(str(caught.value))


def test_up_that_is_not_ready_in_time_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """After READY_S `up` gives up with one line."""
    monkeypatch.setattr(limits, "READY_S", 0.1)
    monkeypatch.setattr(processes, "spawn", lambda *_args, **_more: None)
    with pytest.raises(StoreError, match="not ready") as caught:
        lifecycle.ensure_up(stage.home)
    assert_one_line(str(caught.value))


DEAF = """
import signal, sys, time
from pathlib import Path
from headwater.storage.locks import hold_lock
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with hold_lock(Path(sys.argv[1]), "deaf"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_process_that_does_not_end_is_killed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of ours that ignores SIGTERM is killed after STOP_S; nothing holds its lock then."""
    monkeypatch.setattr(limits, "STOP_S", 0.2)
    lock = stage.home.run / SERVER_LOCK
    with subprocess.Popen([sys.executable, "-c", DEAF, str(lock)], stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout is not None
        assert deaf.stdout.readline() == b"held\n"
        assert processes.stop_all(stage.home) == [deaf.pid]
        assert deaf.wait(10) == -signal.SIGKILL
    with hold_lock(lock, "server"):
        pass


class Ended:
    """A process that ended at once."""

    def poll(self) -> int:
        """Return its exit code."""
        return 1


def test_restarts_wait_longer_and_longer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that ends at once is started again after RESTART_BACKOFF_S; one that ran for STEADY_S begins anew."""
    time = clock.FakeClock()
    starts: list[float] = []

    def spawn(*_args: object, **_more: object) -> Ended:
        starts.append(time.monotonic_s())
        return Ended()

    monkeypatch.setattr(clock, "SYSTEM", time)
    monkeypatch.setattr(processes, "spawn", spawn)
    child = workers._Child(stage.home, "ingest")
    while len(starts) < 8:
        child.look()
        time.move(0.1)
    waits = [round(after - before) for before, after in pairwise(starts)]
    assert waits == [1, 2, 5, 10, 30, 30, 30]
    assert waits[:5] == list(limits.RESTART_BACKOFF_S)
    time.move(limits.STEADY_S)
    child.look()
    time.move(limits.RESTART_BACKOFF_S[0] + 0.1)
    child.look()
    assert len(starts) == 9
