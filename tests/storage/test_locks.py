from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.schemas import limits
from headwater.schemas.errors import BusyError, StoreError
from headwater.storage.locks import hold_lock, is_held, owner_pid, wait_for_lock

HOLDER = (
    "import sys, time; from pathlib import Path; from headwater.storage.locks import hold_lock\n"
    "with hold_lock(Path(sys.argv[1]), 'test'):\n"
    "    print('held', flush=True); sys.stdin.read()\n"
)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """The second taker is told who holds it; when the first lets go, it gets it."""
    path = tmp_path / "a.lock"
    with hold_lock(path, "first"):
        assert is_held(path)
        assert owner_pid(path) == os.getpid()
        with (
            pytest.raises(BusyError, match=f"already running \\(process {os.getpid()}\\)"),
            hold_lock(path, "second"),
        ):
            pass
    assert not is_held(path)
    with hold_lock(path, "second"):
        assert is_held(path)


def test_nobody_holds_what_is_not_there(tmp_path: Path) -> None:
    """A missing file is not held and has no owner; a left one neither, whatever stands in it."""
    path = tmp_path / "a.lock"
    assert not is_held(path)
    assert owner_pid(path) is None
    path.write_text("99999999\n")
    assert not is_held(path)
    assert owner_pid(path) is None


def test_an_error_inside_lets_go(tmp_path: Path) -> None:
    """What raises while it holds the lock lets it go and is not changed."""
    path = tmp_path / "a.lock"
    with pytest.raises(OSError, match="mine"), hold_lock(path, "test"):
        raise OSError("mine")
    assert not is_held(path)


def test_the_dead_hold_nothing(tmp_path: Path) -> None:
    """The lock of a killed process is free at once; while it lived, it was the owner."""
    path = tmp_path / "a.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert owner_pid(path) == process.pid
        with pytest.raises(BusyError), hold_lock(path, "test"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert not is_held(path)
    with hold_lock(path, "test"):
        assert owner_pid(path) == os.getpid()


def test_those_who_look_do_not_see_each_other(tmp_path: Path) -> None:
    """Of a free lock, many that look at the same time all say that nobody holds it."""
    path = tmp_path / "a.lock"
    path.touch()
    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(lambda _: is_held(path), range(2000)))


def test_looking_keeps_nobody_from_taking(tmp_path: Path) -> None:
    """While others keep looking, a free lock can be taken every time."""
    path = tmp_path / "a.lock"
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            is_held(path)

    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        try:
            for _ in range(50):
                with hold_lock(path, "test"):
                    assert owner_pid(path) == os.getpid()
        finally:
            ended.set()
        assert [one.result() for one in looking] == [None, None]


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    """A path that is a folder, or below a file, is our error for each of the three."""
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "a.lock"
    with pytest.raises(StoreError), hold_lock(path, "test"):
        pass
    with pytest.raises(StoreError):
        is_held(path)
    with pytest.raises(StoreError):
        owner_pid(path)


def test_a_held_lock_is_waited_for(tmp_path: Path) -> None:
    """Who waits gets it when the holder lets go; who waits in vain is told who holds it."""
    path = tmp_path / "a.lock"
    let_go = threading.Event()
    held = threading.Event()

    def hold() -> None:
        with hold_lock(path, "first"):
            held.set()
            let_go.wait(60)

    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(hold)
        assert held.wait(60)
        with pytest.raises(BusyError, match="already running"), wait_for_lock(path, "second", 0):
            pass
        threading.Timer(2 * limits.LOCK_WAIT_S, let_go.set).start()
        with wait_for_lock(path, "second", 60):
            assert is_held(path)
        holder.result()
    assert not is_held(path)
