"""The steps of the archive flow: which journal files may leave, and the way of each (see `storage/seal.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError, StoreError
from headwater.schemas.memory_columns import CONTINUITY_LOG, MEMORIES
from headwater.storage import day_files, journal, seal
from headwater.storage.archive import Archive
from headwater.storage.day_files import Day, Export
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from headwater.flows.source import Stop
    from headwater.storage.archive import Segment
    from headwater.storage.home import Home
    from headwater.storage.known_ids import KnownIds

EXPORTS = (
    Export(EVENTS, "at", ("agent", "session_id", "seq"), ("parts", "content_hash")),
    Export(MEMORIES, "created_at", ("project",), ("content_hash", "count", "superseded_by", "last_at")),
    Export(CONTINUITY_LOG, "created_at", ("project",), ("continuity_score", "transition_type", "thread_id")),
)
"""Tables whose closed days are exported."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A journal file without a write for long enough."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A file that was read to its end: the key of its positions, the offset of its first byte, what it holds."""

    name: str
    key: str
    start: int
    found: seal.Survey


@dataclass(frozen=True, slots=True)
class Sealing:
    """A file on its way: what was written, and, once it was taken away, where it is and its segment."""

    name: str
    draft: seal.Draft
    taken: Path | None = None
    segment: Segment | None = None


@dataclass(slots=True)
class ArchiveReport:
    """What one run did. `left`: silent files that stay in the journal, each with the reason."""

    files: int = 0
    lines: int = 0
    journal_bytes: int = 0
    days: int = 0
    left: list[tuple[str, str]] = field(default_factory=list)


class ArchiveSteps:
    """Works on one home; the caller holds INGEST_LOCK and ARCHIVE_LOCK."""

    def __init__(
        self,
        home: Home,
        known: KnownIds,
        stop: Stop,
        now: datetime,
        older_than_s: float,
        *,
        dry_run: bool = False,
    ) -> None:
        """`older_than_s`: how long a file must have been silent. `dry_run`: only tell what would be sealed."""
        self._home = home
        self._known = known
        self._stop = stop
        self._now = now
        self._older_than_s = older_than_s
        self._dry_run = dry_run
        self.report = ArchiveReport()

    def silent_files(self) -> Iterator[Silent]:
        """Yield silent journal files by name, until told to stop."""
        for one in silent_files(self._home, self._now, self._older_than_s):
            if self._stop.is_set():
                return
            yield one

    def check_read(self, silent: Silent) -> list[Ready]:
        """Return the file as ready when every line has its fate; else nothing, and the reason is in the report."""
        found: seal.Survey | None = None
        for key, start in self._keys(silent.name):
            settled = self._known.offsets(key, start, start + silent.size)
            found = seal.survey(self._home.journal / silent.name, start, settled)
            if found.unread <= found.torn:  # a line without its end was not read, and is told as that
                return self._unless_odd(Ready(silent.name, key, start, found))
        why = "nothing complete in it" if found is None else f"{found.unread} lines are not read yet"
        self.report.left.append((silent.name, why))
        return []

    def _unless_odd(self, ready: Ready) -> list[Ready]:
        why = None
        if ready.found.torn:
            why = "its last line has no end"
        elif not seal.fits(ready.key, ready.start, ready.found):
            why = "its name is too long"
        if why is not None:
            self.report.left.append((ready.name, why))
        elif self._dry_run:
            self._count(ready.found.lines, ready.found.size)
        else:
            return [ready]
        return []

    def _keys(self, name: str) -> list[tuple[str, int]]:
        """Return the keys that positions of a file may have, the likeliest first, each with its first offset."""
        archive = Archive(self._home.archive)
        head = journal.head_of(self._home.journal / name)
        if not head:
            return []
        end = archive.end(name)
        first = (end.key(name), end.base) if archive.segments(name) else (journal.key_of(name, head), 0)
        turns = [key for key in self._known.keys_of(name) if key.startswith(journal.key_of(name, head) + ".")]
        return [*((key, 0) for key in sorted(turns, key=len, reverse=True)), first]

    def write_lines(self, ready: Ready) -> Sealing:
        """Write the lines to a temporary file."""
        path = self._home.journal / ready.name
        return Sealing(ready.name, seal.write(self._home, path, ready.key, ready.start, ready.found))

    def publish(self, sealing: Sealing) -> list[Sealing]:
        """Take the file out of the writers' way and publish its lines; not while somebody has it open."""
        taken = seal.take_away(self._home, sealing.name)
        try:
            segment = seal.publish(self._home, taken, sealing.draft)
        except BusyError as error:
            self.report.left.append((sealing.name, error.problem))
            return []
        return [Sealing(sealing.name, sealing.draft, taken, segment)]

    def verify(self, sealing: Sealing) -> Sealing:
        """Compare segment and file line by line."""
        assert sealing.segment is not None
        assert sealing.taken is not None
        seal.verify(sealing.segment, sealing.taken)
        return sealing

    def remove(self, batch: list[Sealing]) -> None:
        """Remove the journal file: the archive has its lines."""
        for sealing in batch:
            assert sealing.segment is not None
            assert sealing.taken is not None
            seal.remove(sealing.taken)
            self._count(sealing.segment.lines, sealing.segment.end - sealing.segment.start)

    def closed_days(self) -> Iterator[tuple[Export, Day]]:
        """Yield the closed days of each table that have to be exported, until told to stop."""
        for export in EXPORTS:
            table = LanceStore(self._home.lance).open(export.definition, create=False)
            folder = day_files.folder_of(self._home, export)
            for day in day_files.days_to_write(table, export, folder, self._now):
                if self._stop.is_set():
                    return
                if self._dry_run:
                    self.report.days += 1
                else:
                    yield export, day

    def export_day(self, batch: list[tuple[Export, Day]]) -> None:
        """Write the file of a day."""
        for export, day in batch:
            table = LanceStore(self._home.lance).open(export.definition, create=False)
            day_files.write_day(table, export, day_files.folder_of(self._home, export), day)
            self.report.days += 1

    def _count(self, lines: int, size: int) -> None:
        self.report.files += 1
        self.report.lines += lines
        self.report.journal_bytes += size


def silent_files(
    home: Home, now: datetime, older_than_s: float = limits.ARCHIVE_SILENT_S
) -> Iterator[Silent]:
    """Yield the journal files whose last write is so long ago, by name; the control journal stays."""
    for name, size in sorted(journal.list_files(home.journal).items()):
        try:
            written = clock_module.from_ns((home.journal / name).stat().st_mtime_ns)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(
                str(home.journal / name), f"cannot be looked at: {error}", "check its permissions"
            ) from error
        if size and (now - written).total_seconds() >= older_than_s:
            yield Silent(name, size)
