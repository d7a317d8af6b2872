"""What imports need to know of earlier ones: lines of agents' own logs, cleared sessions, and what forks copied.

A part of the register of known ids, and as disposable: it is made again from the journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.schemas import limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from headwater.storage.sqlite import Database

SCHEMA = """
CREATE TABLE IF NOT EXISTS told (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clearings (
    agent TEXT NOT NULL, cwd TEXT NOT NULL, kind TEXT NOT NULL, at_us INTEGER NOT NULL, session TEXT NOT NULL,
    event_id TEXT NOT NULL, PRIMARY KEY (agent, cwd, kind, at_us, session)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS copies (
    mark TEXT NOT NULL, event_id TEXT NOT NULL, session TEXT NOT NULL, PRIMARY KEY (mark, event_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS copies_event ON copies (event_id);
"""
_GAP_US = int(limits.CLEAR_GAP_S * 1_000_000)


@dataclass(frozen=True, slots=True)
class Clearing:
    """One half of a cleared session: its end, or the start of the next one. `at_us`: since the epoch."""

    agent: str
    cwd: str
    at_us: int
    session: str
    event_id: str


class LogRegister:
    """Written by the ingest flow alone; others may read it."""

    def __init__(self, database: Database) -> None:
        """Rest in the given file, whose script holds SCHEMA."""
        self._db = database

    def note(self, keys: Collection[str]) -> None:
        """Record lines that were told: their events are in the table. Idempotent."""
        if keys:
            with self._db.transaction() as connection:
                connection.executemany(
                    "INSERT INTO told VALUES (?) ON CONFLICT DO NOTHING", [(key,) for key in keys]
                )

    def told(self, key: str) -> bool:
        """Return whether a line was told before."""
        with self._db.reading() as connection:
            return connection.execute("SELECT 1 FROM told WHERE key = ?", (key,)).fetchone() is not None

    def has_copies(self) -> bool:
        """Return whether any event is a copy that a fork holds."""
        with self._db.reading() as connection:
            return connection.execute("SELECT 1 FROM copies LIMIT 1").fetchone() is not None

    def note_copy(self, event_id: str, session_id: str, marks: Iterable[str]) -> None:
        """Record that an event is a copy, and by which marks its original is known. Idempotent."""
        with self._db.transaction() as connection:
            connection.executemany(
                "INSERT INTO copies VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(mark, event_id, session_id) for mark in marks],
            )

    def copies_of(self, marks: Iterable[str], *, but: str = "") -> dict[str, str]:
        """Return event id -> session of the copies known by any of the marks, those of the session `but` left out."""
        found: dict[str, str] = {}
        with self._db.reading() as connection:
            for mark in marks:
                rows = connection.execute("SELECT event_id, session FROM copies WHERE mark = ?", (mark,))
                found |= {row[0]: row[1] for row in rows if row[1] != but}
        return found

    def drop_copies(self, ids: Iterable[str]) -> None:
        """Forget copies whose rows are gone. Idempotent."""
        with self._db.transaction() as connection:
            connection.executemany("DELETE FROM copies WHERE event_id = ?", [(id_,) for id_ in ids])

    def cleared(self, ends: Iterable[Clearing], starts: Iterable[Clearing]) -> dict[str, str]:
        """Record ends and starts, and return event id of a start -> session that it goes on from, for pairs with these.

        A pair has one agent and folder and lies within CLEAR_GAP_S; of several ends the nearest counts. Idempotent.
        """
        ends, starts = list(ends), list(starts)
        if not ends and not starts:
            return {}
        with self._db.transaction() as connection:
            rows = [(one, "end") for one in ends] + [(one, "start") for one in starts]
            connection.executemany(
                "INSERT INTO clearings VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [(one.agent, one.cwd, kind, one.at_us, one.session, one.event_id) for one, kind in rows],
            )
            touched = {one.event_id: one for one in starts}
            for end in ends:
                found = connection.execute(
                    "SELECT at_us, session, event_id FROM clearings WHERE agent = ? AND cwd = ? AND kind = 'start'"
                    " AND at_us BETWEEN ? AND ? AND session <> ?",
                    (end.agent, end.cwd, end.at_us - _GAP_US, end.at_us + _GAP_US, end.session),
                )
                touched |= {row[2]: Clearing(end.agent, end.cwd, row[0], row[1], row[2]) for row in found}
            pairs: dict[str, str] = {}
            for start in touched.values():
                row = connection.execute(
                    "SELECT session FROM clearings WHERE agent = ? AND cwd = ? AND kind = 'end'"
                    " AND at_us BETWEEN ? AND ? AND session <> ? ORDER BY abs(at_us - ?), session LIMIT 1",
                    (
                        start.agent,
                        start.cwd,
                        start.at_us - _GAP_US,
                        start.at_us + _GAP_US,
                        start.session,
                        start.at_us,
                    ),
                ).fetchone()
                if row is not None:
                    pairs[start.event_id] = row[0]
            return pairs

    def count_new(self, spans: Iterable[tuple[str, int, int]]) -> int:
        """Count the events whose first line lies in the given (file, start, end) byte spans."""
        by_file: dict[str, list[tuple[int, int]]] = {}
        for file, start, end in spans:
            by_file.setdefault(file, []).append((start, end))
        count = 0
        with self._db.reading() as connection:
            for path, offset in connection.execute("SELECT path, offset FROM ids JOIN files USING (file_id)"):
                count += any(start <= offset < end for start, end in by_file.get(path, ()))
        return count
