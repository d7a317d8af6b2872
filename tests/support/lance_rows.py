"""Rows and handles for tests of Lance tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import lancedb
import pyarrow as pa

from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import Event, FileOp, FileRef, Kind
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from headwater.storage.tables import LanceTable

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def event(n: int, content: str = "", *, project: str = "p", session: str = "s") -> Event:
    """An event of the n-th second."""
    return Event(
        id=f"evt_{n:06d}",
        agent="a",
        session_id=session,
        project=project,
        at=NOW + timedelta(seconds=n),
        kind=Kind.PROMPT,
        content=content,
        files=(FileRef("src/it's.py", FileOp.EDIT),),
    )


def rows(*numbers: int, content: str = "plain words") -> pa.Table:
    """Rows with these numbers and words."""
    return events_to_arrow([event(n, f"{content} {n}") for n in numbers])


def ids(table: LanceTable, text: str, column: str, where: str | None = None) -> list[str]:
    """Ids of what a word finds, best first."""
    return table.match(text, column, where, 100, ["id"]).get_column("id").to_list()


def stale(store: LanceStore) -> LanceTable:
    """Return the table through a handle that does not look for newer versions by itself."""
    table = LanceStore(store.folder).open(EVENTS, create=False)
    table._handle = lancedb.connect(str(store.folder), read_consistency_interval=None).open_table(EVENTS.name)
    return table
