"""How many events could not be recorded: one counter of 8 bytes, written in place so that a full disk can still count.

Standard library only: the hook loads it.
"""
# Paths are plain strings: importing pathlib takes longer than all that is done here.
# ruff: noqa: PTH103, PTH118, PTH123

import os

_FILE = "hook_failures"
_BYTES = 8
_TRIES = 20  # for the lock: with the pause below 40 ms, for the agent waits meanwhile
_PAUSE_S = 0.002


def failures_path(home: str) -> str:
    """Return the path of the counter."""
    return os.path.join(home, "run", _FILE)


def read_failures(home: str) -> int:
    """Return how many events were not recorded in this home; 0 when it never counted."""
    try:
        with open(failures_path(home), "rb") as file:
            return int.from_bytes(file.read(_BYTES), "little")
    except FileNotFoundError:
        return 0


def create_counter(home: str) -> None:
    """Allocate the counter. Idempotent; raises OSError."""
    os.makedirs(os.path.join(home, "run"), mode=0o700, exist_ok=True)
    fd = _open(home)
    try:
        if os.fstat(fd).st_size < _BYTES:
            os.pwrite(fd, bytes(_BYTES), 0)
    finally:
        os.close(fd)


def count_failure(home: str) -> int:
    """Add one and return the new count. Raises OSError when it cannot be written or another process keeps the lock."""
    if not home:
        raise FileNotFoundError("no home folder is known")
    try:
        fd = _open(home)
    except FileNotFoundError:
        create_counter(home)
        fd = _open(home)
    try:
        _lock(fd)
        count = int.from_bytes(os.pread(fd, _BYTES, 0), "little") + 1
        os.pwrite(fd, count.to_bytes(_BYTES, "little"), 0)
        return count
    finally:
        os.close(fd)  # gives the lock back too


def _open(home: str) -> int:
    return os.open(failures_path(home), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _lock(fd: int) -> None:
    import fcntl  # only this rare path needs them
    import time

    for _ in range(_TRIES - 1):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
