"""Use counts: how often a memory was read, and what was brought into which session. SQLite, `usage.sqlite`.

Not derived from the journal, so nothing makes it again; but the ids it holds are derived, so its rows go on being
right after every table was rebuilt. It holds ids and numbers, no texts of events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.clock import from_ns, to_us
from headwater.storage.sqlite import Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS memory_access (
    memory_id TEXT PRIMARY KEY, accessed_at_us INTEGER NOT NULL, access_count INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS injections (
    session TEXT NOT NULL, ask TEXT NOT NULL, at_us INTEGER NOT NULL, tokens INTEGER NOT NULL, ids TEXT NOT NULL,
    PRIMARY KEY (session, ask)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS injections_at ON injections (at_us);
CREATE TABLE IF NOT EXISTS told (
    session TEXT NOT NULL, ask TEXT NOT NULL, item TEXT NOT NULL, project TEXT NOT NULL, at_us INTEGER NOT NULL,
    is_start INTEGER NOT NULL, score REAL, turn TEXT, used INTEGER, terms INTEGER, files INTEGER,
    PRIMARY KEY (session, ask, item)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS told_at ON told (at_us);
CREATE TABLE IF NOT EXISTS fresh_starts (
    session TEXT PRIMARY KEY, at_us INTEGER NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Access:
    """When a memory was read last, and how often."""

    accessed_at: datetime
    access_count: int


@dataclass(frozen=True, slots=True)
class Injection:
    """What was brought into a session for one ask: ids in their order, and the estimate of their text."""

    ask: str
    at: datetime
    tokens: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldItem:
    """One thing that a session was told, and what became of it in the turn that followed.

    `session` is agent and id, `item` its section and id, `at` when it was told. `is_start`: at the start of a session,
    not with a prompt. `turn` is the prompt's event, `terms` and `files` are how many it shares with what followed; all
    of the outcome is None as long as the turn is not over.
    """

    session: str
    ask: str
    item: str
    project: str
    at: datetime
    is_start: bool
    score: float | None = None
    turn: str | None = None
    used: bool | None = None
    terms: int | None = None
    files: int | None = None


class Usage:
    """One file, made at its first write. Safe to share between threads and processes; all writes are durable."""

    def __init__(self, path: Path) -> None:
        """Remember the file."""
        self._path = path
        # what cannot be read any more is moved aside: no agent should go without context for want of counts
        self._db = Database(path, _SCHEMA, disposable=True)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._db.close()

    # --- reading of memories ---

    def mark_accessed(self, memory_ids: Iterable[str], now: datetime) -> None:
        """Count one more reading of each memory, each once a call. Not idempotent. Raises StoreError."""
        rows = [(id_, to_us(now)) for id_ in dict.fromkeys(memory_ids)]
        if not rows:
            return
        with self._db.transaction() as connection:
            connection.executemany(
                "INSERT INTO memory_access VALUES (?, ?, 1) ON CONFLICT (memory_id) DO UPDATE SET"
                " access_count = access_count + 1, accessed_at_us = max(accessed_at_us, excluded.accessed_at_us)",
                rows,
            )

    def accesses(self, memory_ids: Sequence[str]) -> Mapping[str, Access]:
        """Return those of the memories that were read. Raises StoreError."""
        found: dict[str, Access] = {}
        if not self._path.exists():  # a reader makes no file
            return found
        with self._db.reading() as connection:
            for n in range(0, len(memory_ids), limits.IDS_PER_FILTER):
                some = memory_ids[n : n + limits.IDS_PER_FILTER]
                marks = ", ".join("?" * len(some))
                rows = connection.execute(
                    "SELECT memory_id, accessed_at_us, access_count FROM memory_access"
                    f" WHERE memory_id IN ({marks})",
                    tuple(some),
                )
                found |= {id_: Access(_time(at_us), count) for id_, at_us, count in rows}
        return found

    # --- what sessions were told ---

    def injections(self, session: str) -> tuple[Injection, ...]:
        """Return what was brought into a session since it began or was cleared, oldest first. Raises StoreError."""
        if not self._path.exists():
            return ()
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT ask, at_us, tokens, ids FROM injections WHERE session = ? ORDER BY at_us, ask",
                (session,),
            ).fetchall()
        return tuple(
            Injection(ask, _time(at_us), tokens, tuple(json.loads(ids))) for ask, at_us, tokens, ids in rows
        )

    def record_injection(self, session: str, injection: Injection, told: Iterable[ToldItem] = ()) -> None:
        """Remember what was brought in for an ask, in the place of what was before, and each thing that was told.

        Idempotent: a thing that was told keeps its outcome. Raises StoreError.
        """
        at_us = to_us(injection.at)
        row = (session, injection.ask, at_us, injection.tokens, json.dumps(list(injection.ids)))
        items = [
            (one.session, one.ask, one.item, one.project, to_us(one.at), one.is_start, one.score)
            for one in told
        ]
        with self._db.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO injections VALUES (?, ?, ?, ?, ?)", row)
            connection.executemany(
                "INSERT OR IGNORE INTO told (session, ask, item, project, at_us, is_start, score)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                items,
            )
            _clean(connection, injection.at)

    def told(self, *, undecided: bool = False) -> list[ToldItem]:
        """Return what sessions were told, oldest first; `undecided`: only without an outcome. Raises StoreError."""
        if not self._path.exists():
            return []
        wanted = "WHERE used IS NULL" if undecided else ""
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT session, ask, item, project, at_us, is_start, score, turn, used, terms, files FROM told"
                f" {wanted} ORDER BY at_us, session, ask, item"
            ).fetchall()
        return [_told(*row) for row in rows]

    def decide(self, items: Iterable[ToldItem]) -> None:
        """Remember what became of things that were told. Idempotent. Raises StoreError."""
        rows = [(one.turn, one.used, one.terms, one.files, one.session, one.ask, one.item) for one in items]
        if rows:
            with self._db.transaction() as connection:
                connection.executemany(
                    "UPDATE told SET turn = ?, used = ?, terms = ?, files = ?"
                    " WHERE session = ? AND ask = ? AND item = ?",
                    rows,
                )

    def start_afresh(self, session: str, now: datetime) -> None:
        """Forget what was brought into a session: its context was emptied. Idempotent. Raises StoreError."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM injections WHERE session = ?", (session,))
            connection.execute("INSERT OR REPLACE INTO fresh_starts VALUES (?, ?)", (session, to_us(now)))

    def fresh_start(self, session: str) -> datetime | None:
        """Return when a session's context was last emptied, None when it never was. Raises StoreError."""
        if not self._path.exists():
            return None
        with self._db.reading() as connection:
            row = connection.execute(
                "SELECT at_us FROM fresh_starts WHERE session = ?", (session,)
            ).fetchone()
        return None if row is None else _time(row[0])


def _clean(connection: sqlite3.Connection, now: datetime) -> None:
    before_us = to_us(now - timedelta(seconds=limits.USAGE_KEEP_S))
    connection.execute("DELETE FROM injections WHERE at_us < ?", (before_us,))
    connection.execute("DELETE FROM fresh_starts WHERE at_us < ?", (before_us,))
    told_before_us = to_us(now - timedelta(seconds=limits.TOLD_KEEP_S))
    connection.execute("DELETE FROM told WHERE at_us < ?", (told_before_us,))


def _time(at_us: int) -> datetime:
    return from_ns(at_us * 1000)


def _told(  # noqa: PLR0917 - the columns of a row, in their order
    session: str,
    ask: str,
    item: str,
    project: str,
    at_us: int,
    is_start: int,
    score: float | None,
    turn: str | None,
    used: int | None,
    terms: int | None,
    files: int | None,
) -> ToldItem:
    was_used = None if used is None else bool(used)
    return ToldItem(
        session, ask, item, project, _time(at_us), bool(is_start), score, turn, was_used, terms, files
    )
