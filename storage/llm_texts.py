"""Summaries in a language model's words, beside the extracts: SQLite, `llm.sqlite`. Outside every comparison.

Disposable: what is lost is asked for again, for memories that are new enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.clock import from_ns, to_us
from headwater.storage.sqlite import Database

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (
    memory_id TEXT PRIMARY KEY, content_hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL,
    at_us INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failure (one INTEGER PRIMARY KEY CHECK (one = 1), at_us INTEGER NOT NULL, why TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the last request failed, and when; there was none since that worked."""

    at: datetime
    why: str


class LlmTexts:
    """One file, made at its first write. Safe to share between threads and processes."""

    def __init__(self, path: Path) -> None:
        """Remember the file."""
        self._path = path
        self._db = Database(path, _SCHEMA, disposable=True)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._db.close()

    def put(self, memory_id: str, content_hash: str, model: str, text: str, now: datetime) -> None:
        """Keep the text of a memory as it is now, in the place of an older one. Idempotent. Raises StoreError."""
        row = (memory_id, content_hash, model, text, to_us(now))
        with self._db.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO texts VALUES (?, ?, ?, ?, ?)", row)
            connection.execute("DELETE FROM failure")

    def fail(self, why: str, now: datetime) -> None:
        """Remember that a request failed. Raises StoreError."""
        with self._db.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO failure VALUES (1, ?, ?)", (to_us(now), why))

    def get(self, memories: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        """Return memory id -> text of those (id, content hash) that have one of just that content."""
        wanted = dict(memories)
        found: dict[str, str] = {}
        if not self._path.exists():  # a reader makes no file
            return found
        ids = list(wanted)
        with self._db.reading() as connection:
            for n in range(0, len(ids), limits.IDS_PER_FILTER):
                some = ids[n : n + limits.IDS_PER_FILTER]
                rows = connection.execute(
                    f"SELECT memory_id, content_hash, text FROM texts WHERE memory_id IN ({_marks(some)})",
                    some,
                )
                found |= {id_: text for id_, content_hash, text in rows if wanted[id_] == content_hash}
        return found

    def remove(self, memory_ids: Sequence[str]) -> None:
        """Delete the texts of memories. Idempotent. Raises StoreError."""
        if not memory_ids or not self._path.exists():
            return
        with self._db.transaction() as connection:
            connection.executemany("DELETE FROM texts WHERE memory_id = ?", [(id_,) for id_ in memory_ids])

    def count(self) -> int:
        """Return how many memories have a text."""
        if not self._path.exists():
            return 0
        with self._db.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM texts").fetchone()[0])

    def failure(self) -> Failure | None:
        """Return the last failure, None when there was none or a request worked since."""
        if not self._path.exists():
            return None
        with self._db.reading() as connection:
            row = connection.execute("SELECT at_us, why FROM failure").fetchone()
        return None if row is None else Failure(from_ns(row[0] * 1000), row[1])


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
