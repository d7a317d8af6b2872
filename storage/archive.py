"""The archive: lines of journal files that went silent, sealed in Parquet, and the journal behind them, read as one.

A *segment* is one file of `archive/lines/date=YYYY-MM-DD/`: the lines of one journal file, byte for byte, blank ones
too, so that joining them with newlines gives the journal file again. Its name tells all that finding it takes:

    <journal file>@<mark>.<start>-<last>-<end>-<lines>.parquet

`start` and `end` are offsets (bytes), `last` that of the last line that is not blank, `lines` the number of those. The
date is the day on which the last line was received. All lines that ever bore one journal name are one stream of
offsets: a session that wakes up goes on where its sealed lines end (see `journal.Cursor`): sealing moves no position.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.schemas.errors import DamagedError, StoreError
from headwater.storage import journal
from headwater.storage.journal import Cursor, RawLine, Read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.storage.home import Home

_FIELDS: list[pa.Field[Any]] = [
    pa.field("file", pa.string(), nullable=False),  # the key of the line's position
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("line", pa.large_binary(), nullable=False),  # without its newline
    pa.field("received_on", pa.date32()),  # UTC day of received_at_ns, null when the line does not say
]
SCHEMA = pa.schema(_FIELDS)
LINES = "lines"
_SEGMENT = re.compile(
    r"(?P<key>.+@(?P<mark>[0-9a-f]{12}(?:\.(?P<turn>[0-9]+))?))"
    r"\.(?P<start>[0-9]+)-(?P<last>[0-9]+)-(?P<end>[0-9]+)-(?P<lines>[0-9]+)\.parquet",
    re.DOTALL,  # a file name may hold a newline
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One sealed piece of a journal file; offsets as in the module's text."""

    path: Path
    key: str
    mark: str
    turn: int
    start: int
    last: int
    end: int
    lines: int

    @property
    def name(self) -> str:
        """The journal file's name."""
        return journal.name_of_key(self.key)


def segment_name(key: str, start: int, last: int, end: int, lines: int) -> str:
    """Return the file name of a segment: the same lines always give the same one."""
    return f"{key}.{start}-{last}-{end}-{lines}.parquet"


def segment_of(path: Path) -> Segment | None:
    """Return what a file's name says, None when it is no segment of ours."""
    found = _SEGMENT.fullmatch(path.name)
    if found is None:
        return None
    start, last, end, lines = (int(found[name]) for name in ("start", "last", "end", "lines"))
    return Segment(path, found["key"], found["mark"], int(found["turn"] or 0), start, last, end, lines)


class Archive:
    """What is sealed in a folder `archive/`, as it was when this was made. Making one lists names and opens nothing.

    Not safe to share between threads. While it is used, nothing may be sealed: hold ARCHIVE_LOCK or INGEST_LOCK.
    """

    def __init__(self, folder: Path) -> None:
        """List the segments; a missing folder has none. Raises StoreError."""
        self._segments: dict[str, list[Segment]] = {}
        try:
            found = [segment_of(path) for path in (folder / LINES).glob("date=*/*.parquet")]
        except OSError as error:
            raise StoreError(str(folder), f"cannot be listed: {error}", "check its permissions") from error
        for segment in found:
            if segment is not None:
                self._segments.setdefault(segment.name, []).append(segment)
        for segments in self._segments.values():
            segments.sort(key=lambda one: (one.turn, one.mark, one.start, one.end))
        self._open: tuple[Path, Any, list[int]] | None = None

    def names(self) -> list[str]:
        """Return the journal file names that have sealed lines, sorted."""
        return sorted(self._segments)

    def segments(self, name: str) -> list[Segment]:
        """Return the segments of a journal file name in the order of their lines."""
        return list(self._segments.get(name, ()))

    def count_lines(self) -> int:
        """Return how many lines are sealed, blank ones left out."""
        return sum(segment.lines for segments in self._segments.values() for segment in segments)

    def end(self, name: str) -> Cursor:
        """Return where the journal file of that name goes on: after its sealed lines, at its start when it has none."""
        segments = self._segments.get(name)
        if not segments:
            return Cursor()
        last = segments[-1]
        return Cursor(last.end, "", last.turn, last.end, last.mark)

    def has_more(self, name: str, cursor: Cursor) -> bool:
        """Return whether sealed lines stand after the cursor."""
        return self._after(name, cursor) is not None

    def placed(self, name: str, cursor: Cursor) -> Cursor:
        """Return the cursor for the file that bears the name now: another one than before its lines were sealed."""
        end = self.end(name)
        return end if cursor.mark == end.mark and cursor.base < end.base <= cursor.offset else cursor

    def read(self, journal_folder: Path, name: str, cursor: Cursor) -> Read:
        """Return the next lines of a name: sealed ones first, then those in the journal; bounded like `journal.read`.

        Sealed lines come a row group at a time, which may be blank lines only: then there are none, and `more` is true.
        Raises DamagedError for a segment that is not what it was, StoreError like `journal.read`.
        """
        segment = self._after(name, cursor)
        if segment is None:
            return journal.read(journal_folder, name, self.placed(name, cursor))
        offset = cursor.offset if cursor.mark == segment.mark else segment.start
        lines, after = self._rows(segment, offset)
        return Read(lines, Cursor(after, "", segment.turn, after, segment.mark), more=True)

    def _after(self, name: str, cursor: Cursor) -> Segment | None:
        """Return the first segment that holds lines after the cursor.

        A cursor with a mark that no segment has is of a file that came after all of them.
        """
        segments = self._segments.get(name, [])
        if not segments or not cursor.mark:
            return segments[0] if segments else None
        behind = [n for n, one in enumerate(segments) if one.mark == cursor.mark]
        if not behind:
            return None
        rest = segments[behind[0] :]
        return next((one for one in rest if one.mark != cursor.mark or one.end > cursor.offset), None)

    def _rows(self, segment: Segment, offset: int) -> tuple[list[RawLine], int]:
        """Return the lines of the row group that holds the offset, from there on, and the offset after them."""
        try:
            file, ends = self._opened(segment)
            group = bisect_left(ends, offset)  # ends: the largest offset of each row group
            if group >= len(ends):
                return [], segment.end
            table = file.read_row_group(group, columns=["offset", "line"])
        except (OSError, pa.ArrowException, KeyError, AttributeError) as error:
            raise damaged(segment.path, str(error)) from error
        offsets, datas = table.column("offset").to_pylist(), table.column("line").to_pylist()
        lines = [
            journal.line_of(segment.key, at, data, len(data))
            for at, data in zip(offsets, datas, strict=True)
            if at >= offset and not journal.is_blank(data)
        ]
        return lines, min(offsets[-1] + len(datas[-1]) + 1, segment.end)

    def _opened(self, segment: Segment) -> tuple[Any, list[int]]:
        if self._open is None or self._open[0] != segment.path:
            import pyarrow.parquet as pq

            file: Any = pq.ParquetFile(segment.path)
            column = SCHEMA.get_field_index("offset")
            groups = range(file.metadata.num_row_groups)
            ends = [int(file.metadata.row_group(n).column(column).statistics.max) for n in groups]
            self._open = (segment.path, file, ends)
        return self._open[1], self._open[2]


def journal_cursor(home: Home, name: str) -> Cursor:
    """Return a cursor at the start of a journal file as it is now: its `key` and `base` make positions of byte offsets.

    Raises StoreError.
    """
    end = Archive(home.archive).end(name)
    return Cursor(end.base, journal.head_of(home.journal / name), end.turn, end.base, end.origin)


def read_all(home: Home) -> Iterator[RawLine]:
    """Yield every line of layer 0, archive and journal as one: by journal file name, each in the order it was written.

    Nothing may be sealed meanwhile (hold ARCHIVE_LOCK), and nothing left half sealed (`seal.recover`). Raises like
    `Archive.read`.
    """
    archive = Archive(home.archive)
    for name in sorted({*archive.names(), *journal.list_files(home.journal)}):
        cursor, more = Cursor(), True
        while more:
            got = archive.read(home.journal, name, cursor)
            yield from got.lines
            cursor, more = got.cursor, got.more


def count_lines(home: Home) -> int:
    """Return about how many lines layer 0 has: sealed ones, and newlines in the journal. Raises StoreError."""
    count = Archive(home.archive).count_lines()
    for name in journal.list_files(home.journal):
        count += journal.count_newlines(home.journal / name)
    return count


def damaged(path: Path, said: str) -> DamagedError:
    """Return the error of a segment that is not what was published."""
    return DamagedError(
        str(path), f"wanted the sealed lines its name tells, got: {said}", "restore this file from a backup"
    )
