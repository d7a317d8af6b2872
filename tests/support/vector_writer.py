"""A process that opens the vector tables, looks at them, waits for the start, and writes the same items as others.

It is slow between looking what is there and writing, so that whoever is not kept out looks at the same time.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from headwater.schemas.events import ItemKind
from headwater.storage.home import Home
from headwater.storage.tables import LanceTable
from headwater.storage.vectors import VectorSet, VectorStore

VERSION = "test-8-0123456789ab"
NOW = datetime(2026, 1, 5, tzinfo=UTC)
ITEMS, CHUNKS = 12, 2


def sets_of(writer: int, name: str) -> list[VectorSet]:
    """Return the sets of all items of a name; each writer has its own texts."""
    return [
        VectorSet(
            item_id=f"{name}_{n}",
            content_hash=f"{writer:016x}",
            project="p",
            session_id=None,
            agent=None,
            kind="prompt",
            at=NOW,
            chunks=tuple(f"{writer} {chunk}" for chunk in range(CHUNKS)),
            vectors=np.eye(CHUNKS, 8, dtype=np.float32),
        )
        for n in range(ITEMS)
    ]


def slow_look(*args: Any, **more: Any) -> Any:
    """Look as usual, then let time pass."""
    found = LOOK(*args, **more)
    time.sleep(0.15)
    return found


LOOK = LanceTable.by_ids

if __name__ == "__main__":
    LanceTable.by_ids = slow_look  # type: ignore[method-assign]
    home, writer = Home(Path(sys.argv[1])), int(sys.argv[2])
    store = VectorStore(home)
    store.count_items(VERSION)  # from now on its handles are old
    (home.root / f"ready-{writer}").touch()
    while not (home.root / "start").exists():
        time.sleep(0.001)
    store.put(ItemKind.ENTRY, VERSION, sets_of(writer, sys.argv[3]), NOW)
