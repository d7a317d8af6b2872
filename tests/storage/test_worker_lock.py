from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headwater.schemas.errors import BusyError
from headwater.storage.home import Home
from headwater.storage.worker_lock import WorkerLock, version_lock

HOLDER = (
    "import sys; from pathlib import Path; from headwater.storage.worker_lock import WorkerLock\n"
    "lock = WorkerLock(Path(sys.argv[1]))\n"
    "print(lock.acquire(), flush=True); sys.stdin.read()\n"
)


def hold_elsewhere(path: Path) -> subprocess.Popen[str]:
    """Start a process that takes the lock and keeps it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def test_one_worker_in_a_process(tmp_path: Path) -> None:
    """The second is refused until the first lets go, also through the same object and from another thread."""
    first, second = WorkerLock(tmp_path / "a.lock"), WorkerLock(tmp_path / "a.lock")
    assert first.acquire()
    assert not first.acquire()
    assert not second.acquire()
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(WorkerLock(tmp_path / "a.lock").acquire()))
    thread.start()
    thread.join(60)
    assert said == [False]
    second.release()  # not its own: nothing happens
    assert (first.is_mine, second.owner()) == (True, os.getpid())
    first.release()
    assert first.owner() is None
    assert second.acquire()
    second.release()
    second.release()
    assert first.acquire()
    first.release()


def test_one_worker_among_processes_and_the_dead_hold_nothing(tmp_path: Path) -> None:
    """A worker elsewhere keeps us out while it lives; when it is killed, the lock is free at once."""
    lock = WorkerLock(tmp_path / "a.lock")
    with hold_elsewhere(tmp_path / "a.lock") as process:
        assert not lock.acquire()
        assert lock.owner() == process.pid
        process.kill()
        process.wait(60)
    assert lock.acquire()
    lock.release()


def test_a_recycled_number_keeps_nobody_out(tmp_path: Path) -> None:
    """A file that names a living process, which does not hold the lock, is a file that a dead worker left."""
    path = tmp_path / "a.lock"
    path.write_text(f"{os.getppid()}\n")
    lock = WorkerLock(path)
    assert lock.owner() is None
    assert lock.acquire()
    assert path.read_text() == f"{os.getpid()}\n"
    lock.release()


def test_in_a_block_the_busy_one_is_named(tmp_path: Path) -> None:
    """A block holds the lock, lets go at its end or error, and a second one is told who works."""
    path = tmp_path / "a.lock"
    with (
        WorkerLock(path, "embedding x"),
        pytest.raises(BusyError, match=f"embedding x: another worker is running \\(process {os.getpid()}\\)"),
        WorkerLock(path, "embedding x"),
    ):
        pass
    with pytest.raises(OSError, match="mine"), WorkerLock(path):
        raise OSError("mine")
    assert WorkerLock(path).owner() is None


def test_versions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Each embedding version of a home has a worker of its own."""
    home = Home.open(tmp_path / "h")
    with version_lock(home, "minilm-384-abc"), version_lock(home, "other-384-abc"):
        assert not version_lock(home, "minilm-384-abc").acquire()
