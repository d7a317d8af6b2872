"""SQLite as we use it: one connection per thread, WAL, a busy time-out, and our errors instead of its own."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.errors import DamagedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# what SQLite says when a table or column of ours is not there: somebody else's file, or one of another version
_FOREIGN_SCHEMA = ("no such table", "no such column", "has no column")


class Database:
    """One SQLite file. Safe to share between threads; each thread has its own connection."""

    def __init__(self, path: Path, schema: str) -> None:
        """Remember the file and the script (`CREATE ... IF NOT EXISTS`) that a new connection runs."""
        self.path = path
        self._schema = schema
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
        if connection is None:
            connection = self._open()
            self._close_those_of_dead_threads()
            with self._guard:
                self._all.append((threading.current_thread(), connection))
                self._local.connection = connection
        return connection

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
            # the class itself stands for "malformed" and "not a database"; its subclasses for what went wrong with it
            damaged = type(error) is sqlite3.DatabaseError or any(
                words in str(error) for words in _FOREIGN_SCHEMA
            )
            if damaged:
                fix = "stop headwater, delete this file and those beside it (-wal, -shm), start again: it is rebuilt"
                raise DamagedError(
                    str(self.path), f"wanted a SQLite database of ours, got: {error}", fix
                ) from error
            fix = "free disk space, or stop what holds the file, and try again"
            raise StoreError(str(self.path), f"SQLite could not do it: {error}", fix) from error
