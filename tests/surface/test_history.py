"""`reprocess` and `archive` as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from generation_rows import differences, rows_of
from journal_lines import append, live, story
from program import PROGRAM, Program

from headwater.storage.home import Home

LIMIT_S = 60.0


@pytest.fixture
def filled(program: Program) -> Program:
    """A home whose recorded sessions are read."""
    for line in [*live(), *story()]:
        append(program.home.journal, line)
    program.run("archive", "--older-than-days", "9000")  # seals nothing, but reads all first
    assert rows_of(program.home).height > 300
    return program


def prompt(n: int) -> dict[str, Any]:
    """Return a prompt payload of its own."""
    return {
        "session_id": f"live-{n % 4}",
        "cwd": "/home/dev/paylark",
        "hook_event_name": "UserPromptSubmit",
        "prompt_id": str(uuid.uuid5(uuid.NAMESPACE_OID, str(n))),
        "prompt": f"please look at number {n}",
    }


def begin(program: Program, *words: str, **env: str) -> subprocess.Popen[bytes]:
    """Start a verb and do not wait for it."""
    return subprocess.Popen([str(PROGRAM), *words], env=program.env | env, cwd=program.home.root)


@pytest.mark.slow
def test_killed_reprocess_goes_on(filled: Program) -> None:
    """A build killed in the middle, by itself or from outside, leaves all as it was; the next run finishes it."""
    home = filled.home
    before = rows_of(home)
    killed = begin(filled, "reprocess", HEADWATER_FAULT="ingest.settled:1:kill")
    assert killed.wait(LIMIT_S) == -signal.SIGKILL
    assert home.current().generation == "gen-1"
    assert differences(rows_of(home), before) == []
    outside = begin(filled, "reprocess")
    end_s = time.monotonic() + LIMIT_S
    while (home.run / "reprocess.lock").read_text() != f"{outside.pid}\n":
        assert time.monotonic() < end_s
        time.sleep(0.005)
    outside.kill()
    outside.wait(LIMIT_S)
    assert differences(rows_of(home), before) == []
    if home.current().generation == "gen-1":
        done = filled.json("reprocess")
        assert (done["generation"], done["previous"], done["resumed"]) == ("gen-2", "gen-1", True)
    assert differences(rows_of(home), before) == []


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["reprocess", "up"])
def test_everything_derived_can_be_deleted(filled: Program, verb: str) -> None:
    """Without tables, outbox, register and snapshots, and with a sealed journal, the same rows come back."""
    home = filled.home
    before = rows_of(home)
    sealed = filled.json("archive", "--older-than-days", "0")
    assert sealed["files"] > 20
    assert sealed["left"] == []
    assert list(home.journal.glob("*.jsonl")) == []
    for name in ("lance", "recovery", "outbox.sqlite", "ids.sqlite"):
        os.system(f"rm -rf '{home.root}/{name}'*")
    filled.run(verb)
    filled.wait(lambda status: status["events"] == before.height)
    assert differences(rows_of(home), before) == []
    assert filled.status()["journal_lag_bytes"] == 0


@pytest.mark.slow
def test_reprocess_beside_the_running_stream_misses_nothing(filled: Program) -> None:
    """Hooks append while the tables are built and switched: each prompt is an event, in the new generation."""
    filled.run("up")
    before = filled.wait(lambda status: status["running"]["ingest"])["events"]
    pids = filled.status()["pids"]
    building = begin(filled, "reprocess", "--json")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(filled.hook, [prompt(n) for n in range(60)]))
        assert building.wait(LIMIT_S) == 0
        list(pool.map(filled.hook, [prompt(n) for n in range(60, 80)]))
    done = filled.wait(lambda status: status["events"] == before + 80 and status["journal_lag_bytes"] == 0)
    assert filled.home.current().generation == "gen-2"
    assert done["pids"]["supervisor"] == pids["supervisor"]
    assert done["pids"]["ingest"] == pids["ingest"]
    assert done["quarantined"] == 0
    filled.wait(lambda status: status["jobs"]["pending"] + status["jobs"]["processing"] == 0)
    found = filled.json("search", "please look at number 79")
    assert "number 79" in found["index"][0]["summary"]


@pytest.mark.slow
def test_way_back_and_errors_in_one_line(filled: Program) -> None:
    """`--to` goes back; what cannot be done is one line with the fix and exit code 1, wrong use is 2."""
    filled.run("reprocess")
    assert "gen-1 is current" in filled.run("reprocess", "--to", "gen-1").stdout
    for words in (("--to", "gen-9"), ("--project", "/nowhere/at/all")):
        error = filled.run("reprocess", *words, code=1).stderr
        assert len(error.splitlines()) == 1
        assert "Fix:" in error
    filled.run("reprocess", "--to", "gen-1", "--project", "x", code=2)
    filled.run("reprocess", "--keep", "-1", code=2)


@pytest.mark.slow
def test_archive_by_hand_needs_the_stream_to_be_down(filled: Program) -> None:
    """A dry run tells and changes nothing; with the stream up, the verb says what to do."""
    files = sorted(path.name for path in filled.home.journal.glob("*.jsonl"))
    told = filled.json("archive", "--older-than-days", "0", "--dry-run")
    assert (told["files"], told["dry_run"]) == (len(files), True)
    assert sorted(path.name for path in filled.home.journal.glob("*.jsonl")) == files
    assert "files" in filled.run("archive", "--dry-run").stdout
    filled.run("up")
    filled.wait(lambda status: status["running"]["ingest"])
    assert "headwater down" in filled.run("archive", code=1).stderr


def test_history_of_a_missing_home_is_an_error(tmp_path: Path, program: Program) -> None:
    """Neither verb makes a home where there is none."""
    for verb in ("archive", "reprocess"):
        assert "Fix:" in program.run(verb, "--home", str(tmp_path / "none"), code=1).stderr
    assert not (tmp_path / "none").exists()
    assert Home.open(program.home.root).current().generation == "gen-1"
