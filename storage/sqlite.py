"""SQLite as we use it: one connection per thread, WAL, a busy time-out, and our errors instead of its own."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.errors import BusyError, DamagedError, HeadwaterError, StoreError
from headwater.storage.locks import hold_lock
from headwater.storage.mending import set_aside, why_damaged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# what SQLite says when a table or column of ours is not there: somebody else's file, or one of another version
_FOREIGN_SCHEMA = ("no such table", "no such column", "has no column")


class Database:
    """One SQLite file. Safe to share between threads; each thread has its own connection."""

    def __init__(self, path: Path, schema: str, *, disposable: bool = False) -> None:
        """Remember the file and the script (`CREATE ... IF NOT EXISTS`) that a new connection runs.

        A `disposable` file that is found damaged is moved aside, and one that was taken away is made anew at the next
        transaction: what it held can be worked out again.
        """
        self.path = path
        self._schema = schema
        self._disposable = disposable
        self._local = threading.local()
        self._all: list[tuple[threading.Thread, sqlite3.Connection]] = []
        self._guard = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection inside one immediate transaction; durable when it returns, nothing kept on an error.

        `synchronous=NORMAL` in WAL mode survives a killed process; a power cut can take the last transactions, which
        are made again from the journal. Raises StoreError (busy, disk full) or DamagedError (no database any more).
        """
        with self._mapped():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # closed meanwhile: nothing to undo; and SQLite itself undoes a transaction that found the disk full
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for reads. Raises like `transaction`."""
        with self._mapped():
            yield self._connection()

    def close(self) -> None:
        """Close the connections of all threads; the next use opens new ones. Idempotent.

        A thread in the midst of a transaction gets a StoreError, and nothing of it is kept.
        """
        with self._guard:
            connections, self._all = self._all, []
            self._local = threading.local()
        for _, connection in connections:
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None and self._disposable and self._inode() != self._local.inode:
            self._drop(connection)
            connection = None
        if connection is None:
            connection = self._open_sound()
            self._close_those_of_dead_threads()
            with self._guard:
                self._all.append((threading.current_thread(), connection))
                self._local.connection = connection
                self._local.inode = self._inode()
        return connection

    def _inode(self) -> int:
        try:
            return self.path.stat().st_ino
        except OSError:
            return 0

    def _drop(self, connection: sqlite3.Connection) -> None:
        """Close this thread's connection: its file is not the one of that name any more."""
        with self._guard:
            self._all = [pair for pair in self._all if pair[1] is not connection]
            self._local.connection = None
        connection.close()

    def _open_sound(self) -> sqlite3.Connection:
        """Return a new connection; a disposable file that is not even a database any more is replaced on the way."""
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            if not self._disposable or type(error) is not sqlite3.DatabaseError or not self._set_aside():
                raise
        return self._open()

    def _open(self) -> sqlite3.Connection:
        """Return a new connection, the file 0600 from its first moment: what SQLite puts beside it takes its mode."""
        try:
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StoreError(
                str(self.path), f"cannot be made: {error}", "check the folder, its permissions and free space"
            ) from error
        # closed by `close` from whichever thread ends the process, hence check_same_thread=False
        connection = sqlite3.connect(
            self.path, timeout=limits.SQLITE_BUSY_MS / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA cache_size=-{limits.SQLITE_CACHE_BYTES // 1024}")
            pages = connection.execute("PRAGMA page_count").fetchone()[0] // 2
            wal_pages = min(max(pages, limits.SQLITE_WAL_PAGES), limits.SQLITE_WAL_PAGES_MAX)
            connection.execute(f"PRAGMA wal_autocheckpoint={wal_pages}")
            connection.executescript(self._schema)
        except BaseException:
            connection.close()
            raise
        return connection

    def _close_those_of_dead_threads(self) -> None:
        """A server has a thread per request: their connections must not gather until it ends."""
        with self._guard:
            dead = [connection for thread, connection in self._all if not thread.is_alive()]
            self._all = [(thread, connection) for thread, connection in self._all if thread.is_alive()]
        for connection in dead:
            connection.close()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._meaning(error) from error

    def _meaning(self, error: sqlite3.Error) -> HeadwaterError:
        """Return what an error of SQLite means to us; a disposable file that is damaged is moved aside first."""
        text = str(error)
        wanted = f"wanted a SQLite database of ours, got: {text}"
        if any(words in text for words in _FOREIGN_SCHEMA):
            fix = "move this file away, then: headwater up, which makes it again"
            return DamagedError(str(self.path), wanted, fix)
        if type(error) is not sqlite3.DatabaseError:
            return StoreError(str(self.path), f"SQLite could not do it: {text}", _fix(text))
        # the class itself stands for "malformed" and "not a database"; its subclasses for what went wrong with it
        fix = "run: headwater down, then: headwater up; it is moved aside and made again"
        if self._disposable and self._set_aside():
            fix = "try again: it was moved aside and is made again"
        return DamagedError(str(self.path), wanted, fix)

    def _set_aside(self) -> bool:
        """Move the file aside when it is damaged; one process does it, the others find the new one."""
        lock = self.path.with_name(f"{self.path.name}.mending")
        try:
            with hold_lock(lock, f"mending {self.path.name}"):
                why = why_damaged(self.path)
                if why is not None:
                    self.close()
                    set_aside(self.path, why)
        except BusyError:
            return True
        return why is not None


def _fix(text: str) -> str:
    """Return the next step for what SQLite says it could not do."""
    if "readonly" in text or "unable to open" in text:
        return "make the home writable, or raise the limit of open files (ulimit -n), and try again"
    if "locked" in text:
        return "another process has been writing for long: see headwater status, and try again"
    return "free disk space, and try again"
