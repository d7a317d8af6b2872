"""Moving a journal file's lines into the archive, so that a crash at any moment loses and doubles none.

The order for one file, each step durable before the next:

1. its lines are written to a temporary file beside the segment they will be;
2. it is renamed, so that hooks begin a new file, and we wait until nobody has it open for writing;
3. the segment is published by rename;
4. segment and file are compared line by line;
5. the file is removed.

A crash after 1 leaves a temporary file; after 2 a renamed file without its segment, which gets its name back; after 3
or 4 both, and the comparison is made again: `recover` does all that.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import BusyError, HeadwaterError, StoreError
from headwater.storage import journal
from headwater.storage.archive import LINES, SCHEMA, Archive, Segment, damaged, segment_name, segment_of
from headwater.storage.faults import fault_point
from headwater.storage.publish import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date
    from pathlib import Path
    from typing import BinaryIO

    from headwater.storage.home import Home

SEALED = ".sealed"
TEMPORARY = ".tmp"
_RECEIVED = re.compile(rb'"received_at_ns" ?: ?([0-9]{1,19})\b')
_POLL_S = 0.02
_FEW: Any = [
    "file"
]  # columns with few values; a dictionary of lines would hold each line once, and only cost


@dataclass(frozen=True, slots=True)
class Survey:
    """What a journal file holds: `size` bytes, `lines` that are not blank, `last` the offset of the last one of those.

    `unread`: lines that have no fate yet; `torn`: the last line has no end; `day` (UTC) of the last line that says when
    it was received.
    """

    size: int
    lines: int
    last: int
    day: date | None
    unread: int
    torn: bool


def survey(path: Path, start: int, settled: Sequence[int] | None = None) -> Survey:
    """Look at every line of a file whose first byte has the offset `start`; `settled`: sorted offsets of records.

    Without `settled` every line counts as read. Raises StoreError.
    """
    lines = unread = n = 0
    last, day, torn, at = start, None, False, start
    with journal.opened(path) as file:
        for at_line, data, ended in _lines(file, start):
            at, torn = at_line + len(data) + ended, not ended
            if journal.is_blank(data):
                continue
            lines, last, day = lines + 1, at_line, received_on(data) or day
            if settled is None:
                continue
            while n < len(settled) and settled[n] < at_line:
                n += 1
            unread += n >= len(settled) or settled[n] >= at
    return Survey(at - start, lines, last, day, unread, torn)


def received_on(line: bytes) -> date | None:
    """Return the UTC day on which a line says it was received, None when it does not."""
    found = _RECEIVED.search(line)
    return None if found is None else clock_module.from_ns(min(int(found[1]), 2**63 - 1)).date()


@dataclass(frozen=True, slots=True)
class Draft:
    """Lines written to a temporary file, and the segment they will be."""

    temporary: Path
    segment: Segment


def write(home: Home, source: Path, key: str, start: int, found: Survey) -> Draft:
    """Write the lines of a journal file to a temporary file in the archive. Durable on return. Raises StoreError."""
    with _errors(source):
        day = found.day or clock_module.from_ns(source.stat().st_mtime_ns).date()
        folder = home.archive / LINES / f"date={day.isoformat()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = segment_name(key, start, found.last, start + found.size, found.lines)
        segment = segment_of(folder / name)
        assert segment is not None, "what segment_name makes, segment_of reads"
        temporary = folder / f".{name}{TEMPORARY}"
        _write_rows(source, segment, temporary)
    fault_point("archive.written")
    return Draft(temporary, segment)


def fits(key: str, start: int, found: Survey) -> bool:
    """Return whether the segment's name is short enough for a file system."""
    name = segment_name(key, start, found.last, start + found.size, found.lines)
    return len(os.fsencode(name)) <= limits.ARCHIVE_FILE_NAME_BYTES


def take_away(home: Home, name: str) -> Path:
    """Rename a journal file so that hooks begin a new one; return its path now. Raises StoreError."""
    sealed = home.journal / (name + SEALED)
    with _errors(sealed):
        (home.journal / name).rename(sealed)
        sync_folder(home.journal)
    fault_point("archive.sealed")
    return sealed


def publish(home: Home, sealed: Path, draft: Draft) -> Segment:
    """Publish the lines of a file that was taken away; the archive and that file have them on return.

    A line that came at the last moment is sealed with the others: the flow reads it from the archive. Raises BusyError
    while somebody has the file open for writing, StoreError.
    """
    _wait_for_writers(sealed)
    with _errors(sealed):
        segment = draft.segment
        if sealed.stat().st_size != segment.end - segment.start:
            draft.temporary.unlink()
            found = survey(sealed, segment.start)
            draft = write(home, sealed, segment.key, segment.start, found)
            segment = draft.segment
        draft.temporary.replace(segment.path)
        for folder in (segment.path.parent, segment.path.parent.parent, home.archive):
            sync_folder(folder)
    fault_point("archive.published")
    return segment


def verify(segment: Segment, sealed: Path) -> None:
    """Compare a published segment with the file it was made from, line by line.

    Raises DamagedError when they differ: then the segment is gone, and `recover` gives the file its name back.
    """
    same, whole = _compare(segment, sealed)
    if not (same and whole):
        with _errors(segment.path):
            segment.path.unlink()
        raise damaged(segment.path, "other lines")
    fault_point("archive.verified")


def remove(sealed: Path) -> None:
    """Remove a file whose lines were published and compared. Raises StoreError."""
    with _errors(sealed):
        sealed.unlink()
        sync_folder(sealed.parent)
    fault_point("archive.removed")


def recover(home: Home) -> None:
    """Finish or undo what a crash interrupted: afterwards every line is in one place. Idempotent.

    Also when a copy of a home caught a file on its way: what is both sealed and in the journal stays where there is
    more of it. The caller holds ARCHIVE_LOCK, or INGEST_LOCK while nobody holds that. Raises StoreError, DamagedError.
    """
    with _errors(home.archive):
        drafts = sorted((home.archive / LINES).glob(f"date=*/.*{TEMPORARY}"))
        sealed_files = sorted(home.journal.glob(f"*{SEALED}"))
        if sealed_files:
            known = [segment_of(one.with_name(one.name[1 : -len(TEMPORARY)])) for one in drafts]
            for sealed in sealed_files:
                _finish(home, sealed, [one for one in known if one is not None])
        for left in drafts:
            left.unlink(missing_ok=True)
        archive = Archive(home.archive)
        for name in archive.names():
            if (home.journal / name).exists():
                _undouble(archive.segments(name)[-1], home.journal / name)


def _finish(home: Home, sealed: Path, drafts: Sequence[Segment]) -> None:
    """Remove a file that was taken away and is sealed; else give it its name back, or seal it when that is taken."""
    archive = Archive(home.archive)
    path = sealed.with_name(sealed.name.removesuffix(SEALED))
    segments = archive.segments(path.name)
    if segments and _undouble(segments[-1], sealed):
        return
    try:
        os.link(sealed, path)  # unlike a rename it replaces nothing
    except FileExistsError:
        _seal_at_once(home, archive, sealed, [one for one in drafts if one.name == path.name])
        return
    sealed.unlink()
    sync_folder(home.journal)


def _seal_at_once(home: Home, archive: Archive, sealed: Path, drafts: Sequence[Segment]) -> None:
    """Seal a file that was taken away while new lines came under its name, which stand behind it."""
    name = sealed.name.removesuffix(SEALED)
    if drafts:
        key, start = drafts[-1].key, drafts[-1].start
    elif archive.segments(name):
        end = archive.end(name)
        key, start = end.key(name), end.base
    else:
        key, start = journal.key_of(name, journal.head_of(sealed)), 0
    try:
        segment = publish(home, sealed, write(home, sealed, key, start, survey(sealed, start)))
    except BusyError:
        return  # whoever has it open may write yet: it is tried again next time
    verify(segment, sealed)
    remove(sealed)


def _undouble(segment: Segment, path: Path) -> bool:
    """When a file begins with all lines of a segment: remove it if that is all, else remove the segment.

    Return whether the file was removed. Files of a session that woke up begin otherwise: each line has its own id.
    """
    if path.stat().st_size < segment.end - segment.start:
        return False
    same, whole = _compare(segment, path)
    if not same:
        return False
    (path if whole else segment.path).unlink()
    sync_folder(path.parent if whole else segment.path.parent)
    return whole


def _compare(segment: Segment, path: Path) -> tuple[bool, bool]:
    """Return whether a file begins with the lines of a segment, and whether that is all of it."""
    import pyarrow.parquet as pq

    offset = segment.start
    try:
        with journal.opened(path) as file, pq.ParquetFile(segment.path) as parquet:
            lines = _lines(file, segment.start)
            for group in range(parquet.metadata.num_row_groups):
                rows = parquet.read_row_group(group, columns=["file", "offset", "line"]).to_pydict()
                for key, at, data in zip(rows["file"], rows["offset"], rows["line"], strict=True):
                    found = next(lines, None)
                    if found is None or (key, at, data) != (segment.key, found[0], found[1]):
                        return False, False
                    offset = at + len(data) + found[2]
            return offset == segment.end, next(lines, None) is None
    except (OSError, pa.ArrowException, KeyError) as error:
        raise damaged(segment.path, str(error)) from error


def _write_rows(source: Path, segment: Segment, target: Path) -> None:
    """Write the lines of a file as rows, in row groups that a reader takes at once."""
    import pyarrow.parquet as pq

    with journal.opened(source) as file, target.open("wb") as out:
        with pq.ParquetWriter(out, SCHEMA, compression="zstd", use_dictionary=_FEW) as writer:
            for rows in _groups(_lines(file, segment.start)):
                offsets, datas = [row[0] for row in rows], [row[1] for row in rows]
                days = [received_on(data) for data in datas]
                columns: dict[str, list[Any]] = {
                    "file": [segment.key] * len(rows),
                    "offset": offsets,
                    "line": datas,
                    "received_on": days,
                }
                writer.write_table(pa.Table.from_pydict(columns, schema=SCHEMA), row_group_size=len(rows))
        out.flush()
        os.fsync(out.fileno())


def _groups(lines: Iterator[tuple[int, bytes, int]]) -> Iterator[list[tuple[int, bytes, int]]]:
    """Yield lines in groups of at most READ_LINES, and about READ_BYTES."""
    group: list[tuple[int, bytes, int]] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line[1])
        if len(group) >= limits.READ_LINES or size >= limits.READ_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _lines(file: BinaryIO | None, start: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield (offset, line without its newline, 1 if it has one else 0) of every line, blank ones too."""
    at, rest = start, b""
    while file is not None and (block := file.read(limits.READ_BYTES)):
        *whole, rest = (rest + block).split(b"\n")
        for data in whole:
            yield at, data, 1
            at += len(data) + 1
    if rest:
        yield at, rest, 0


def _wait_for_writers(path: Path) -> None:
    """Return when nobody has the file open for writing; nobody can begin to, for its name is gone. Raises BusyError.

    Linux gives a read lease only then. Elsewhere we wait longer than any hook writes.
    """
    until_s = clock_module.SYSTEM.monotonic_s() + limits.ARCHIVE_WRITERS_S
    with _errors(path), path.open("rb") as file:
        while True:
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except BlockingIOError as error:
                if clock_module.SYSTEM.monotonic_s() > until_s:
                    problem = "some process has had it open for writing for too long"
                    raise BusyError(str(path), problem, "end that process; the next run seals it") from error
                clock_module.SYSTEM.sleep(_POLL_S)
            except (AttributeError, OSError):  # no leases on this system, or on this file system
                clock_module.SYSTEM.sleep(limits.ARCHIVE_GRACE_S)
                return
            else:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                return


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except HeadwaterError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            str(path), f"cannot be moved to the archive: {error}", "free disk space and check permissions"
        ) from error
