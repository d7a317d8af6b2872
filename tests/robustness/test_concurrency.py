"""Many at once: agents that write, people who read, care, imports; and starts, stops and kills in between."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from program import Program
from stage import Stage, prompt

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.query.stores import Stores
from headwater.schemas.clock import SYSTEM
from headwater.schemas.columns import EVENTS
from headwater.storage import journal
from headwater.storage.active import active_version
from headwater.storage.home import Home
from headwater.storage.locks import is_held
from headwater.storage.run_files import INGEST_LOCK, SERVER_LOCK, SUPERVISOR_LOCK
from headwater.storage.tables import LanceStore
from headwater.surface import client, processes
from headwater.surface.hook import read_failures

SUPPORT = Path(__file__).resolve().parents[1] / "support"
AGENTS, CALLS = 16, 200
IMPORTED = 3000
CYCLES = 20
LIMIT_S = 90.0


@pytest.mark.slow
def test_16_processes_of_200_hook_calls_of_1_b_to_300_kb(stage: Stage) -> None:
    """Exactly 3,200 whole lines, half of them in one file; each of them is one event."""
    command = [sys.executable, str(SUPPORT / "hook_storm.py"), str(stage.home.root)]
    agents = [subprocess.Popen([*command, str(n), str(CALLS)]) for n in range(AGENTS)]
    assert [agent.wait(timeout=LIMIT_S) for agent in agents] == [0] * AGENTS
    lines = stage.lines()
    assert len(lines) == AGENTS * CALLS
    wanted = {f"u{number}-{n}" for number in range(AGENTS) for n in range(CALLS)}
    assert {line["payload"]["tool_use_id"] for line in lines} == wanted
    assert read_failures(str(stage.home.root)) == 0
    run_ingest(stage.home, IngestOptions(None, until_idle=True))
    assert stage.fates() == {"event": AGENTS * CALLS}
    assert {row["tool"]["use_id"] for row in stage.rows()} == wanted


class Readers:
    """Threads that do something again and again, and remember what failed."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.done: Counter[str] = Counter()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, call: Callable[[], object], pause_s: float = 0.01) -> None:
        """Do it until `end`."""

        def loop() -> None:
            while not self._stop.is_set():
                try:
                    call()
                    self.done[name] += 1
                except Exception as error:  # noqa: BLE001 - the test fails with it
                    self.errors.append(f"{name}: {type(error).__name__}: {error}")
                    return
                self._stop.wait(pause_s)

        self._threads.append(threading.Thread(target=loop))
        self._threads[-1].start()

    def end(self) -> None:
        """Stop all."""
        self._stop.set()
        for thread in self._threads:
            thread.join(LIMIT_S)


@pytest.mark.slow
def test_cli_readers_maintenance_and_batch_ingest_at_once(program: Program, tmp_path: Path) -> None:
    """While a batch is imported and hooks write: no read fails, care is done, and the counts match in the end."""
    program.run("up")
    home, stage = program.home, Stage(program.home.root)
    log = tmp_path / "log.jsonl"
    payloads = (prompt(f"b{n % 9}", f"walrus {n} of the batch", prompt_id=f"b{n}") for n in range(IMPORTED))
    log.write_text("\n".join(json.dumps(payload) for payload in payloads), encoding="utf-8")
    stores = Stores.open(home)
    care = LanceStore(home.lance).open(EVENTS, create=False)
    hooks = iter(range(10**6))
    readers = Readers()
    wanted = {"query": "walrus of the batch", "top_k": 5, "all_projects": True}
    readers.start("server", lambda: client.ask_server(home, "search", wanted))
    readers.start("table", lambda: stores.events.match("walrus", "content", None, 10, ["id"]))
    readers.start("scan", lambda: stores.events.scan(["id", "at", "kind"]), 0.2)
    readers.start("care", lambda: care.maintain(SYSTEM.now(), force=True), 0.5)
    readers.start("cli", lambda: program.json("search", "walrus"), 0.5)
    readers.start("hook", lambda: stage.hook(prompt("live", "walrus live", prompt_id=f"h{next(hooks)}")), 0.1)
    try:
        report = program.json("ingest", str(log), "--no-embed")
    finally:
        readers.end()
    assert readers.errors == []
    assert report["events"] == IMPORTED
    assert min(readers.done.values()) >= 1
    assert readers.done.keys() == {"server", "table", "scan", "care", "cli", "hook"}
    total = IMPORTED + readers.done["hook"]
    # vectors are of summaries, too: all events have theirs when no job is left
    program.wait(lambda now: now["events"] == total and _embedded(now, total), LIMIT_S)
    program.run("down")
    stage.check(total)


def _embedded(now: dict[str, Any], items: int) -> bool:
    """Return whether so many items, and what memory made of them, have vectors."""
    return bool(now["vectors"] >= items and now["jobs"]["pending"] + now["jobs"]["processing"] == 0)


def ours(home: Home) -> list[psutil.Process]:
    """Return all living programs of this home's stream."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if (
            str(home.root) in words
            and "headwater.surface.workers" in words
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ):
            found.append(process)
    return found


@pytest.mark.slow
def test_20_start_stop_kill_cycles_leave_no_process_lock_or_socket(program: Program) -> None:
    """Stopped, or killed whole or in part, while starting or when up: nothing of it is left after `down`."""
    home, chance = program.home, random.Random(7)
    for cycle in range(CYCLES):
        supervisor = processes.spawn(home, "supervisor", detached=True)
        if cycle % 4 == 0:
            assert processes.wait_until(lambda: client_answers(home), LIMIT_S)
        else:
            time.sleep(chance.uniform(0.0, 1.2))
        if cycle % 4 == 1:
            supervisor.kill()  # its children have to notice
        elif cycle % 4 == 2:
            for process in ours(home):
                process.kill()
        elif cycle % 4 == 3:
            supervisor.terminate()
        if cycle % 4 in (0, 2):
            processes.stop_all(home)
        supervisor.wait(LIMIT_S)
        assert processes.wait_until(lambda: not ours(home), LIMIT_S), [one.cmdline() for one in ours(home)]
        processes.stop_all(home)
        assert not home.socket.exists()
        locks = [name for name in (SUPERVISOR_LOCK, INGEST_LOCK, SERVER_LOCK) if is_held(home.run / name)]
        assert locks == [], f"cycle {cycle}"
    program.hook(prompt("after", "it still works"))
    stage = Stage(home.root)
    stage.work()
    stage.check(1)


def client_answers(home: Home) -> bool:
    """Return whether the stream is up."""
    return is_held(home.run / INGEST_LOCK) and home.socket.exists()


@pytest.mark.slow
def test_sigterm_ends_with_the_last_snapshot_written(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped flow ends by itself with exit code 0, and the next one reads no line again."""
    for n in range(500):
        stage.tell(f"s{n % 7}", "UserPromptSubmit", float(n), prompt=f"number {n}", prompt_id=f"p{n}")
    worker = processes.spawn(stage.home, "ingest", detached=False)
    try:
        assert processes.wait_until(lambda: len(stage.rows()) == 500, LIMIT_S)
        for n in range(500, 520):
            stage.tell("s1", "UserPromptSubmit", float(n), prompt=f"number {n}", prompt_id=f"p{n}")
        assert processes.wait_until(lambda: len(stage.rows()) == 520, LIMIT_S)
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait(LIMIT_S) == 0
    finally:
        worker.kill()
        worker.wait()
    read = []
    real = journal.read

    def counting(*args: object) -> journal.Read:
        got = real(*args)  # type: ignore[arg-type]
        read.extend(got.lines)
        return got

    monkeypatch.setattr(journal, "read", counting)
    run_ingest(stage.home, IngestOptions(active_version(stage.home), until_idle=True))
    assert read == []
    assert stage.fates() == {"event": 520}


WAITS = """
import sys
from headwater.surface.workers import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
while not stop.wait(0.0001):
    pass
sys.exit(7)
"""


def test_many_signals_at_once_do_not_hang_it() -> None:
    """`down` and the supervisor both send SIGTERM: however many come, and whenever, the process ends as it should."""
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            end_s = time.monotonic() + LIMIT_S
            while child.poll() is None:
                child.send_signal(signal.SIGTERM)
                assert time.monotonic() < end_s
            # a signal that comes when the interpreter has taken its handlers down already ends it by itself
            assert child.returncode in (7, -signal.SIGTERM)


@pytest.mark.slow
def test_many_hooks_beside_a_killed_flow(program: Program) -> None:
    """Hooks never wait for anything of ours: with the whole stream killed under them, each event is kept."""
    program.run("up")
    stage = Stage(program.home.root)

    def send(n: int) -> str:
        if n == 20:
            for process in ours(program.home):
                process.kill()
        return stage.hook(prompt(f"s{n % 3}", f"number {n}", prompt_id=f"p{n}"))

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(send, range(60))) == {""}
    processes.stop_all(program.home)
    stage.work()
    stage.check(60)
