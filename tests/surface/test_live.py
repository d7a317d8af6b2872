"""The whole corridor, live: real hook processes, the running stream, and answers over its socket."""

from __future__ import annotations

import json
import os
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from program import Program

from headwater.schemas.events import Fate
from headwater.storage.known_ids import KnownIds
from headwater.storage.vectors import VectorStore

EVENTS = 200


def prompt(n: int, session: str, word: str) -> dict[str, Any]:
    """Return a prompt payload with a word of its own."""
    return {
        "session_id": session,
        "cwd": "/home/dev/paylark",
        "hook_event_name": "UserPromptSubmit",
        "prompt_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{session}-{n}")),
        "prompt": f"please look at {word} number {n}",
    }


@pytest.mark.slow
def test_two_hundred_hook_processes_give_two_hundred_findable_events_by_watchfiles_alone(
    program: Program,
) -> None:
    """Live hooks while the stream runs: each event once, found by its own word, none by the rescan."""
    program.env["HEADWATER_INGEST__RESCAN_S"] = "3600"
    old = prompt(9_999, "before-start", "earlyword")
    program.hook(old)
    program.run("up")
    words = [f"zebra{n:03}quill" for n in range(EVENTS)]
    payloads = [prompt(n, f"session-{n % 7}" if n % 2 else "before-start", words[n]) for n in range(EVENTS)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(program.hook, payloads))
    now = program.wait(lambda status: status["events"] >= EVENTS + 1)
    assert now["events"] == EVENTS + 1
    assert now["wakes"]["rescan"] == 0
    assert now["wakes"]["watch"] > 0
    assert now["hook_failures"] == 0
    for n in range(0, EVENTS, 10):
        found = program.json("search", words[n])["index"]
        assert words[n] in found[0]["summary"], f"{words[n]} is not the first hit"
    done = program.wait(lambda status: status["vectors"] >= EVENTS + 1)
    assert done["jobs"]["failed"] == 0
    around = program.json("timeline", found[0]["id"], "--window", "2")
    assert [row["is_target"] for row in around].count(True) == 1
    whole = program.json("show", found[0]["id"])
    assert whole[0]["content"] == payloads[190]["prompt"]
    program.run("down")
    assert program.status()["running"] == {"ingest": False, "server": False}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["ingest", "server", "supervisor"])
def test_a_killed_process_loses_and_doubles_nothing(program: Program, victim: str) -> None:
    """Kill -9 in the middle of a load, then start again: every event once, every item one vector set."""
    program.run("up")
    lines = [json.dumps(prompt(n, f"kill-{n % 5}", f"word{n}") | {"n": n}) for n in range(3000)]
    log = program.home.root.parent / "log.jsonl"
    log.write_text("\n".join(lines), encoding="utf-8")
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(program.run, "ingest", str(log), "--no-embed", "--json")
        program.wait(lambda status: status["events"] > 200)
        pid = program.status()["pids"][victim]
        os.kill(pid, signal.SIGKILL)
        program.run("up")
        report = json.loads(load.result().stdout)
    assert report["lines"] == len(lines)
    now = program.wait(lambda status: status["vectors"] >= len(lines) and status["jobs"]["pending"] == 0)
    assert now["events"] == len(lines)
    program.run("down")
    known = KnownIds(program.home.ids_file)
    assert known.count_fates()[Fate.EVENT] == len(lines)
    known.close()
    version = program.home.current().embedding_version
    assert version is not None
    sets = VectorStore(program.home).item_ids(version)
    assert sets.height == sets["item_id"].n_unique()
    assert sets.filter(sets["item_kind"] == "entry").height == len(lines)


def test_a_second_up_leaves_one_instance(program: Program) -> None:
    """`up` twice is one stream; `down` twice is harmless."""
    program.run("up")
    first = program.status()["pids"]
    assert "already" in program.run("up").stdout
    assert program.status()["pids"] == first
    assert "headwater is down" in program.run("down").stdout
    assert "was not up" in program.run("down").stdout


def test_verbs_work_without_a_running_stream(program: Program, tmp_path: Path) -> None:
    """Without `up`, ingest runs the flow to its end and the reading verbs answer from the same tables."""
    log = tmp_path / "hooks.jsonl"
    log.write_text(json.dumps(prompt(1, "alone", "solitary")), encoding="utf-8")
    first = program.json("ingest", str(log))
    assert (first["lines"], first["events"], first["embedded"]) == (1, 1, 1)
    second = program.json("ingest", str(log))
    assert (second["lines"], second["events"], second["duplicates"]) == (1, 0, 1)
    found = program.json("search", "solitary", "--disclosure", "index")
    assert found["index"][0]["kind"] == "prompt"
    assert found["timeline"] is None
    assert found["details"] is None
    assert program.json("show", found["index"][0]["id"])[0]["content"] == "please look at solitary number 1"
