"""The long-lived programs: supervisor, ingest, server. `python -P -m headwater.surface.workers ROLE HOME [PARENT]`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.schemas import clock, limits
from headwater.schemas.errors import HeadwaterError, StoreError
from headwater.storage.home import Home
from headwater.storage.locks import hold_lock
from headwater.storage.mending import mend
from headwater.storage.panics import panics_as_errors
from headwater.storage.run_files import INGEST_LOCK, SUPERVISOR_LOCK
from headwater.surface import activity, processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

LOG = logging.getLogger("headwater")
CHILDREN = ("ingest", "server")
_LOOK_S = 0.2  # how often the supervisor looks at its children, and a child at its parent


def main(argv: list[str]) -> int:
    """Run one role until told to stop; return its exit code. Arguments: role, home, process id of its parent."""
    role, root = argv[:2]
    parent = int(argv[2]) if len(argv) > 2 else os.getppid()
    stop = stop_on_signals()
    try:
        home = Home.open(Path(root))
        set_up_logging(home, role)
        if role == "supervisor":
            supervise(home, stop, idle_stop_s=home.config().server.idle_stop_h * 3600)
        else:
            threading.Thread(target=_follow_parent, args=(parent, stop), daemon=True).start()
            with panics_as_errors():
                _ROLES[role](home, stop)
    except HeadwaterError as error:
        LOG.error("%s ended: %s", role, error)  # noqa: TRY400 - the line says all; a traceback is for bugs
        return 1
    except Exception:
        LOG.exception("%s ended by a fault of ours", role)
        return 1
    return 0


def supervise(home: Home, stop: threading.Event, *, idle_stop_s: float = 0.0) -> None:
    """Keep ingest and server running until told to stop, then stop them. Raises BusyError when another one does.

    With `idle_stop_s` also when neither a hook nor a question came for so long; 0: never.
    """
    with hold_lock(home.run / SUPERVISOR_LOCK, "headwater"):
        children = {role: _Child(home, role) for role in CHILDREN}
        LOG.info("up, home %s", home.root)
        try:
            idle = Idle(home, idle_stop_s)
            while not stop.wait(_LOOK_S) and not idle.is_over():
                for child in children.values():
                    child.look()
        finally:
            for child in children.values():
                child.terminate()
            for child in children.values():
                child.end()
            LOG.info("down")


class Idle:
    """Tells when nobody used the stream for so long; its own start counts as use."""

    def __init__(self, home: Home, limit_s: float) -> None:
        """Begin to count; a limit of 0 has no end."""
        self._home = home
        self._limit_s = limit_s
        self._start_s = self._looked_s = clock.SYSTEM.monotonic_s()

    def is_over(self) -> bool:
        """Return whether the limit has passed; looks now and then only."""
        now_s = clock.SYSTEM.monotonic_s()
        if not self._limit_s or now_s - self._looked_s < min(limits.IDLE_LOOK_S, self._limit_s / 2):
            return False
        self._looked_s = now_s
        try:
            idle_s = min(activity.idle_s(self._home), now_s - self._start_s)
        except StoreError as error:
            LOG.warning("whether anybody is here cannot be told: %s", error)
            return False
        if idle_s < self._limit_s:
            return False
        LOG.info("nobody was here for %.1f h", idle_s / 3600)
        return True


def set_up_logging(home: Home, role: str) -> None:
    """Log to a file of bounded size; texts of events are never logged."""
    path = home.logs / f"{role}.log"
    try:
        handler = RotatingFileHandler(path, maxBytes=limits.LOG_BYTES, backupCount=1, encoding="utf-8")
    except OSError as error:
        raise StoreError(
            str(path), f"cannot be written: {error}", "check the home's permissions and disk space"
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set, however many come.

    Not in a handler: that runs in the midst of whatever the main thread does, which may be waiting for this very event
    or be in another handler, with the event's lock in its hands. The number is written to a pipe when the signal comes,
    also while the main thread is in a library, and a thread of its own sets the event.
    """
    stop = threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)

    def wait() -> None:
        while set(os.read(reading, 64)).isdisjoint({signal.SIGTERM, signal.SIGINT}):
            continue  # another signal that somebody handles
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return stop


class _Child:
    """One supervised process, started again after a growing wait when it ends by itself."""

    def __init__(self, home: Home, role: str) -> None:
        self._home = home
        self._role = role
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts = 0
        self._started_s = self._due_s = clock.SYSTEM.monotonic_s()

    def look(self) -> None:
        now_s = clock.SYSTEM.monotonic_s()
        if self._process is None:
            if now_s >= self._due_s:
                self._process = processes.spawn(self._home, self._role, detached=False)
                self._started_s = now_s
            return
        code = self._process.poll()
        if code is None:
            return
        if now_s - self._started_s > limits.STEADY_S:
            self._restarts = 0
        waits = limits.RESTART_BACKOFF_S
        wait_s = waits[min(self._restarts, len(waits) - 1)]
        LOG.warning("%s ended with %s, started again in %.0f s", self._role, code, wait_s)
        self._process, self._due_s, self._restarts = None, now_s + wait_s, self._restarts + 1

    def terminate(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        if self._process is None:
            return
        if not processes.wait_until(
            lambda: self._process is None or self._process.poll() is not None, limits.STOP_S
        ):
            LOG.warning("%s did not end within %.0f s and is killed", self._role, limits.STOP_S)
            self._process.kill()
        self._process.wait()


def _run_ingest(home: Home, stop: threading.Event) -> None:
    from headwater.flows.ingest_run import IngestOptions, run_ingest
    from headwater.storage.active import active_version

    version: str | None = None
    try:
        version = active_version(home)
    except HeadwaterError as error:
        LOG.warning("no vectors for now: %s", error)
    with hold_lock(home.run / INGEST_LOCK, "ingest flow"):
        mend(home)
    run_ingest(home, IngestOptions(embedding_version=version, stop=stop, archive=True))


def _run_server(home: Home, stop: threading.Event) -> None:
    from headwater.surface.server import serve

    serve(home, stop)


def _follow_parent(parent: int, stop: threading.Event) -> None:
    """End with the supervisor: one that was killed cannot stop us."""
    while not stop.wait(_LOOK_S):
        if not processes.parent_is(parent):
            LOG.warning("the supervisor is gone")
            stop.set()


_ROLES: dict[str, Callable[[Home, threading.Event], None]] = {"ingest": _run_ingest, "server": _run_server}

if __name__ == "__main__":
    _code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(_code)  # all is on the disk; taking the libraries apart would take longer than stopping did
