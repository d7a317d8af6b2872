"""Processes of a home: who runs, starting them apart from the terminal, stopping them for sure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from headwater.schemas import clock, limits
from headwater.schemas.errors import StoreError
from headwater.storage.locks import is_held, owner_pid
from headwater.storage.run_files import INGEST_LOCK, SERVER_LOCK, SUPERVISOR_LOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.storage.home import Home

_POLL_S = 0.05


def pids(home: Home) -> dict[str, int | None]:
    """Return the process ids of supervisor, ingest and server; None for those that do not run."""
    return {
        "supervisor": owner_pid(home.run / SUPERVISOR_LOCK),
        "ingest": owner_pid(home.run / INGEST_LOCK),
        "server": owner_pid(home.run / SERVER_LOCK),
    }


def spawn(home: Home, role: str, *, detached: bool) -> subprocess.Popen[bytes]:
    """Start one of our programs for a home; its output goes to `logs/<role>.log`.

    `-P` keeps the current folder out of the module path: it may be anybody's repository. Raises StoreError.
    """
    # our id is told, not asked for: whoever asks late for its parent's gets that of who took the orphan in
    parent = str(os.getpid())
    command = [sys.executable, "-P", "-m", "headwater.surface.workers", role, str(home.root), parent]
    try:
        with (home.logs / f"{role}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home.root,
                start_new_session=detached,
            )
    except OSError as error:
        raise StoreError(
            f"starting {role}", f"could not: {error}", "check disk space, memory and process limits"
        ) from error


def wait_until(done: Callable[[], bool], limit_s: float) -> bool:
    """Return whether `done` became true within the limit."""
    until_s = clock.SYSTEM.monotonic_s() + limit_s
    while not done():
        if clock.SYSTEM.monotonic_s() > until_s:
            return False
        clock.SYSTEM.sleep(_POLL_S)
    return True


def stop_all(home: Home) -> list[int]:
    """End supervisor, ingest and server, by force after STOP_S; return the ids of those that ran.

    When it returns none of them is left, nor the socket of a killed one.
    """
    running = {pid for pid in pids(home).values() if pid is not None}
    seen = set(running)

    def all_gone() -> bool:
        seen.update(pid for pid in pids(home).values() if pid is not None)
        return not any(is_alive(pid) for pid in seen)

    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in sorted(seen):
            _signal(pid, number)
        if wait_until(all_gone, limits.STOP_S):
            break
    if not is_held(home.run / SERVER_LOCK):
        with suppress(OSError):  # the next server removes it all the same
            home.socket.unlink(missing_ok=True)
    return sorted(seen)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def parent_is(pid: int) -> bool:
    """Return whether our parent still is the process that started us."""
    return os.getppid() == pid


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended by itself meanwhile
