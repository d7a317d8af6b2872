"""The control journal: `journal/control.jsonl`, one line per decision of a person, appended and never changed."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock, control
from headwater.schemas.control import DecisionKind
from headwater.schemas.errors import InputError, StoreError
from headwater.storage import journal
from headwater.storage.journal import CONTROL_NAME, Cursor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headwater.schemas.control import ControlState, Decision
    from headwater.storage.home import Home

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that is no decision: where it starts (bytes), and what was wanted."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class ControlRead:
    """Decisions in the order of the file, the lines that are none, and where to read on."""

    decisions: tuple[Decision, ...]
    unreadable: tuple[Unreadable, ...]
    cursor: Cursor


class ControlJournal:
    """The decisions of a home. Making one touches nothing; any number of processes may append and read."""

    def __init__(self, home: Home) -> None:
        """Remember the folder."""
        self._folder = home.journal

    @property
    def path(self) -> Path:
        """The file."""
        return self._folder / CONTROL_NAME

    def append(
        self, kind: str, args: Mapping[str, Any], *, at_ns: int | None = None, by: str = "cli"
    ) -> Decision:
        """Append a decision, of now unless `at_ns` is given, and return it. Durable when it returns.

        Idempotent in effect: the same decision of the same time has the same id and counts once. Raises StoreError when
        it is not in the file.
        """
        decision = control.make_decision(kind, args, at_ns=clock.now_ns() if at_ns is None else at_ns, by=by)
        append_durably(self.path, control.encode_decision(decision))
        return decision

    def read(self, cursor: Cursor | None = None) -> ControlRead:
        """Return all complete lines after the cursor (None: from the start); a torn last line waits.

        A missing file holds nothing. A cursor of another file starts at the beginning. Raises StoreError.
        """
        cursor = Cursor() if cursor is None else cursor
        decisions: list[Decision] = []
        unreadable: list[Unreadable] = []
        more = True
        while more:
            part = journal.read(self._folder, CONTROL_NAME, cursor)
            for line in part.lines:
                try:
                    decisions.append(control.parse_decision(line.data, line.offset))
                except ValueError as error:
                    unreadable.append(Unreadable(line.offset, str(error)))
            cursor, more = part.cursor, part.more
        return ControlRead(tuple(decisions), tuple(unreadable), cursor)

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what changes when a decision is appended, None without a file; cheaper than a read."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def state(self) -> ControlState:
        """Return what holds now. Raises StoreError."""
        return control.fold(self.read().decisions)


def set_mode(home: Home, mode: str, *, at_ns: int | None = None, by: str = "cli") -> Decision:
    """Decide the mode. Raises InputError for one that does not exist, StoreError when it could not be written."""
    if mode not in control.MODES:
        raise InputError(
            "mode", f"wanted one of {', '.join(control.MODES)}, got {mode!r:.60}", "name one of them"
        )
    return ControlJournal(home).append(DecisionKind.MODE, {"mode": mode}, at_ns=at_ns, by=by)


def effective_mode(home: Home) -> str:
    """Return the mode: the last one decided, else that of the settings, where `endless.enabled` means endless.

    Raises StoreError, ConfigError.
    """
    decided = ControlJournal(home).state().mode
    if decided is not None:
        return decided
    config = home.config()
    return "endless" if config.endless.enabled else config.mode


def append_durably(path: Path, line: bytes) -> None:
    """Append a complete line (newline included) in one write and force it to the disk; creates the file (0600).

    A torn line that a stopped writer left is closed by a newline first. A short write is followed by the whole line
    on a line of its own. Links are refused. Raises StoreError when the line is not in the file.
    """
    try:
        handle = os.open(path, _APPEND, 0o600)
        try:
            _write_line(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreError(
            str(path), f"cannot be appended to: {error}", "free disk space and check its permissions"
        ) from error


def _write_line(handle: int, line: bytes) -> None:
    size = os.fstat(handle).st_size
    is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    data = b"\n" + line if is_torn else line
    if os.write(handle, data) == len(data):
        return
    if os.write(handle, b"\n" + line) != len(line) + 1:
        raise OSError(errno.ENOSPC, "only a part of the line could be written")
