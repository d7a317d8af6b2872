"""Files for people that appear whole or not at all, and the stillness that some of them need."""

from __future__ import annotations

import contextlib
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.schemas.errors import HeadwaterError, InputError, StoreError
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import ARCHIVE_LOCK, INGEST_LOCK, SERVER_LOCK, SUPERVISOR_LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from headwater.storage.home import Home

TEMPORARY = ".headwater-"


def check_target(target: Path, *, overwrite: bool) -> None:
    """Raise InputError when a file cannot be put there: there is no folder, or something of its name."""
    if not target.parent.is_dir():
        raise InputError(
            str(target), f"wanted a folder {target.parent}, found none", "make it, or name another file"
        )
    if target.is_dir():
        raise InputError(str(target), "wanted a file, found a folder", "name a file in it")
    if target.exists() and not overwrite:
        raise InputError(str(target), "exists already", "add --force to replace it, or name another file")


@contextmanager
def published(target: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Yield a file (0600) that bears its name, whole and durable, when the block ends; on an error nothing appears.

    Raises InputError like `check_target`, StoreError when it cannot be written; errors of ours pass.
    """
    check_target(target, overwrite=overwrite)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=TEMPORARY, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        sync_folder(target.parent)
    except HeadwaterError:
        raise
    except OSError as error:
        raise StoreError(
            str(target), f"cannot be written: {error}", "free disk space and check the folder's permissions"
        ) from error


def sync_folder(folder: Path) -> None:
    """Force the names in a folder, or the content of a file, to the disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def stillness(home: Home) -> Iterator[None]:
    """Hold every lock of a home, so that nothing but hooks writes to it meanwhile. Raises BusyError, StoreError."""
    first = {SUPERVISOR_LOCK: "headwater", INGEST_LOCK: "headwater", SERVER_LOCK: "headwater"}
    others = {path.name: f"a process that holds {path.name}" for path in sorted(home.run.glob("*.lock"))}
    with _holding(home, others | {ARCHIVE_LOCK: "the archive"} | first):
        yield


@contextmanager
def sealing_stopped(home: Home) -> Iterator[None]:
    """Hold the lock without which no line moves from the journal to the archive. Raises BusyError, StoreError."""
    with _holding(home, {ARCHIVE_LOCK: "the archive"}):
        yield


@contextmanager
def _holding(home: Home, locks: dict[str, str]) -> Iterator[None]:
    try:
        home.run.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(str(home.run), f"cannot be used: {error}", "check the home's permissions") from error
    with contextlib.ExitStack() as stack:
        for name, what in sorted(locks.items(), key=lambda lock: lock[1] != "headwater"):
            stack.enter_context(hold_lock(home.run / name, what))
        yield
