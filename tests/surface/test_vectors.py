from __future__ import annotations

import os
import signal
import subprocess
from contextlib import closing

import pytest
from program import PROGRAM, Program

from headwater.schemas.columns import EVENTS
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.storage.models import hash_spec, version_of
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore
from headwater.storage.worker_lock import version_lock

VERSION = version_of(hash_spec())
OTHER = "other-64-0123456789ab"


def fill(program: Program, *texts: str) -> None:
    """Bring prompts in without their vectors."""
    path = program.home.root.parent / "in.jsonl"
    lines = [
        f'{{"hook_event_name":"UserPromptSubmit","session_id":"s","cwd":"/","prompt":"{text}","prompt_id":"{text}"}}\n'
        for text in texts
    ]
    path.write_text("".join(lines))
    program.run("ingest", str(path), "--no-embed")


def test_worker_status_reconcile_drop(program: Program) -> None:
    """By hand: vectors are lacking, a worker makes them, a lost outbox comes back, an old version can be dropped."""
    fill(program, "one", "two")
    before = program.json("vector", "status")
    assert (before["version"], before["pending"], before["items_without_vectors"]) == (VERSION, 2, 2)
    assert (before["worker"], before["last_processed_at"], before["failed_jobs"]) == (None, None, [])

    done = program.json("vector", "worker", "--once")
    assert done == {"processed": 2, "succeeded": 2, "failed": 0, "errors": []}
    assert program.run("vector-worker", "--once").stdout == "Processed: 0, Succeeded: 0, Failed: 0\n"

    for path in program.home.root.glob("outbox.sqlite*"):
        path.unlink()
    (event,) = LanceStore(program.home.lance).open(EVENTS, create=False).scan(["id"], "content = 'one'")["id"]
    LanceStore(program.home.lance).open(EVENTS).delete(f"id = '{event}'")
    assert program.json("vector-reconcile", "--dry-run")["orphans"] == 1
    put_right = program.json("vector", "worker", "--once", "--reconcile")["reconcile"]
    assert (put_right["missing"], put_right["orphans"], put_right["deleted"]) == (0, 1, 1)
    assert "0 items have no vectors" in program.run("vector", "reconcile").stdout
    after = program.json("vector-status")
    assert (after["items_with_vectors"], after["items_without_vectors"]) == (1, 0)
    assert after["versions"] == {VERSION: 1}

    assert "it is the active one" in program.run("vector", "drop", VERSION, code=1).stderr
    assert f"wanted one of: {VERSION}" in program.run("vector", "drop", OTHER, code=1).stderr
    with closing(VectorOutbox(program.home.outbox_file)) as outbox:
        outbox.enqueue(JobRequest(ItemKind.ENTRY, "x", OTHER, "h"))
    assert program.json("vector", "drop", OTHER) == {"version": OTHER, "items": 0, "jobs": 1}


def test_another_worker_is_no_error(program: Program) -> None:
    """While one works, a second says so and ends well; status names the first; a signal ends it well."""
    program.json("vector", "status")
    worker = subprocess.Popen(
        [str(PROGRAM), "vector", "worker"], env=program.env, stderr=subprocess.PIPE, text=True
    )
    try:
        assert worker.stderr is not None
        assert "is running" in worker.stderr.readline()
        assert program.run("vector", "worker").stdout == "Another worker is running\n"
        assert program.json("vector-worker", "--once")["message"] == "Another worker is running"
        assert program.json("vector", "status")["worker"] == worker.pid
        fill(program, "three")
        program.wait(lambda status: status["vectors"] == 1)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.communicate()


def test_failed_jobs_are_shown_with_their_error(program: Program) -> None:
    """A job whose item is not there is told with its error, and what to do."""
    with closing(VectorOutbox(program.home.outbox_file)) as outbox:
        outbox.enqueue(JobRequest(ItemKind.MEMORY, "mem_1", VERSION, "h"))
    said = program.run("vector", "worker", "--once")
    assert said.stdout == "Processed: 1, Succeeded: 0, Failed: 1\n"
    assert "Content not found: memory:mem_1" in said.stderr
    status = program.run("vector", "status").stdout
    assert "memory:mem_1 failed: Content not found: memory:mem_1" in status
    assert "headwater vector reconcile" in status
    assert all(len(line) <= 80 for line in status.splitlines())
    assert program.json("vector", "reconcile")["reset"] == 1


@pytest.mark.parametrize("words", [["drop"], ["reconcile", "--max-retries", "0"], ["worker", "--twice"]])
def test_wrong_use(program: Program, words: list[str]) -> None:
    """What means nothing is wrong use."""
    program.run("vector", *words, code=2)


def test_a_dead_workers_lock_is_free(program: Program) -> None:
    """A lock file with the number of a living process that does not hold it keeps no worker out."""
    lock = version_lock(program.home, VERSION)
    assert lock.acquire()
    lock.release()
    (file,) = program.home.run.glob("vectors-*.lock")
    file.write_text(f"{os.getpid()}\n")
    assert program.json("vector", "worker", "--once")["processed"] == 0
