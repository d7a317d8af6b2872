from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from generation_rows import differences, memory_of, rows_of
from journal_lines import S, append, encode, envelope, live, payload

from headwater.flows.archive_run import archive_is_due, run_archive
from headwater.flows.archive_steps import ArchiveReport
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.schemas import limits
from headwater.schemas.clock import SYSTEM, FakeClock
from headwater.schemas.errors import BusyError, HeadwaterError
from headwater.storage.archive import Archive, read_all
from headwater.storage.faults import Plan, SimulatedCrash, planned
from headwater.storage.home import Home
from headwater.storage.journal import CONTROL_NAME
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import ARCHIVE_LOCK, ARCHIVE_STATE

POINTS = ("archive.written", "archive.sealed", "archive.published", "archive.verified", "archive.removed")
LIMIT_S = 60.0
NAME = "claude-code-s1.jsonl"


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


def ingest(home: Home, **options: Any) -> None:
    """Run the ingest flow until all is read."""
    run_ingest(home, IngestOptions(None, until_idle=True, **options))


def seal(home: Home, **options: Any) -> ArchiveReport:
    """Seal everything that was read."""
    return run_archive(home, older_than_s=-math.inf, **options)


def fates(home: Home) -> dict[str, int]:
    """Return how many lines had each fate."""
    known = KnownIds(home.ids_file)
    try:
        return {fate.value: n for fate, n in known.count_fates().items() if n}
    finally:
        known.close()


def say(home: Home, text: str, at_s: float, **fields: Any) -> None:
    """Append a prompt of session s1; without an id of its own unless one is given."""
    append(
        home.journal,
        {
            "received_at_ns": 1_772_000_000 * S + int(at_s * S),
            "payload": payload("UserPromptSubmit", prompt=text, **fields),
        },
    )


def until(done: Callable[[], bool]) -> None:
    """Wait until something holds; fail after the limit."""
    end_s = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_read_lines_move_and_nothing_else_changes(recorded: Home) -> None:
    """After sealing, journal files are gone, lines and events are the same, and ingest finds nothing new to do."""
    ingest(recorded)
    lines, rows, told = list(read_all(recorded)), rows_of(recorded), fates(recorded)
    report = seal(recorded)
    assert report.lines == len(lines)
    assert report.left == []
    assert not list(recorded.journal.iterdir())
    assert list(read_all(recorded)) == lines
    assert seal(recorded).files == 0
    ingest(recorded)
    assert differences(rows_of(recorded), rows) == []
    assert fates(recorded) == told


@pytest.mark.parametrize(
    "lost", [["lance"], ["recovery"], ["ids*"], ["lance", "recovery", "ids*", "outbox*"]]
)
def test_lost_tables_come_back_from_the_archive(recorded: Home, lost: list[str]) -> None:
    """What is derived is made again when its lines are sealed, some of them, and some sessions woke up since."""
    lines = live()
    for path in recorded.journal.iterdir():
        path.unlink()
    third = len(lines) // 3
    for n, line in enumerate(lines):
        append(recorded.journal, line)
        if n in (third, 2 * third):
            ingest(recorded)
            seal(recorded)
    ingest(recorded)
    rows, told = rows_of(recorded), fates(recorded)
    assert sum(told.values()) == len(lines)
    for pattern in lost:
        for path in recorded.root.glob(pattern):
            os.system(f"rm -rf '{path}'")
    ingest(recorded)
    assert differences(rows_of(recorded), rows) == []
    assert fates(recorded) == told


def test_sealing_in_between_gives_the_rows_of_one_read(recorded: Home, tmp_path: Path) -> None:
    """Live with sealing again and again gives the rows that reading the whole journal at once gives."""
    other = Home.open(tmp_path / "other")
    for n, line in enumerate(live()):
        append(other.journal, line)
        if n % 20 == 0:
            ingest(other)
            seal(other)
    ingest(other)
    ingest(recorded)
    assert differences(rows_of(other), rows_of(recorded)) == []


def test_equal_words_after_a_wake_up_are_a_new_event(place: Home) -> None:
    """How often equal facts came before is counted over the whole session, whatever of it is sealed."""
    say(place, "go on", 0)
    ingest(place)
    seal(place)
    say(place, "go on", 60)
    ingest(place)
    rows = rows_of(place)
    assert rows.height == 2
    for path in place.root.glob("ids.sqlite*"):
        path.unlink()
    ingest(place)
    assert differences(rows_of(place), rows) == []


def test_woken_session_keeps_its_turn(place: Home) -> None:
    """A call without ids after a wake-up belongs to the sealed prompt before it, also when snapshots were lost."""
    say(place, "do it", 0)
    ingest(place)
    seal(place)
    call = payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"})
    append(place.journal, {"received_at_ns": 1_772_000_010 * S, "payload": call})
    os.system(f"rm -rf '{place.recovery}'")
    ingest(place)
    assert rows_of(place)["turn_id"].n_unique() == 1


def test_woken_file_of_the_size_of_the_sealed_one_is_read(place: Home) -> None:
    """A new file that happens to be as long as the cursor says is not taken for the old one."""
    say(place, "aaaa", 0, prompt_id="a")
    ingest(place)
    seal(place)
    say(place, "bbbb", 1, prompt_id="b")
    ingest(place)
    assert rows_of(place)["content"].sort().to_list() == ["aaaa", "bbbb"]


def test_what_is_not_silent_or_not_read_stays(recorded: Home) -> None:
    """Young files, unread lines, a torn last line and the control journal stay; silent ones with the reason."""
    assert run_archive(recorded).files == 0
    report = seal(recorded)
    assert report.files == 0
    assert all("not read yet" in why for _, why in report.left)
    ingest(recorded)
    say(recorded, "late", 0)
    (recorded.journal / "claude-code-torn.jsonl").write_bytes(encode(envelope({})) + b"\n" + b'{"v":1')
    (recorded.journal / CONTROL_NAME).write_bytes(b"{}\n")
    ingest(recorded)
    say(recorded, "later", 1)
    report = seal(recorded)
    assert dict(report.left) == {
        NAME: "1 lines are not read yet",
        "claude-code-torn.jsonl": "its last line has no end",
    }
    assert sorted(path.name for path in recorded.journal.iterdir()) == [
        NAME,
        "claude-code-torn.jsonl",
        CONTROL_NAME,
    ]


def test_silence_is_counted_from_the_last_write(recorded: Home) -> None:
    """A file leaves 30 days after its last write, not a moment before."""
    ingest(recorded)
    written = SYSTEM.now()
    for path in recorded.journal.iterdir():
        os.utime(path, (written.timestamp(), written.timestamp()))
    early = FakeClock(written + timedelta(seconds=limits.ARCHIVE_SILENT_S - 1))
    assert run_archive(recorded, clock=early).files == 0
    late = FakeClock(written + timedelta(seconds=limits.ARCHIVE_SILENT_S))
    assert archive_is_due(recorded, late.now())
    assert run_archive(recorded, clock=late).files > 0
    assert not archive_is_due(recorded, late.now())


def test_dry_run_tells_and_does_nothing(recorded: Home) -> None:
    """A dry run counts what would be sealed and exported; the real one then does just that."""
    ingest(recorded)
    before = sorted(recorded.root.rglob("*"))
    clock = FakeClock(SYSTEM.now() + timedelta(days=2))
    told = seal(recorded, dry_run=True, clock=clock)
    after = sorted(recorded.root.rglob("*"))
    assert [path for path in after if path not in before and "run" not in path.parts] == []
    done = seal(recorded, clock=clock)
    assert (told.files, told.lines, told.journal_bytes, told.days) == (
        done.files,
        done.lines,
        done.journal_bytes,
        done.days,
    )
    assert done.days > 0


def test_exports_are_there_for_closed_days(recorded: Home) -> None:
    """Events, memories and continuity log of each closed day are in the exports of the current generation."""
    import polars as pl

    ingest(recorded)
    report = seal(recorded, clock=FakeClock(SYSTEM.now() + timedelta(days=2)))
    memory = memory_of(recorded)
    days = 0
    for table, key, wanted in (
        ("events", "id", rows_of(recorded)["id"].to_list()),
        ("memories", "memory_id", sorted(memory["memories"])),
        ("continuity_log", "log_id", sorted(memory["continuity_log"])),
    ):
        frame = pl.scan_parquet(recorded.archive / "gen-1" / table, hive_partitioning=True).collect()
        days += frame["date"].n_unique()
        assert frame[key].sort().to_list() == wanted
        assert wanted
    assert report.days == days


@pytest.mark.parametrize("point", POINTS)
def test_crash_in_the_flow_loses_and_doubles_nothing(recorded: Home, point: str) -> None:
    """After a crash at each point of sealing, with lines that came since, the next start reads every line once."""
    ingest(recorded)
    with planned(Plan(point, 2)) as plan, pytest.raises((SimulatedCrash, HeadwaterError)):
        seal(recorded)
    assert plan.fired
    names = {line.file.partition("@")[0] for line in read_all(recorded)} | {NAME}
    for line in live():
        session = line["payload"]["session_id"]
        more = payload("UserPromptSubmit", prompt=f"again {session}", prompt_id=session) | {
            "session_id": session
        }
        append(
            recorded.journal, {"received_at_ns": line["received_at_ns"] + 90 * 86_400 * S, "payload": more}
        )
    ingest(recorded)
    assert names
    rows = rows_of(recorded)
    sessions = {line["payload"]["session_id"] for line in live()}
    assert rows.height == 108 + len(sessions)
    assert sum(fates(recorded).values()) == len(live()) * 2
    seal(recorded)
    assert not list(recorded.journal.iterdir())
    for path in recorded.root.glob("ids.sqlite*"):
        path.unlink()
    ingest(recorded)
    assert differences(rows_of(recorded), rows) == []


def test_quarantined_lines_are_reported_once(place: Home) -> None:
    """Reading all lines again, from journal or archive, does not fill the quarantine file."""
    (place.journal / NAME).write_bytes(b"rubbish\n[]\n")
    ingest(place)
    before = place.quarantine_file.read_bytes()
    seal(place)
    os.system(f"rm -rf '{place.root}'/ids* '{place.root}'/recovery")
    ingest(place)
    assert place.quarantine_file.read_bytes() == before
    assert fates(place) == {"quarantined": 2}


def test_two_runs_exclude_each_other(place: Home) -> None:
    """While a reprocess needs the lines where they are, nothing is sealed."""
    with hold_lock(place.run / ARCHIVE_LOCK, "reprocess"), pytest.raises(BusyError):
        run_archive(place)


def test_stop_ends_between_two_files(recorded: Home) -> None:
    """A run that is stopped leaves the rest for the next one."""
    ingest(recorded)
    stop = threading.Event()
    stop.set()
    assert seal(recorded, stop=stop).files == 0
    assert Archive(recorded.archive).names() == []


def test_running_flow_seals_when_it_is_quiet(recorded: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow that runs on looks after the archive by itself, tells what it did, and goes on reading."""
    monkeypatch.setattr(limits, "ARCHIVE_QUIET_S", 0.2)
    old = SYSTEM.now().timestamp() - 2 * limits.ARCHIVE_SILENT_S
    for path in recorded.journal.iterdir():
        os.utime(path, (old, old))
    stop = threading.Event()
    thread = threading.Thread(
        target=run_ingest, args=(recorded, IngestOptions(None, stop=stop, archive=True)), daemon=True
    )
    thread.start()
    try:
        until((recorded.run / ARCHIVE_STATE).exists)
        until(lambda: not list(recorded.journal.glob("*.jsonl")))
        say(recorded, "new", 0, prompt_id="n")
        until(lambda: rows_of(recorded).height == 109)
    finally:
        stop.set()
        thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert sum(fates(recorded).values()) == len(live()) + 1
