r"""The journal: append-only JSONL files in one flat folder, read from a cursor, never changed here.

A line ends at `\n` and at nothing else; a last line without one is not read yet, and a blank one is nothing. A cursor
names its file by the hash of its first line as well, so that a file put in the place of another is read from its start.
Only regular files are read: whatever else bears a journal's name (a link, a pipe, a folder) is nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_SUFFIX = ".jsonl"
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # not blocking: it may be a pipe
_NOTHING = frozenset({errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP})  # vanished; a link; a socket
CONTROL_NAME = "control.jsonl"


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a file has been read: `offset` bytes of the file whose first line hashes to `head`.

    `turn` counts how often the file was replaced or cut under us: each time its positions mean something new. It never
    goes back, so a file that is put back in its place with another end is not taken for what it was.

    A session that wakes up after its lines went to the archive writes a new file of the same name. That file goes on
    where the sealed lines ended: `base` is the offset of its first byte and `origin` the mark of the sealed lines, so
    that a line has the same position whether lines before it were sealed or not.
    """

    offset: int = 0
    head: str = ""
    turn: int = 0
    base: int = 0
    origin: str = ""

    @property
    def mark(self) -> str:
        """What tells the file from others that bore its name; empty while nothing of it was read."""
        if self.origin or not self.head:
            return self.origin
        return self.head if self.turn == 0 else f"{self.head}.{self.turn}"

    def key(self, name: str) -> str:
        """Return what stands for this file in a position: offsets of two keys never mean the same line."""
        return key_of(name, self.mark)


@dataclass(frozen=True, slots=True)
class RawLine:
    """One journal line without its newline; `oversize_bytes` is set, and `data` cut, when it was too long."""

    file: str
    offset: int
    data: bytes
    oversize_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """Lines read, where to read on, and whether the file may hold more complete lines already."""

    lines: list[RawLine]
    cursor: Cursor
    more: bool


def name_of_key(key: str) -> str:
    """Return the file name of a position's file key."""
    return key.rpartition("@")[0]


def list_files(folder: Path) -> dict[str, int]:
    """Return name -> size (bytes) of the session files in the journal folder; only regular files with names in UTF-8.

    Raises StoreError when the folder cannot be listed.
    """
    sizes: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if (
                    entry.name.endswith(_SUFFIX)
                    and entry.name != CONTROL_NAME
                    and _is_utf8(entry.name)
                    and entry.is_file(follow_symlinks=False)
                ):
                    with suppress(FileNotFoundError):  # it went away since the folder was listed
                        sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    except OSError as error:
        raise StoreError(
            str(folder), f"cannot be listed: {error}", "check the folder and its permissions"
        ) from error
    return sizes


def read(folder: Path, name: str, cursor: Cursor) -> Read:
    """Read complete lines after the cursor: at most READ_LINES of them and about READ_BYTES.

    A vanished file gives nothing. Raises StoreError when the file cannot be read.
    """
    with opened(folder / name) as file:
        if file is None:
            return Read([], cursor, more=False)
        cursor = _settle(file, cursor)
        if not cursor.head:
            return Read([], cursor, more=False)
        return _read_lines(file, name, cursor)


def key_of(name: str, mark: str) -> str:
    """Return the key of a position: `Cursor.key` of a cursor with that mark."""
    return f"{name}@{mark}"


def is_blank(data: bytes) -> bool:
    """Return whether a line is nothing: a writer that finds a torn line starts with a newline."""
    return not data or data.isspace()


def head_of(path: Path) -> str:
    """Return the hash that names a file by its first line; empty while that line is not complete, or without a file.

    Raises StoreError when the file cannot be read.
    """
    with opened(path) as file:
        return "" if file is None else _head(file)


def count_newlines(path: Path) -> int:
    """Return how many complete lines, blank ones too, a file has; 0 without one. Raises StoreError."""
    count = 0
    with opened(path) as file:
        while file is not None and (block := file.read(limits.READ_BYTES)):
            count += block.count(b"\n")
    return count


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO | None]:
    """Yield the file unbuffered, None when there is no regular file; errors of opening and reading become ours."""
    try:
        handle = _open_regular(path)
        if handle is None:
            yield None
        else:
            with open(handle, "rb", buffering=0) as file:  # noqa: PTH123 - it is open already
                yield file
    except OSError as error:
        raise StoreError(
            str(path), f"cannot be read: {error}", "check the file and its permissions"
        ) from error


def _open_regular(path: Path) -> int | None:
    try:
        handle = os.open(path, _OPEN)
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def _is_utf8(name: str) -> bool:
    """Whether a name from the file system can be stored: the flow could not name another one anywhere."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _settle(file: BinaryIO, cursor: Cursor) -> Cursor:
    """Return a cursor that fits the file as it is now: the same, or the start of what is there instead."""
    head = _head(file)
    if not cursor.head:
        return Cursor(cursor.base, head, cursor.turn, cursor.base, cursor.origin)
    if head != cursor.head or not _ends_line(file, cursor.offset - cursor.base):
        return Cursor(0, head, cursor.turn + 1)
    return cursor


def _ends_line(file: BinaryIO, offset: int) -> bool:
    """Whether a line ends just before the offset: not so when the file was cut, or cut and grown again."""
    if offset == 0:
        return True
    file.seek(offset - 1)
    return file.read(1) == b"\n"


def _head(file: BinaryIO) -> str:
    file.seek(0)
    block = file.read(limits.HEAD_BYTES)
    line, newline, _ = block.lstrip(b"\n").partition(b"\n")  # blank lines tell no file from another
    if not newline and len(block) < limits.HEAD_BYTES:
        return ""
    return hashlib.sha256(line).hexdigest()[:12]


def _read_lines(file: BinaryIO, name: str, cursor: Cursor) -> Read:
    key = cursor.key(name)
    file.seek(cursor.offset - cursor.base)
    block = file.read(limits.READ_BYTES)
    last = block.rfind(b"\n")
    while last < 0 and len(block) <= limits.LINE_BYTES:
        more = file.read(max(len(block), 1))
        if not more:
            return Read([], cursor, more=False)
        block += more
        last = block.rfind(b"\n")
    if last < 0:
        return _skip_oversize(file, key, cursor, block)
    lines: list[RawLine] = []
    start = 0
    while start <= last and len(lines) < limits.READ_LINES:
        end = block.index(b"\n", start)
        data = block[start:end]
        if not is_blank(data):
            lines.append(line_of(key, cursor.offset + start, data, len(data)))
        start = end + 1
    after = replace(cursor, offset=cursor.offset + start)
    return Read(
        lines, after, more=start <= last or (len(block) >= limits.READ_BYTES and _is_longer(file, after))
    )


def line_of(key: str, offset: int, data: bytes, length_bytes: int) -> RawLine:
    """Return a line as readers give it: cut, and marked, when it is longer than LINE_BYTES."""
    if length_bytes <= limits.LINE_BYTES:
        return RawLine(key, offset, data)
    return RawLine(key, offset, data[: limits.EXCERPT_CHARS], oversize_bytes=length_bytes)


def _is_longer(file: BinaryIO, cursor: Cursor) -> bool:
    return os.fstat(file.fileno()).st_size > cursor.offset - cursor.base


def _skip_oversize(file: BinaryIO, key: str, cursor: Cursor, block: bytes) -> Read:
    """Pass over a line longer than LINE_BYTES, keeping its beginning, without holding it."""
    length = len(block)
    while True:
        chunk = file.read(limits.READ_BYTES)
        if not chunk:
            return Read([], cursor, more=False)  # it has no end yet
        end = chunk.find(b"\n")
        if end >= 0:
            length += end
            break
        length += len(chunk)
    after = replace(cursor, offset=cursor.offset + length + 1)
    return Read([line_of(key, cursor.offset, block, length)], after, more=_is_longer(file, after))
