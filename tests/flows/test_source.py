from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.flows.source import JournalSource, Pace, Scan, ShardReader, SourceConfig
from headwater.flows.watcher import shard_of
from headwater.schemas import limits
from headwater.schemas.clock import FakeClock

NAME = "claude-code-s1.jsonl"
SHARD = shard_of(NAME)
PACE_S = 0.1


class FakeWatcher:
    """Names what it is told to name."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def take(self, shard: int) -> set[str]:
        """Return the names once."""
        names, self.names = self.names, set()
        return {name for name in names if shard_of(name) == shard}


class Bench:
    """A folder, a clock that stands still, and readers of one shard."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.watcher = FakeWatcher()
        self.config = SourceConfig(folder, threading.Event(), pace_s=PACE_S, clock=self.clock, **config)

    def reader(self, state: Any = None) -> ShardReader:
        """Return a reader of the shard of NAME."""
        return ShardReader(SHARD, self.config, self.watcher, Pace(self.config.pace_s), state)  # type: ignore[arg-type]

    def write(self, text: str, name: str = NAME) -> None:
        """Append to a file."""
        with (self.folder / name).open("a") as file:
            file.write(text)

    def woken(self, reader: ShardReader, name: str = NAME) -> list[bytes]:
        """Move on by a beat, name a file as changed, and read."""
        self.clock.move(1.5 * PACE_S)
        self.watcher.names = {name}
        return texts(reader)


def texts(reader: ShardReader) -> list[bytes]:
    """Return the bytes of the next lines."""
    return [line.data for line in reader.lines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bench over an empty folder."""
    return Bench(tmp_path)


def test_files_from_before_are_read_first(bench: Bench) -> None:
    """What stands in the folder at the start is read without any wake, and counted as none."""
    bench.write("a\nb\n")
    reader = bench.reader()
    lines = reader.lines()
    assert [(line.offset, line.data) for line in lines] == [(0, b"a"), (2, b"b")]
    assert texts(reader) == []
    assert (bench.config.wakes.watch, bench.config.wakes.rescan) == (0, 0)


def test_named_file_is_read_and_counted(bench: Bench) -> None:
    """A change that the watcher names is read on the next beat."""
    reader = bench.reader()
    assert texts(reader) == []
    bench.write("a\n")
    assert bench.woken(reader) == [b"a"]
    bench.write("b\n")
    assert bench.woken(reader) == [b"b"]
    assert (bench.config.wakes.watch, bench.config.wakes.rescan) == (2, 0)


def test_rescan_finds_what_nobody_named(bench: Bench) -> None:
    """A change without an event is found by the rescan, not before it, and counted apart."""
    reader = bench.reader()
    assert texts(reader) == []
    bench.write("a\n")
    bench.clock.move(limits.RESCAN_S - 0.1)
    assert texts(reader) == []
    bench.clock.move(0.2)
    assert texts(reader) == [b"a"]
    assert (bench.config.wakes.watch, bench.config.wakes.rescan) == (0, 1)


def test_file_that_both_find_is_the_watchers(bench: Bench) -> None:
    """A name that comes in the same beat as the rescan does not count as missed."""
    reader = bench.reader()
    assert texts(reader) == []
    bench.write("a\n")
    bench.clock.move(limits.RESCAN_S)
    assert bench.woken(reader) == [b"a"]
    assert (bench.config.wakes.watch, bench.config.wakes.rescan) == (1, 0)


def test_one_look_at_the_folder_serves_all_shards(bench: Bench) -> None:
    """Shards that ask at about the same time share a look; a later one sees what came since."""
    bench.write("a\n")
    scan = Scan()
    for shard in range(limits.SHARDS):
        assert scan.sizes(bench.folder, shard, 10.0) == ({NAME: 2} if shard == SHARD else {})
    bench.write("b\n")
    assert scan.sizes(bench.folder, SHARD, 10.0 + limits.SCAN_SHARED_S / 2) == {NAME: 2}
    assert scan.sizes(bench.folder, SHARD, 10.0 + limits.SCAN_SHARED_S) == {NAME: 4}


def test_file_that_came_after_the_shared_look_keeps_its_cursor(bench: Bench) -> None:
    """A new file that was read before a rescan with an older look is not taken for one that went away."""
    reader = bench.reader()
    assert texts(reader) == []
    bench.clock.move(limits.RESCAN_S - 0.1)
    bench.config.scan.sizes(bench.folder, 0, bench.clock.monotonic_s())
    bench.write("a\n")
    assert bench.woken(reader) == [b"a"]
    bench.clock.move(0.2)
    assert texts(reader) == []
    assert reader.state()[NAME][0] == 2


def test_torn_line_waits_and_wakes_nobody(bench: Bench) -> None:
    """A last line without its end is not read, and finding it again is no missed event."""
    bench.write("a\nhal")
    reader = bench.reader()
    assert texts(reader) == [b"a"]
    for _ in range(3):
        bench.clock.move(limits.RESCAN_S)
        assert texts(reader) == []
    assert bench.config.wakes.rescan == 0
    bench.write("f\n")
    assert bench.woken(reader) == [b"half"]


def test_reads_keep_the_beat(bench: Bench) -> None:
    """Between two reads lies the pace; what came in between is read together."""
    reader = bench.reader()
    assert texts(reader) == []
    bench.write("a\n")
    assert bench.woken(reader) == [b"a"]
    bench.clock.move(2 * limits.TICK_S)
    bench.write("b\n")
    bench.watcher.names = {NAME}
    assert texts(reader) == []
    assert reader.pending
    bench.write("c\n")
    bench.clock.move(PACE_S)
    assert texts(reader) == [b"b", b"c"]


def test_shards_share_the_beat() -> None:
    """A shard may read in a beat that another began, and not a tick later."""
    pace = Pace(PACE_S)
    assert pace.may_read(0.0)
    assert pace.may_read(limits.TICK_S / 2)
    assert not pace.may_read(limits.TICK_S)
    assert pace.may_read(PACE_S)


def test_other_shards_files_and_other_files_are_left_alone(bench: Bench) -> None:
    """A reader reads the journal files of its shard, and neither control lines nor other files."""
    other = next(f"{n}.jsonl" for n in range(99) if shard_of(f"{n}.jsonl") != SHARD)
    for name in (other, "control.jsonl", "a.txt"):
        bench.write("x\n", name)
    reader = bench.reader()
    assert texts(reader) == []
    for name in (other, "control.jsonl", "a.txt"):
        assert bench.woken(reader, name) == []
    assert bench.config.wakes.watch == 0


@pytest.mark.parametrize("until_idle", [True, False])
def test_a_read_of_a_shard_ends_at_so_many_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until_idle: bool
) -> None:
    """At the file with which READ_SHARD_BYTES are reached, however few lines those are."""
    monkeypatch.setattr(limits, "READ_SHARD_BYTES", 30)
    bench = Bench(tmp_path, until_idle=until_idle)
    names = [name for name in (f"n{n}.jsonl" for n in range(100)) if shard_of(name) == SHARD][:5]
    for name in names:
        bench.write("x" * 12 + "\n", name)
    reader = bench.reader()
    assert len(texts(reader)) == 3
    bench.clock.move(1.5 * PACE_S)
    assert len(texts(reader)) == 2


def test_bounded_run_ends_when_all_is_read(tmp_path: Path) -> None:
    """Until idle: everything is read without waiting for beats, a torn end is left, then the end is told."""
    bench = Bench(tmp_path, until_idle=True)
    bench.write("a\n" * (limits.READ_LINES_BOUNDED + 5) + "torn")
    reader = bench.reader()
    assert len(texts(reader)) == limits.READ_LINES_BOUNDED > limits.READ_LINES
    assert len(texts(reader)) == 5
    with pytest.raises(StopIteration):
        [texts(reader) for _ in range(3)]


def test_stop_ends_the_source(bench: Bench) -> None:
    """A stop ends the source though there is more to read, and its state says what was read."""
    bench.write("a\n")
    reader = bench.reader()
    assert texts(reader) == [b"a"]
    bench.write("b\n")
    assert isinstance(bench.config.stop, threading.Event)
    bench.config.stop.set()
    with pytest.raises(StopIteration):
        reader.lines()
    assert reader.state()[NAME][0] == 2


def test_state_round_trip_reads_nothing_twice(bench: Bench) -> None:
    """A reader that goes on from a state reads what came after it, and knows how far it had read."""
    bench.write("a\n")
    reader = bench.reader()
    assert texts(reader) == [b"a"]
    state = reader.state()
    assert {type(value) for cursor in state.values() for value in cursor} <= {int, str}
    bench.write("b\n")
    bench.config = replace(bench.config, cursors={}, scan=Scan())
    again = bench.reader(state)
    assert bench.config.cursors == {NAME: 2}
    assert texts(again) == [b"b"]
    assert bench.config.cursors == {NAME: 4}


def test_deleted_file_leaves_the_state(bench: Bench) -> None:
    """A file that is gone is forgotten at the next rescan; one of its name is read from its start."""
    bench.write("a\n")
    reader = bench.reader()
    assert texts(reader) == [b"a"]
    (bench.folder / NAME).unlink()
    assert bench.woken(reader) == []
    bench.clock.move(limits.RESCAN_S)
    assert texts(reader) == []
    assert reader.state() == {}
    assert bench.config.cursors == {}
    bench.write("b\n")
    assert bench.woken(reader) == [b"b"]


def test_replaced_file_is_read_from_its_start(bench: Bench) -> None:
    """A file with another first line is another file, also at the same length; its positions are new."""
    bench.write("a\nb\n")
    reader = bench.reader()
    old = reader.lines()
    (bench.folder / NAME).write_text("c\nd\n")
    bench.clock.move(PACE_S)
    bench.watcher.names = {NAME}
    new = reader.lines()
    assert [line.data for line in new] == [b"c", b"d"]
    assert not {(line.file, line.offset) for line in old} & {(line.file, line.offset) for line in new}


def test_truncated_file_is_read_again_under_new_positions(bench: Bench) -> None:
    """A file that got shorter is read from its start; what is new in it has no position of before."""
    bench.write("a\nb\nc\n")
    reader = bench.reader()
    old = reader.lines()
    (bench.folder / NAME).write_text("a\nX\n")
    bench.clock.move(limits.RESCAN_S)
    new = reader.lines()
    assert [line.data for line in new] == [b"a", b"X"]
    assert not {(line.file, line.offset) for line in old} & {(line.file, line.offset) for line in new}


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_is_not_opened(bench: Bench, kind: str) -> None:
    """A link, a folder or a pipe with a journal's name is passed over."""
    import os

    path = bench.folder / NAME
    if kind == "link":
        target = bench.folder / "target"
        target.write_text("secret\n")
        path.symlink_to(target)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    reader = bench.reader()
    assert texts(reader) == []
    assert bench.woken(reader) == []


def test_partitions_are_the_shards(bench: Bench) -> None:
    """The source has one part per shard, under fixed names, each going on from its own state."""
    source = JournalSource(bench.config, bench.watcher)  # type: ignore[arg-type]
    parts = source.list_parts()
    assert parts == [f"shard-{n:03}" for n in range(limits.SHARDS)]
    bench.write("a\nb\n")
    part = source.build_part("read_journal", parts[SHARD], None)
    assert [line.data for line in part.next_batch()] == [b"a", b"b"]
    again = source.build_part("read_journal", parts[SHARD], part.snapshot())
    assert again.next_batch() == []


def test_partition_ticks_slower_when_it_is_quiet(bench: Bench) -> None:
    """A part looks often while lines come, seldom when none came for a while, and never later than a tick."""
    source = JournalSource(bench.config, bench.watcher)  # type: ignore[arg-type]
    part = source.build_part("read_journal", f"shard-{SHARD:03}", None)

    def wait() -> float:
        assert part.next_batch() is not None
        return part.next_tick_s()

    assert wait() == limits.TICK_S
    waits = [wait() for _ in range(int(limits.QUIET_S / limits.TICK_S) + 1)]
    assert waits[-1] == limits.TICK_IDLE_S
    bench.write("a\n")
    bench.clock.move(PACE_S)
    bench.watcher.names = {NAME}
    wait()
    assert wait() == limits.TICK_S


def test_backlog_is_read_on_without_waiting(tmp_path: Path) -> None:
    """A part that knows of more asks to be called again at once."""
    bench = Bench(tmp_path, until_idle=True)
    bench.write("a\n" * (limits.READ_LINES_BOUNDED + 1))
    part = JournalSource(bench.config, bench.watcher).build_part("s", f"shard-{SHARD:03}", None)  # type: ignore[arg-type]
    assert len(list(part.next_batch())) == limits.READ_LINES_BOUNDED
    assert part.next_awake() is None
