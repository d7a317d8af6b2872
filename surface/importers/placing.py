"""Where an import's lines stand in layer 0, and the register of the generation in use that tells their fates.

A journal file may be sealed or replaced, and the generation switched, at any moment of an import.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.schemas import clock, limits
from headwater.schemas.errors import BusyError, StoreError
from headwater.storage import archive, journal, seal
from headwater.storage.archive import Archive
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import ARCHIVE_LOCK
from headwater.surface import capture

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home
    from headwater.storage.journal import Cursor

_APPENDS = 5  # of one line whose file is sealed each time right behind it: once is rare already
_POLL_S = 0.05
_LOOK_S = 0.5  # how old what we know of the generation in use may be
Span = tuple[str, int, int]
"""Key of positions, start and end (offsets)."""


@dataclass(slots=True)
class JournalFile:
    """One file that bore a journal name while lines were appended: where it begins, and their byte spans in it."""

    name: str
    inode: int
    cursor: Cursor
    spans: list[tuple[int, int]] = field(default_factory=list)
    lines: int = 0

    def note(self, start: int, end: int) -> None:
        """Note one appended line, joined to the one before when nothing lies between."""
        self.lines += 1
        if self.spans and self.spans[-1][1] == start:
            self.spans[-1] = (self.spans[-1][0], end)
        else:
            self.spans.append((start, end))

    def keyed(self, known: KnownIds) -> list[Span]:
        """Return the spans under the key that their positions have on record, or else will have."""
        key, base = self.cursor.key(self.name), self.cursor.base
        # the flow counts how often the file was replaced under it: only its register knows
        turns = f"{journal.key_of(self.name, self.cursor.head)}."
        replaced = [one for one in known.keys_of(self.name) if one.startswith(turns)]
        if replaced:
            key, base = max(replaced, key=lambda one: int(one.removeprefix(turns))), 0
        return [(key, base + start, base + end) for start, end in self.spans]

    def is_there(self, home: Home) -> bool:
        """Return whether its lines are in layer 0 still: under its name, sealed, or on the way.

        Told by first line and length: the inode of a file that went away is soon given to another.
        """
        end, path = self.spans[-1][1], home.journal / self.name
        same = journal.head_of(path) == self.cursor.head and (_found(path) or (0, 0))[1] >= end
        return (
            same
            or self._is_moving(home)
            or Archive(home.archive).end(self.name).base >= self.cursor.base + end
        )

    def _is_moving(self, home: Home) -> bool:
        return (home.journal / (self.name + seal.SEALED)).exists()


@dataclass(slots=True)
class Places:
    """All lines of one import, by journal file name; a name has several files when it was sealed or replaced."""

    files: dict[str, list[JournalFile]] = field(default_factory=dict)
    lines: int = 0

    def put(self, home: Home, name: str, line: bytes) -> None:
        """Append a line and note where it stands. Raises StoreError when it cannot be written."""
        path = home.journal / name
        for _ in range(_APPENDS):
            start, inode = _append(path, line)
            file = self._file(home, name, start, inode)
            if file is not None:
                file.note(start, start + len(line))
                self.lines += 1
                return
        problem = "is replaced each time that a line was appended"
        raise StoreError(
            str(path), problem, "end what does that, then ingest again: nothing is counted twice"
        )

    def keyed(self, known: KnownIds) -> list[Span]:
        """Return all spans under the keys that positions carry."""
        return [span for files in self.files.values() for file in files for span in file.keyed(known)]

    def gone(self, home: Home, known: KnownIds) -> str | None:
        """Return the name of a file that went away before all its lines had their fates, None when there is none."""
        for files in self.files.values():
            for file in files:
                read = sum(known.count_fates(file.keyed(known)).values())
                if read < file.lines and not file.is_there(home):
                    return file.name
        return None

    def _file(self, home: Home, name: str, start: int, inode: int) -> JournalFile | None:
        """Return the file that a line was appended to, None when it was sealed before its place was known."""
        files = self.files.setdefault(name, [])
        if files and files[-1].inode == inode and files[-1].spans[-1][1] <= start:
            return files[-1]
        _finish_sealing(home, name)
        file = JournalFile(name, inode, archive.journal_cursor(home, name))
        if (_found(home.journal / name) or (None,))[0] != inode:
            return None
        files.append(file)
        return file


class CurrentIds:
    """The register of the generation in use: a switch is seen within half a second. For one thread."""

    def __init__(self, home: Home) -> None:
        """Open nothing yet."""
        self._home = home
        self._known: KnownIds | None = None
        self._path: Path | None = None
        self._looked_s = 0.0

    def now(self) -> KnownIds:
        """Return the register; it is closed with this one, and after a switch. Raises HomeError."""
        now_s = clock.SYSTEM.monotonic_s()
        if self._known is None or now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            path = self._home.ids_file
            if path != self._path:
                self.close()
                self._known, self._path = KnownIds(path), path
        assert self._known is not None
        return self._known

    def told(self, key: str) -> bool:
        """Return whether an earlier import told the line of a key. Raises like `now`."""
        return self.now().logs.told(key)

    def close(self) -> None:
        """Close the register. Idempotent."""
        if self._known is not None:
            self._known.close()
        self._known = self._path = None


def _finish_sealing(home: Home, name: str) -> None:
    """Wait until no older file of a name is on its way to the archive; what a crash left there is finished here."""
    sealed = home.journal / (name + seal.SEALED)
    until_s = clock.SYSTEM.monotonic_s() + limits.ARCHIVE_WRITERS_S
    while sealed.exists() and clock.SYSTEM.monotonic_s() < until_s:
        try:
            with hold_lock(home.run / ARCHIVE_LOCK, "archive"):
                seal.recover(home)
                return
        except BusyError:
            clock.SYSTEM.sleep(_POLL_S)


def _append(path: Path, line: bytes) -> tuple[int, int]:
    try:
        return capture.append_placed(str(path), line)
    except OSError as error:
        fix = "free disk space and check the permissions, then ingest again: nothing is counted twice"
        raise StoreError(str(path), f"cannot be written: {error}", fix) from error


def _found(path: Path) -> tuple[int, int] | None:
    """Return inode and size (bytes) of a file, None when there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(str(path), f"cannot be looked at: {error}", "check its permissions") from error
    return found.st_ino, found.st_size
