"""Locks between processes by `flock`: the kernel lets go when the owner dies, so none can be stale."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from headwater.schemas import clock, limits
from headwater.schemas.errors import BusyError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def hold_lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file exclusively; the owner's process id stands in it for people to read.

    Raises BusyError when another open of the file holds it, also one in this process; StoreError when the file cannot
    be used.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            str(path), f"lock cannot be opened: {error}", "check the home's permissions and file handles"
        ) from error
    try:
        try:
            _take(handle)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            owner = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise BusyError(
                what, f"already running (process {owner})", "run: headwater status, or: headwater down"
            ) from error
        except OSError as error:
            raise StoreError(
                str(path), f"lock cannot be taken: {error}", "free disk space, and use a local file system"
            ) from error
        yield
    finally:
        os.close(handle)


@contextmanager
def wait_for_lock(path: Path, what: str, limit_s: float) -> Iterator[None]:
    """Hold the lock file like `hold_lock`, waiting for at most `limit_s` for whoever holds it; then BusyError."""
    until_s = clock.SYSTEM.monotonic_s() + limit_s
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(hold_lock(path, what))
                break
            except BusyError:
                if clock.SYSTEM.monotonic_s() >= until_s:
                    raise
            clock.SYSTEM.sleep(limits.LOCK_WAIT_S)
        yield


def _take(handle: int) -> None:
    """Lock it, or raise BlockingIOError after a few tries: `is_held` of another process may be looking just now."""
    for _ in range(limits.LOCK_TRIES - 1):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            clock.SYSTEM.sleep(limits.LOCK_PAUSE_S)
        else:
            return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Return whether some process holds the lock; a missing file is not held. Raises StoreError."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(
            str(path), f"lock cannot be opened: {error}", "check the home's permissions"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not see each other
    except BlockingIOError:
        return True
    except OSError as error:
        raise StoreError(
            str(path), f"lock cannot be looked at: {error}", "use a local file system"
        ) from error
    finally:
        os.close(handle)
    return False


def owner_pid(path: Path) -> int | None:
    """Return the process that holds the lock, None when nobody does."""
    if not is_held(path):
        return None
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(
            str(path), f"lock cannot be read: {error}", "check the home's permissions"
        ) from error
    return int(text) if text.isdecimal() and text.isascii() else None
