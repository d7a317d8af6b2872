from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas import limits
from headwater.schemas.errors import StoreError
from headwater.storage import journal
from headwater.storage.journal import Cursor, RawLine

NAME = "claude-code-s1.jsonl"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make limits small enough to be met by small files."""
    monkeypatch.setattr(limits, "READ_BYTES", 64)
    monkeypatch.setattr(limits, "READ_LINES", 5)
    monkeypatch.setattr(limits, "LINE_BYTES", 200)
    monkeypatch.setattr(limits, "HEAD_BYTES", 32)
    monkeypatch.setattr(limits, "EXCERPT_CHARS", 10)


def write(folder: Path, data: bytes, name: str = NAME) -> None:
    """Put a file there, in the place of what was there: as by a copy, not as by an append."""
    (folder / name).write_bytes(data)


def append(folder: Path, data: bytes, name: str = NAME) -> None:
    """Append as the hook does."""
    with (folder / name).open("ab") as file:
        file.write(data)


def read_all(folder: Path, cursor: Cursor, name: str = NAME) -> tuple[list[RawLine], Cursor]:
    """Read until there is no more; each read goes on or ends."""
    lines: list[RawLine] = []
    while True:
        got = journal.read(folder, name, cursor)
        assert len(got.lines) <= limits.READ_LINES
        lines += got.lines
        if not got.more:
            return lines, got.cursor
        assert got.cursor.offset > cursor.offset or got.cursor.turn > cursor.turn
        cursor = got.cursor


def texts(lines: list[RawLine]) -> list[bytes]:
    """Return what the lines hold."""
    return [line.data for line in lines]


def test_lines_and_their_places(tmp_path: Path) -> None:
    """Each line comes with the offset of its first byte, and the cursor stands behind the last newline."""
    write(tmp_path, b"one\ntwo\n\nfour\n")
    lines, cursor = read_all(tmp_path, Cursor())
    assert [(line.offset, line.data) for line in lines] == [(0, b"one"), (4, b"two"), (9, b"four")]
    assert cursor.offset == 14
    assert {line.file for line in lines} == {cursor.key(NAME)}
    assert journal.name_of_key(cursor.key(NAME)) == NAME
    assert read_all(tmp_path, cursor) == ([], cursor)


def test_torn_last_line_waits(tmp_path: Path) -> None:
    """A line written in two halves is read once, whole, when its newline is there."""
    write(tmp_path, b'{"a":1}\n{"b"')
    lines, cursor = read_all(tmp_path, Cursor())
    assert texts(lines) == [b'{"a":1}']
    assert read_all(tmp_path, cursor) == ([], cursor)
    append(tmp_path, b":2}\n")
    lines, cursor = read_all(tmp_path, cursor)
    assert [(line.offset, line.data) for line in lines] == [(8, b'{"b":2}')]


def test_torn_first_line_waits(tmp_path: Path) -> None:
    """The very first line, in halves, is read once; the cursor has no name for the file before."""
    write(tmp_path, b'{"a"')
    lines, cursor = read_all(tmp_path, Cursor())
    assert (lines, cursor.head) == ([], "")
    append(tmp_path, b":1}\n")
    assert texts(read_all(tmp_path, cursor)[0]) == [b'{"a":1}']


@pytest.mark.parametrize(
    "data", [b"a\r\nb\r\n", "x\u2028y\u2029z\x85\n".encode(), b"a\rb\n", b"\x00\x00\n", b"\xff\xfe\n"]
)
def test_only_a_newline_ends_a_line(tmp_path: Path, data: bytes) -> None:
    """Other line ends, NULs and bytes that are no text are part of the line."""
    write(tmp_path, data)
    assert texts(read_all(tmp_path, Cursor())[0]) == data[:-1].split(b"\n")


def test_blank_lines_are_nothing(tmp_path: Path) -> None:
    """Empty lines and lines of white space give nothing and stop nothing."""
    write(tmp_path, b"\n\n \r\n\t\na\n\n")
    lines, cursor = read_all(tmp_path, Cursor())
    assert texts(lines) == [b"a"]
    assert cursor.offset == (tmp_path / NAME).stat().st_size


def test_limits_of_one_read(tmp_path: Path, few: None) -> None:
    """A read ends at READ_LINES or about READ_BYTES and says that there is more."""
    write(tmp_path, b"".join(b"%d\n" % n for n in range(12)))
    got = journal.read(tmp_path, NAME, Cursor())
    assert (len(got.lines), got.more) == (5, True)
    assert texts(read_all(tmp_path, Cursor())[0]) == [b"%d" % n for n in range(12)]
    write(tmp_path, b"".join(b"%040d\n" % n for n in range(4)))
    got = journal.read(tmp_path, NAME, Cursor())
    assert (len(got.lines), got.more) == (1, True)
    assert len(read_all(tmp_path, Cursor())[0]) == 4


def test_a_line_longer_than_a_read(tmp_path: Path, few: None) -> None:
    """A line above READ_BYTES but within LINE_BYTES is read whole, at any place in the file."""
    data = [b"a", b"b" * 150, b"c", b"d" * 200]
    write(tmp_path, b"\n".join(data) + b"\n")
    lines, _ = read_all(tmp_path, Cursor())
    assert texts(lines) == data
    assert not any(line.oversize_bytes for line in lines)


@pytest.mark.parametrize("length", [201, 250, 256, 300, 400, 513, 1000, 5000])
@pytest.mark.parametrize("before", [b"", b"first\n", b"x" * 63 + b"\n"])
def test_oversize_line_is_cut_and_counted(tmp_path: Path, few: None, length: int, before: bytes) -> None:
    """A line longer than LINE_BYTES is kept as its beginning and its length; the lines around it are whole."""
    write(tmp_path, before + b"y" * length + b"\nlast\n")
    lines, _ = read_all(tmp_path, Cursor())
    long, last = lines[-2:]
    assert (long.offset, long.data, long.oversize_bytes) == (len(before), b"y" * 10, length)
    assert (last.offset, last.data) == (len(before) + length + 1, b"last")
    assert texts(lines[:-2]) == before.split(b"\n")[:-1]


def test_oversize_line_without_its_end_waits(tmp_path: Path, few: None) -> None:
    """As long as its newline is missing even a line that is too long is not passed over."""
    write(tmp_path, b"a\n" + b"y" * 500)
    lines, cursor = read_all(tmp_path, Cursor())
    assert (texts(lines), cursor.offset) == ([b"a"], 2)
    append(tmp_path, b"y" * 100 + b"\nb\n")
    lines, _ = read_all(tmp_path, cursor)
    assert [(line.oversize_bytes, line.offset) for line in lines] == [(600, 2), (0, 603)]


def test_first_line_longer_than_the_head(tmp_path: Path, few: None) -> None:
    """A file is named by the beginning of its first line, so its name does not change while that line grows."""
    write(tmp_path, b"h" * 40)
    lines, cursor = read_all(tmp_path, Cursor())
    assert lines == []
    append(tmp_path, b"h" * 60 + b"\nb\n")
    lines, after = read_all(tmp_path, cursor)
    assert texts(lines) == [b"h" * 100, b"b"]
    assert after.turn == 0
    assert journal.head_of(tmp_path / NAME) == after.head == hashlib.sha256(b"h" * 32).hexdigest()[:12]


def test_replaced_file_is_read_from_its_start(tmp_path: Path) -> None:
    """Another file in the same place is read from its start, also when it is longer, under another key."""
    write(tmp_path, b"a1\na2\n")
    _, old = read_all(tmp_path, Cursor())
    write(tmp_path, b"b1\nb2\nb3\n")
    lines, new = read_all(tmp_path, old)
    assert texts(lines) == [b"b1", b"b2", b"b3"]
    assert old.key(NAME) != new.key(NAME)


def test_file_that_comes_back_is_not_mistaken(tmp_path: Path) -> None:
    """The first file put back with another end: its lines have positions that never named another line."""
    seen: dict[tuple[str, int], bytes] = {}
    cursor = Cursor()
    for data in (b"a\nx\n", b"b\ny\n", b"a\nz\n", b"a\n", b"a\nw\n", b"", b"a\nv\n"):
        write(tmp_path, data)
        lines, cursor = read_all(tmp_path, cursor)
        for line in lines:
            assert seen.setdefault((line.file, line.offset), line.data) == line.data
    assert sorted(set(seen.values())) == [b"a", b"b", b"v", b"w", b"x", b"y", b"z"]


def test_truncated_file_is_read_again(tmp_path: Path) -> None:
    """A file that got shorter is read from its start under a new key."""
    write(tmp_path, b"a\nb\nc\n")
    _, old = read_all(tmp_path, Cursor())
    write(tmp_path, b"a\nX\n")
    lines, new = read_all(tmp_path, old)
    assert texts(lines) == [b"a", b"X"]
    assert new.turn == old.turn + 1


def test_cut_and_grown_again(tmp_path: Path) -> None:
    """A file that was cut and is longer again by now is noticed when the cursor stands inside a line."""
    write(tmp_path, b"a\nb\nc\n")
    _, old = read_all(tmp_path, Cursor())
    write(tmp_path, b"a\nlonger than before\n")
    assert texts(read_all(tmp_path, old)[0]) == [b"a", b"longer than before"]


def test_blank_first_line_does_not_name_a_file(tmp_path: Path) -> None:
    """Two files that begin with an empty line are told apart by what follows."""
    write(tmp_path, b"\nold\n")
    _, cursor = read_all(tmp_path, Cursor())
    write(tmp_path, b"\nnew\nmore\n")
    assert texts(read_all(tmp_path, cursor)[0]) == [b"new", b"more"]


def test_overwritten_in_place_goes_on(tmp_path: Path) -> None:
    """A later line overwritten at equal length leaves the cursor where it is."""
    write(tmp_path, b"a\nsecret\n")
    _, cursor = read_all(tmp_path, Cursor())
    with (tmp_path / NAME).open("r+b") as file:
        file.seek(2)
        file.write(b"......")
    append(tmp_path, b"c\n")
    assert texts(read_all(tmp_path, cursor)[0]) == [b"c"]


def test_vanished_file_gives_nothing(tmp_path: Path) -> None:
    """A file that is gone is nothing to read, and the cursor stays."""
    cursor = Cursor(5, "abc", 2)
    assert journal.read(tmp_path, NAME, cursor) == journal.Read([], cursor, more=False)
    assert journal.head_of(tmp_path / NAME) == ""


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A link, a pipe or a folder with a journal's name is neither listed nor read, and blocks nothing."""
    write(tmp_path, b"secret\n", "elsewhere.txt")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.txt")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    write(tmp_path, b"a\n")
    write(tmp_path, b"{}\n", journal.CONTROL_NAME)
    assert journal.list_files(tmp_path) == {NAME: 2}
    for name in ("link.jsonl", "dangling.jsonl", "folder.jsonl", "pipe.jsonl"):
        assert journal.read(tmp_path, name, Cursor()).lines == []
        assert journal.head_of(tmp_path / name) == ""


def test_names_that_are_not_utf8_are_left_out(tmp_path: Path) -> None:
    """A name that nothing of ours can store does not stop the others."""
    write(tmp_path, b"a\n")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))).write_bytes(b"b\n")
    assert list(journal.list_files(tmp_path)) == [NAME]


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    """A journal folder that cannot be listed is told with the fix."""
    with pytest.raises(StoreError, match="Fix: check the folder"):
        journal.list_files(tmp_path / "none")


def test_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A file below something that is no folder is told as our error."""
    write(tmp_path, b"a\n", "file")
    with pytest.raises(StoreError, match="cannot be read"):
        journal.read(tmp_path / "file", NAME, Cursor())
    with pytest.raises(StoreError, match="cannot be read"):
        journal.head_of(tmp_path / "file" / NAME)


HEADS = st.text("0123456789abcdef", min_size=12, max_size=12)
NAMES = st.text("abc@.-_0", min_size=1, max_size=6).map(lambda name: f"{name}.jsonl")
KEYS = st.tuples(NAMES, HEADS, st.integers(0, 12))


@given(KEYS, KEYS)
def test_keys_never_collide(one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    """Name, head and turn make a key of their own, which gives the name back."""
    keys = [Cursor(7, head, turn).key(name) for name, head, turn in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)
    assert journal.name_of_key(keys[0]) == one[0]


@given(
    st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"n")), max_size=30),
    st.lists(st.integers(1, 50), min_size=1, max_size=8),
)
def test_lines_arrive_once_however_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[bytes], steps: list[int]
) -> None:
    """Written in pieces of any size with reads in between, each line that is not blank is read once, in order."""
    folder = tmp_path_factory.mktemp("journal")
    data = b"".join(line + b"\n" for line in wanted)
    cursor, found, done = Cursor(), list[RawLine](), 0
    for n in range(len(data)):
        if done >= len(data):
            break
        step = steps[n % len(steps)]
        append(folder, data[done : done + step])
        done += step
        lines, cursor = read_all(folder, cursor)
        found += lines
    assert texts(found) == [line for line in wanted if line.strip()]
    assert all(data[line.offset :].startswith(line.data + b"\n") for line in found)
    assert {line.file for line in found} <= {cursor.key(NAME)}


def test_many_writers_one_reader(tmp_path: Path) -> None:
    """Lines of several processes that append at once are read while they write, each once."""
    script = (
        "import os, sys\n"
        "fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)\n"
        "for n in range(200): os.write(fd, f'{sys.argv[2]}:{n}:{\"x\" * (n * 37 % 5000)}\\n'.encode())\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", script, str(tmp_path / NAME), str(n)])
        for n in range(4)
    ]
    cursor, found = Cursor(), list[RawLine]()
    while any(writer.poll() is None for writer in writers):
        lines, cursor = read_all(tmp_path, cursor)
        found += lines
    lines, cursor = read_all(tmp_path, cursor)
    names = [b":".join(line.data.split(b":")[:2]) for line in found + lines]
    assert sorted(names) == sorted(b"%d:%d" % (w, n) for w in range(4) for n in range(200))
