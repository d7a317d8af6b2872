"""Known ids and the fate of each journal line: what makes an ingest that may repeat itself count everything once.

Disposable: it is made again by reading the journal from the start.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.events import Fate, Part, Position
from headwater.storage.log_register import SCHEMA as LOG_SCHEMA
from headwater.storage.log_register import LogRegister
from headwater.storage.sqlite import Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

# written = 0 marks an intent: the row may or may not have reached the table when the process died
# top, in the row with the largest offset, is the largest number given so far
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (file_id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS ids (
    id TEXT PRIMARY KEY, parts INTEGER NOT NULL, file_id INTEGER NOT NULL, offset INTEGER NOT NULL,
    written INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ids_intent ON ids (written) WHERE written = 0;
CREATE TABLE IF NOT EXISTS lines (
    file_id INTEGER NOT NULL, offset INTEGER NOT NULL, fate TEXT NOT NULL, PRIMARY KEY (file_id, offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS occurrences (
    source TEXT NOT NULL, key TEXT NOT NULL, delivery TEXT NOT NULL, offset INTEGER NOT NULL, at_us INTEGER NOT NULL,
    n INTEGER NOT NULL, top INTEGER NOT NULL, PRIMARY KEY (source, key, delivery, offset)
) WITHOUT ROWID;
"""
_VARIABLES = limits.IDS_PER_FILTER


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an id: the deliveries merged so far, and the journal line that brought it first."""

    parts: Part
    position: Position


class KnownIds:
    """One SQLite file, written by the ingest flow alone; others may read it."""

    def __init__(self, path: Path) -> None:
        """Open (and make) the file at its first use."""
        self._db = Database(path, _SCHEMA + LOG_SCHEMA)
        self.logs = LogRegister(self._db)
        self._file_ids: dict[str, int] = {}

    def occurrence(
        self, source: str, key: str, delivery: str, offset: int, at_us: int, *, apart: bool = False
    ) -> int:
        """Return the number n (from 0) of a fact without an id among equal ones of its source file, before `offset`.

        Equal content within DELIVERY_S of the one before (or after) is the same delivery and gets its number.
        Idempotent: the same (source, key, delivery, offset) always gives the same number. One that comes later than
        another behind it gets a number of its own all the same: two facts never become one. `apart`: the source tells
        nothing twice, so equal content is never the same delivery.
        """
        fact = (source, key, delivery)
        rows = "FROM occurrences WHERE source = ? AND key = ? AND delivery = ?"
        with self._transaction() as connection:
            before = connection.execute(
                f"SELECT offset, at_us, n {rows} AND offset <= ? ORDER BY offset DESC LIMIT 1",
                (*fact, offset),
            ).fetchone()
            if before is not None and before[0] == offset:
                return int(before[2])
            after = connection.execute(
                f"SELECT offset, at_us, n {rows} AND offset > ? ORDER BY offset LIMIT 1", (*fact, offset)
            ).fetchone()
            last = connection.execute(
                f"SELECT offset, top {rows} ORDER BY offset DESC LIMIT 1", fact
            ).fetchone() or (-1, -1)
            both = () if apart else (before, after)
            near = (row[2] for row in both if row is not None and _is_near(at_us, row[1]))
            n = int(next(near, last[1] + 1))
            top = max(n, last[1])
            connection.execute(
                "UPDATE occurrences SET top = ? WHERE source = ? AND key = ? AND delivery = ? AND offset = ?",
                (top, *fact, last[0]),
            )
            connection.execute(
                "INSERT INTO occurrences VALUES (?, ?, ?, ?, ?, ?, ?)", (*fact, offset, at_us, n, top)
            )
            return n

    def fates(self, positions: Sequence[Position]) -> dict[Position, Fate]:
        """Return the fates of those of the given lines that have one already."""
        wanted: dict[str, dict[int, Position]] = {}
        for position in positions:
            wanted.setdefault(position.file, {})[position.offset] = position
        found: dict[Position, Fate] = {}
        with self._db.reading() as connection:
            for file, places in wanted.items():
                rows = connection.execute(
                    "SELECT offset, fate FROM files JOIN lines USING (file_id)"
                    " WHERE path = ? AND offset BETWEEN ? AND ?",
                    (file, min(places), max(places)),
                )
                found |= {places[offset]: Fate(fate) for offset, fate in rows if offset in places}
        return found

    def lookup(self, ids: Sequence[str]) -> dict[str, Known]:
        """Return what is known of those of the given ids that are known."""
        found: dict[str, Known] = {}
        with self._db.reading() as connection:
            for start in range(0, len(ids), _VARIABLES):
                part = ids[start : start + _VARIABLES]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT id, parts, path, offset FROM ids LEFT JOIN files USING (file_id) WHERE id IN ({marks})",
                    part,
                )
                found |= {row[0]: Known(Part(row[1]), Position(row[2] or "", row[3])) for row in rows}
        return found

    def intend(self, new: Mapping[str, Known]) -> None:
        """Note ids that are about to be written to the table: a crash in between can be told from a duplicate."""
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO ids VALUES (?, ?, ?, ?, 0) ON CONFLICT (id) DO NOTHING",
                # in the order of the tree: neighbours lie on one page
                sorted(
                    (
                        id_,
                        int(known.parts),
                        self._file_id(connection, known.position.file),
                        known.position.offset,
                    )
                    for id_, known in new.items()
                ),
            )

    def settle(self, parts: Mapping[str, Part], fates: Mapping[Position, Fate]) -> None:
        """Record what was written: the ids with all their deliveries, and the fates of lines. Idempotent."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE ids SET written = 1, parts = ? WHERE id = ?",
                [(int(part), id_) for id_, part in sorted(parts.items())],
            )
            connection.executemany(
                "INSERT INTO lines VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(self._file_id(connection, at.file), at.offset, fate.value) for at, fate in fates.items()],
            )

    def intents(self) -> list[str]:
        """Return ids that were about to be written when the process ended."""
        with self._db.reading() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM ids WHERE written = 0")]

    def forget(self, ids: Iterable[str]) -> None:
        """Drop ids that are not in the table, with the fates of the lines that brought them: those may do it again."""
        with self._transaction() as connection:
            for id_ in ids:
                connection.execute(
                    "DELETE FROM lines WHERE (file_id, offset) = (SELECT file_id, offset FROM ids WHERE id = ?)",
                    (id_,),
                )
                connection.execute("DELETE FROM ids WHERE id = ?", (id_,))

    def retract(self, ids: Iterable[str]) -> None:
        """Drop ids whose rows go because others tell the same facts: the lines that brought them told nothing new."""
        with self._transaction() as connection:
            for id_ in ids:
                connection.execute(
                    "UPDATE lines SET fate = ? WHERE (file_id, offset) ="
                    " (SELECT file_id, offset FROM ids WHERE id = ?)",
                    (Fate.DUPLICATE.value, id_),
                )
                connection.execute("DELETE FROM ids WHERE id = ?", (id_,))

    def unsettle(self, ids: Iterable[str], positions: Iterable[Position]) -> None:
        """Drop ids and the fates of lines, all at once: those lines will be read as if for the first time."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM ids WHERE id = ?", ((id_,) for id_ in ids))
            connection.executemany(
                "DELETE FROM lines WHERE offset = ? AND file_id = (SELECT file_id FROM files WHERE path = ?)",
                ((at.offset, at.file) for at in positions),
            )

    def adopt(self, parts: Mapping[str, Part]) -> None:
        """Take in ids that the table holds and we do not know: after this file was lost. Idempotent."""
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO ids VALUES (?, ?, -1, -1, 1) ON CONFLICT (id) DO UPDATE SET written = 1",
                [(id_, int(part)) for id_, part in parts.items()],
            )

    def all_ids(self) -> set[str]:
        """Return every id that was written."""
        with self._db.reading() as connection:
            return {row[0] for row in connection.execute("SELECT id FROM ids WHERE written = 1")}

    def count_ids(self) -> int:
        """Return how many ids were written."""
        with self._db.reading() as connection:
            # pages are counted many times faster than rows are looked at, and the others have an index
            counts = "SELECT (SELECT count(*) FROM ids) - (SELECT count(*) FROM ids WHERE written = 0)"
            return int(connection.execute(counts).fetchone()[0])

    def count_fates(self, spans: Sequence[tuple[str, int, int]] | None = None) -> dict[Fate, int]:
        """Count lines by fate, of all files or of the given (file, start, end) byte spans."""
        counts = dict.fromkeys(Fate, 0)
        with self._db.reading() as connection:
            if spans is None:
                rows = connection.execute("SELECT fate, count(*) FROM lines GROUP BY fate").fetchall()
                return counts | {Fate(name): n for name, n in rows}
            for file, start, end in spans:
                rows = connection.execute(
                    "SELECT fate, count(*) FROM lines JOIN files USING (file_id)"
                    " WHERE path = ? AND offset >= ? AND offset < ? GROUP BY fate",
                    (file, start, end),
                ).fetchall()
                for name, n in rows:
                    counts[Fate(name)] += n
        return counts

    def keys_of(self, name: str) -> list[str]:
        """Return the keys under which lines of a journal file are on record."""
        with self._db.reading() as connection:
            rows = connection.execute("SELECT path FROM files WHERE path GLOB ?", (_literal(name) + "@*",))
            return sorted(row[0] for row in rows)

    def offsets(self, file: str, start: int, end: int) -> list[int]:
        """Return the offsets of a file's records with a fate from `start` to before `end`, sorted."""
        with self._db.reading() as connection:
            rows = connection.execute(
                "SELECT offset FROM lines JOIN files USING (file_id)"
                " WHERE path = ? AND offset >= ? AND offset < ? ORDER BY offset",
                (file, start, end),
            )
            return [row[0] for row in rows]

    def has_fates(self) -> bool:
        """Return whether any line has its fate on record: not so in a register that was just made."""
        with self._db.reading() as connection:
            return connection.execute("SELECT 1 FROM lines LIMIT 1").fetchone() is not None

    def clear(self) -> None:
        """Forget everything, as in a new file; those who have the file open see it empty."""
        with self._transaction() as connection:
            for table in ("ids", "lines", "occurrences", "files", "told", "clearings", "copies"):
                connection.execute(f"DELETE FROM {table}")
        self._file_ids.clear()

    def close(self) -> None:
        """Close the file."""
        self._db.close()
        self._file_ids.clear()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._db.transaction() as connection:
                yield connection
        except BaseException:
            self._file_ids.clear()  # numbers given out in a transaction that was undone are not there any more
            raise

    def _file_id(self, connection: sqlite3.Connection, path: str) -> int:
        file_id = self._file_ids.get(path)
        if file_id is None:
            connection.execute("INSERT INTO files (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
            row = connection.execute("SELECT file_id FROM files WHERE path = ?", (path,)).fetchone()
            file_id = self._file_ids[path] = int(row[0])
        return file_id


def _literal(text: str) -> str:
    """Return a pattern of GLOB that matches this text alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def _is_near(at_us: int, other_us: int) -> bool:
    return abs(at_us - other_us) <= limits.DELIVERY_S * 1_000_000
