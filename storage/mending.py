"""What is damaged is moved aside, never deleted, said aloud, and made again from what is true: journal and tables.

Only the owner of a store mends it: whoever holds the lock of the process that writes it.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from headwater.schemas import clock
from headwater.schemas.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home

_LOG = logging.getLogger("headwater")
_MARK = ".damaged-"
_BESIDE = ("-wal", "-shm")


def mend(home: Home) -> list[Path]:
    """Move aside outbox, register of ids and snapshots that are damaged; return where they are now.

    For the holder of the ingest lock, before it opens them. What is missing then is made again: jobs by comparing items
    with vectors, the rest by reading the journal. Tables mend themselves when their writer opens them. Idempotent.
    Raises StoreError when a file cannot be read or moved.
    """
    moved = [
        set_aside(path, why)
        for path in (home.ids_file, home.outbox_file)
        if (why := why_damaged(path)) is not None
    ]
    for path in sorted(home.recovery.glob("*.sqlite3")):
        if (why := why_damaged(path)) is not None:
            moved.append(set_aside(home.recovery, why))
            break
    return moved


def why_damaged(path: Path) -> str | None:
    """Return what is wrong with a SQLite file, None when it is sound, empty or missing. Writes nothing.

    Raises StoreError when it cannot be looked at: no file handle left, no permission.
    """
    if not path.is_file():
        return None
    try:
        # not read-only: what a killed writer left in the -wal belongs to it
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if type(error) is sqlite3.DatabaseError:
            return str(error)
        raise StoreError(
            str(path), f"cannot be checked: {error}", "check permissions and disk space"
        ) from error
    return None if found == "ok" else " ".join(str(found).split())[:200]


def set_aside(path: Path, why: str) -> Path:
    """Rename a damaged file (with what SQLite keeps beside it) or folder, and log it; return its new path.

    Raises StoreError.
    """
    stamp = clock.SYSTEM.now().strftime("%Y%m%dT%H%M%SZ")
    number, target = 0, path.with_name(f"{path.name}{_MARK}{stamp}")
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}{_MARK}{stamp}-{number}")
    try:
        path.rename(target)
        for suffix in _BESIDE:
            beside = path.with_name(path.name + suffix)
            if beside.is_file():
                beside.rename(target.with_name(target.name + suffix))
    except OSError as error:
        raise StoreError(
            str(path),
            f"is damaged ({why}) and cannot be moved aside: {error}",
            "check the home's permissions",
        ) from error
    _LOG.warning("%s is damaged (%s): moved to %s, and made again", path, why, target.name)
    return target


def damaged(home: Home) -> list[Path]:
    """Return everything in a home that was moved aside, sorted; a person may look at it and delete it."""
    folders = (home.root, home.root / "recovery", home.root / "lance", *(home.root / "lance").glob("*"))
    found = [path for folder in folders if folder.is_dir() for path in folder.glob(f"*{_MARK}*")]
    return sorted(path for path in found if not path.name.endswith(_BESIDE))
