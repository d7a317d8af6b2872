from __future__ import annotations

import fcntl
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.schemas import limits
from headwater.schemas.errors import BusyError, DamagedError, StoreError
from headwater.storage import journal, seal
from headwater.storage.archive import (
    SCHEMA,
    Archive,
    Segment,
    count_lines,
    journal_cursor,
    read_all,
    segment_name,
    segment_of,
)
from headwater.storage.faults import Plan, SimulatedCrash, planned
from headwater.storage.home import Home
from headwater.storage.journal import Cursor, RawLine

NAME = "claude-code-s1.jsonl"
LINES = b'{"v":1,"received_at_ns":1772000000000000000}\n\n \t\nnot json\n{"v":1}\n'
POINTS = ("archive.written", "archive.sealed", "archive.published", "archive.verified", "archive.removed")


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """An empty home."""
    return Home.open(tmp_path / "home")


def write(home: Home, data: bytes, name: str = NAME) -> Path:
    """Append to a journal file."""
    path = home.journal / name
    with path.open("ab") as file:
        file.write(data)
    return path


def draft(home: Home, name: str = NAME) -> seal.Draft:
    """Write a file's lines to the archive's temporary file."""
    path = home.journal / name
    archive = Archive(home.archive)
    end = archive.end(name)
    known = bool(archive.segments(name))
    key = end.key(name) if known else journal.key_of(name, journal.head_of(path))
    return seal.write(home, path, key, end.base, seal.survey(path, end.base))


def sealed(home: Home, name: str = NAME) -> Segment:
    """Move a file to the archive."""
    made = draft(home, name)
    taken = seal.take_away(home, name)
    segment = seal.publish(home, taken, made)
    seal.verify(segment, taken)
    seal.remove(taken)
    return segment


def everything(home: Home) -> list[RawLine]:
    """Return all lines of layer 0."""
    return list(read_all(home))


def left(home: Home) -> list[str]:
    """Return what stands in the journal."""
    return sorted(path.name for path in home.journal.iterdir())


def test_sealed_lines_are_read_as_they_stood_in_the_journal(place: Home) -> None:
    """Archive and journal as one give the same lines with the same positions before and after sealing."""
    write(place, LINES)
    write(place, b"other\n", "codex-s2.jsonl")
    before = everything(place)
    count = count_lines(place)
    sealed(place)
    assert everything(place) == before
    assert left(place) == ["codex-s2.jsonl"]
    assert count_lines(place) == count - 2  # blank lines, which only a look at every line tells
    assert [line.offset for line in before if line.file.startswith(NAME)] == [0, 49, 58]


def test_segment_holds_every_byte(place: Home) -> None:
    """Joining the rows with newlines gives the journal file again, blank lines too; each row says where and when."""
    path = write(place, LINES)
    key = journal.key_of(NAME, journal.head_of(path))
    segment = sealed(place)
    table = pq.read_table(segment.path, partitioning=None)
    assert table.schema.equals(SCHEMA)
    rows = table.to_pydict()
    assert b"".join(line + b"\n" for line in rows["line"]) == LINES
    assert set(rows["file"]) == {key}
    assert rows["received_on"] == [date(2026, 2, 25), None, None, None, None]
    assert segment.path.parent.name == "date=2026-02-25"
    assert pq.ParquetFile(segment.path).metadata.row_group(0).column(2).compression == "ZSTD"


def test_name_tells_all(tmp_path: Path) -> None:
    """What a segment is called is read back as what it is, also for a replaced file and odd names."""
    for key in ("a.jsonl@0123456789ab", "a@b.jsonl@0123456789ab.12", "x\ny.1-2-3-4.jsonl@0123456789ab"):
        found = segment_of(tmp_path / segment_name(key, 5, 20, 30, 2))
        assert found is not None
        assert (found.key, found.start, found.last, found.end, found.lines) == (key, 5, 20, 30, 2)
        assert found.turn == (12 if key.endswith(".12") else 0)
    assert segment_of(tmp_path / "part-0.parquet") is None


def test_session_that_wakes_up_goes_on_where_it_was(place: Home) -> None:
    """A new file of the same name has positions behind the sealed ones, and is sealed behind them in its turn."""
    write(place, b"one\ntwo\n")
    sealed(place)
    write(place, b"three\nfour\n")
    seal.recover(place)
    woken = everything(place)
    assert [(line.offset, line.data) for line in woken] == [
        (0, b"one"),
        (4, b"two"),
        (8, b"three"),
        (14, b"four"),
    ]
    assert len({line.file for line in woken}) == 1
    sealed(place)
    assert everything(place) == woken
    write(place, b"five\n")
    assert [line.data for line in everything(place)] == [b"one", b"two", b"three", b"four", b"five"]


def test_equal_beginning_of_a_new_file_does_not_collide(place: Home) -> None:
    """A woken session whose first line equals the sealed one loses no line."""
    write(place, b"same\nold line\n")
    sealed(place)
    write(place, b"same\nnew\n")
    seal.recover(place)
    assert [line.data for line in everything(place)] == [b"same", b"old line", b"same", b"new"]
    assert len({line.offset for line in everything(place)}) == 4


def test_reading_goes_on_from_a_cursor_in_the_middle(place: Home) -> None:
    """A cursor that stands in the journal file goes on in its sealed lines, then in the file that came after."""
    write(place, b"one\ntwo\nthree\n")
    got = journal.read(place.journal, NAME, Cursor())
    middle = Cursor(4, got.cursor.head)
    sealed(place)
    archive = Archive(place.archive)
    rest = archive.read(place.journal, NAME, middle)
    assert [line.data for line in rest.lines] == [b"two", b"three"]
    assert archive.placed(NAME, got.cursor) == archive.end(NAME) == rest.cursor
    write(place, b"four\n")
    assert [line.data for line in archive.read(place.journal, NAME, rest.cursor).lines] == [b"four"]
    assert [line.data for line in archive.read(place.journal, NAME, got.cursor).lines] == [b"four"]


def test_byte_offsets_of_a_file_become_positions(place: Home) -> None:
    """A writer that knows where in a journal file its line stands learns the position that readers give it."""
    for data in (b"one\n", b"two\nthree\n"):
        write(place, data)
        cursor = journal_cursor(place, NAME)
        last = everything(place)[-1]
        offset = data.rindex(b"\n", 0, len(data) - 1) + 1 if data.count(b"\n") > 1 else 0
        assert (last.file, last.offset) == (cursor.key(NAME), cursor.base + offset)
        sealed(place)


def test_large_files_come_in_pieces(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealed lines are read a row group at a time; too long ones are cut and marked as in the journal."""
    monkeypatch.setattr(limits, "READ_LINES", 3)
    monkeypatch.setattr(limits, "LINE_BYTES", 50)
    write(place, b"".join(b"line %d\n" % n for n in range(10)) + b"x" * 80 + b"\n")
    before = everything(place)
    segment = sealed(place)
    assert pq.ParquetFile(segment.path).metadata.num_row_groups == 4
    assert everything(place) == before
    assert before[-1].oversize_bytes == 80
    assert len(Archive(place.archive).read(place.journal, NAME, Cursor()).lines) == 3


def test_last_moment_line_is_sealed_too(place: Home) -> None:
    """A line that a writer appends while the file is on its way is in the archive, not lost."""
    write(place, b"one\n")
    made = draft(place)
    write(place, b"late\n")
    taken = seal.take_away(place, NAME)
    segment = seal.publish(place, taken, made)
    seal.verify(segment, taken)
    seal.remove(taken)
    assert [line.data for line in everything(place)] == [b"one", b"late"]
    assert [path.name for path in place.archive.rglob("*") if path.is_file()] == [segment.path.name]


def has_leases(folder: Path) -> bool:
    """Whether this system tells who has a file open."""
    path = folder / "leased"
    path.touch()
    with path.open("rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except (AttributeError, OSError):
            return False
    return True


def test_file_that_somebody_writes_to_is_not_published(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a process has the file open for writing it stays; what that process writes is kept."""
    if not has_leases(place.root):
        pytest.skip("nobody can tell here who has a file open")
    monkeypatch.setattr(limits, "ARCHIVE_WRITERS_S", 0.05)
    write(place, b"one\n")
    made = draft(place)
    with (place.journal / NAME).open("ab", buffering=0) as writer:
        taken = seal.take_away(place, NAME)
        with pytest.raises(BusyError):
            seal.publish(place, taken, made)
        writer.write(b"two\n")
    seal.recover(place)
    assert [line.data for line in everything(place)] == [b"one", b"two"]
    assert left(place) == [NAME]


def test_without_leases_it_waits_longer_than_any_hook_writes(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system cannot say who has a file open, a moment passes before it is published."""
    monkeypatch.setattr(limits, "ARCHIVE_GRACE_S", 0.0)
    monkeypatch.setattr(fcntl, "F_SETLEASE", 123456, raising=False)
    write(place, b"one\n")
    sealed(place)
    assert [line.data for line in everything(place)] == [b"one"]


@pytest.mark.parametrize("woken", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_crash_anywhere_loses_and_doubles_nothing(place: Home, point: str, woken: bool) -> None:
    """After a crash at each point, also when lines came before the next start, every line is read once, in order."""
    write(place, LINES)
    before = everything(place)
    with planned(Plan(point, 1)), pytest.raises(SimulatedCrash):
        sealed(place)
    if woken:
        write(place, b"new\n")
    seal.recover(place)
    after = everything(place)
    assert after[: len(before)] == before
    assert [line.data for line in after[len(before) :]] == ([b"new"] if woken else [])
    assert not [name for name in left(place) if name != NAME]
    assert not list(place.archive.rglob(".*"))
    seal.recover(place)
    assert everything(place) == after
    if (place.journal / NAME).exists():
        sealed(place)
    assert everything(place) == after


def test_copy_of_a_home_that_caught_a_file_twice_is_put_right(place: Home) -> None:
    """A file that is both sealed and in the journal is read once; where the journal has more, it stays there."""
    path = write(place, LINES)
    before = everything(place)
    sealed(place)
    path.write_bytes(LINES)
    seal.recover(place)
    assert (left(place), everything(place)) == ([], before)
    path.write_bytes(LINES + b"more\n")
    seal.recover(place)
    assert left(place) == [NAME]
    assert Archive(place.archive).names() == []
    assert [line.data for line in everything(place)] == [*(line.data for line in before), b"more"]


def test_differing_segment_is_withdrawn_and_the_file_stays(place: Home) -> None:
    """When the comparison fails, nothing is removed and the file gets its name back."""
    write(place, b"one\ntwo\n")
    made = draft(place)
    taken = seal.take_away(place, NAME)
    segment = seal.publish(place, taken, made)
    taken.write_bytes(b"one\nTWO\n")
    with pytest.raises(DamagedError, match="other lines"):
        seal.verify(segment, taken)
    seal.recover(place)
    assert left(place) == [NAME]
    assert [line.data for line in everything(place)] == [b"one", b"TWO"]


def test_damaged_segment_is_an_error_of_ours(place: Home) -> None:
    """A segment that is no Parquet any more says which file it is and what to do."""
    write(place, b"one\n")
    segment = sealed(place)
    segment.path.write_bytes(b"no parquet")
    with pytest.raises(DamagedError, match="backup") as caught:
        everything(place)
    assert str(segment.path) in str(caught.value)


def test_full_disk_leaves_the_journal_alone(place: Home) -> None:
    """Without room for the archive the file stays where it is, and the next try succeeds."""
    write(place, b"one\n")
    with planned(Plan("archive.written", 1, "full")), pytest.raises((OSError, StoreError)):
        sealed(place)
    assert left(place) == [NAME]
    seal.recover(place)
    sealed(place)
    assert [line.data for line in everything(place)] == [b"one"]


@pytest.mark.parametrize(
    ("data", "settled", "wanted"),
    [
        (b"one\ntwo\n", [0, 4], (2, 0, False)),
        (b"one\ntwo\n", [0], (2, 1, False)),
        (b"one\ntwo\n", [4], (2, 1, False)),
        (b"\n \none\n", [3], (1, 0, False)),
        (b"weldedtwice\nx\n", [0, 6], (2, 1, False)),
        (b"weldedtwice\nx\n", [0, 6, 12], (2, 0, False)),
        (b"  one\n", [2], (1, 0, False)),
        (b"one\ntor", [0], (2, 1, True)),
        (b"", [], (0, 0, False)),
    ],
)
def test_survey_counts_lines_without_a_fate(
    place: Home, data: bytes, settled: list[int], wanted: tuple[int, int, bool]
) -> None:
    """Blank lines need no fate; a welded line has several; a line counts as read when one record in it has one."""
    found = seal.survey(write(place, data), 0, settled)
    assert (found.lines, found.unread, found.torn) == wanted
    assert found.size == len(data)


def test_day_is_that_of_the_last_line_that_says_it(place: Home) -> None:
    """A received time in a text does not count, and one beyond every calendar does no harm."""
    path = write(place, b'{"received_at_ns":1772000000000000000}\n{"x":"\\"received_at_ns\\":1"}\n')
    assert seal.survey(path, 0).day == date(2026, 2, 25)
    assert seal.received_on(b'{"received_at_ns":9999999999999999999}') == date(2262, 4, 11)
    assert seal.received_on(b"{}") is None
