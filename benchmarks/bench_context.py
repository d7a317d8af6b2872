"""The context hook's whole process against a running server: idle, with a backlog of vectors, while events come in.

10,000 events of one project with their vectors, 500 memories, a working set and a log; the real model. Questions of the
stories, each in a session of its own, in both modes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from common import arguments, percentile, story_lines, write_result

from headwater.flows.missing import enqueue_missing
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import Event, ItemKind, Kind
from headwater.schemas.ids import content_hash
from headwater.schemas.memory_columns import CONTINUITY_LOG, MEMORIES, SESSIONS, WORKING_SET
from headwater.schemas.text import cjk_runs, code_words
from headwater.storage.active import active_version
from headwater.storage.control import set_mode
from headwater.storage.home import Home
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorSet, VectorStore
from headwater.surface import capture
from headwater.surface.client import ask_server
from headwater.surface.verbs.capture import hook_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headwater.schemas.columns import TableDef

ITEMS = 10_000
MEMORIES_N = 500
TURNS = 3_000
BACKLOG = 4_000
RUNS = 60  # of each: kind of event, mode, and state of the server
RATE_PER_S = 20.0
PROJECT = "/home/dev/bench"
BARE_S: list[float] = []  # of a bare interpreter, in turns with all others
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    texts = texts_of(args.data)
    prompts = prompts_of(args.data)
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        home = Home.open(Path(folder) / "home")
        version = active_version(home)
        build(home, texts, version)
        command = hook_command(home.root, "claude-code")
        result: dict[str, Any] = {"items": ITEMS, "memories": MEMORIES_N, "runs": RUNS}
        result["no_server"] = figures(asked(command, prompts, "none")[0])
        with running(home, "server") as server:
            wait_for_model(home, version)
            result["idle"] = both_modes(home, command, prompts, "idle")
            with running(home, "ingest"), events_coming(home):
                time.sleep(3.0)
                result["live_ingest"] = both_modes(home, command, prompts, "live")
            more = events(texts, BACKLOG, "late")
            table = LanceStore(home.lance).open(EVENTS)
            table.add(events_to_arrow(more))
            table.maintain(datetime.now(UTC), force=True)  # as the ingest flow does every 500 rows
            with closing(VectorOutbox(home.outbox_file)) as outbox:
                enqueue_missing(home, outbox, version)
            result["backlog"] = both_modes(home, command, prompts, "backlog")
            with closing(VectorOutbox(home.outbox_file)) as outbox:
                result["backlog"]["jobs_left"] = outbox.counts(version).pending
            os.kill(server.pid, signal.SIGSTOP)
            result["hung_server"] = figures(asked(command, prompts, "hung")[0])
            os.kill(server.pid, signal.SIGCONT)
    result["bare_interpreter"] = figures(BARE_S)
    result |= {"p50_bar_ms": 50, "p95_bar_ms": 100, "no_answer_bar_ms": 350}
    write_result("context", result, as_json=args.json)


def texts_of(data: Path) -> list[str]:
    """Return what was said and done in the stories."""
    payloads = [line["payload"] for line in story_lines(data)]
    keys = ("prompt", "last_assistant_message", "tool_response")
    said = [payload[key] for payload in payloads for key in keys if payload.get(key)]
    return [one if isinstance(one, str) else json.dumps(one) for one in said]


def prompts_of(data: Path) -> list[str]:
    """Return the questions of the stories."""
    files = sorted(data.glob("stories/*/questions.jsonl"))
    return [
        json.loads(line)["question"]
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def events(texts: Sequence[str], count: int, name: str) -> list[Event]:
    """Return so many events: texts of the stories, each with a word of its own."""
    kinds = (Kind.PROMPT, Kind.RESPONSE, Kind.TOOL)
    made = []
    for n in range(count):
        text = f"{texts[n % len(texts)]} {name}{n}"
        at = START + timedelta(seconds=n * 20)
        made.append(
            Event(
                f"evt_{name}{n:06}",
                "claude-code",
                f"past-{n // 200}",
                PROJECT,
                at,
                kinds[n % 3],
                text,
                content_hash=content_hash(text),
            )
        )
    return made


def build(home: Home, texts: Sequence[str], version: str) -> None:
    """Write the tables."""
    lance = LanceStore(home.lance)
    made = events(texts, ITEMS, "e")
    table = lance.open(EVENTS)
    for n in range(0, ITEMS, 1000):
        table.add(events_to_arrow(made[n : n + 1000]))
    table.maintain(datetime.now(UTC), force=True)
    chance = np.random.default_rng(5)
    store = VectorStore(home)
    dim = int(version.rsplit("-", 2)[1])
    for n in range(0, ITEMS, 1000):
        vectors = chance.normal(size=(1000, 1, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        sets = [
            VectorSet(
                one.id,
                one.content_hash,
                PROJECT,
                one.session_id,
                one.agent,
                one.kind.value,
                one.at,
                ("",),
                vectors[k],
            )
            for k, one in enumerate(made[n : n + 1000])
        ]
        store.put(ItemKind.ENTRY, version, sets, datetime.now(UTC))
    store.maintain(version, datetime.now(UTC), force=True)
    for definition, rows in memory_rows(made):
        table = lance.open(definition)
        table.upsert(pa.Table.from_pylist(rows, schema=table.definition.arrow()))
        table.maintain(datetime.now(UTC), force=True)


def memory_rows(made: Sequence[Event]) -> list[tuple[TableDef, list[dict[str, Any]]]]:
    """Return the tables of memory and their rows."""
    return [
        (MEMORIES, memories(made)),
        (SESSIONS, sessions(made)),
        (WORKING_SET, active(made)),
        (CONTINUITY_LOG, log(made)),
    ]


def memories(made: Sequence[Event]) -> list[dict[str, Any]]:
    """Return memories of twenty events each."""
    rows = []
    for n in range(MEMORIES_N):
        sources = made[n * 20 : n * 20 + 20]
        text = f"Asked: {sources[0].content[:300]}\nFound: {sources[1].content[:500]}\nOpen: {n}."
        rows.append(
            {
                "memory_id": f"mem_{n:06}",
                "project": PROJECT,
                "thread_id": f"thr_{n % 40}",
                "summary": text,
                "code": code_words(text),
                "cjk": cjk_runs(text),
                "content_hash": content_hash(text),
                "topics": [],
                "source_events": [one.id for one in sources],
                "confidence": 0.8,
                "created_at": sources[-1].at,
                "first_at": sources[0].at,
                "last_at": sources[-1].at,
                "closed_by": "idle",
                "count": 1,
                "superseded_by": None,
            }
        )
    return rows


def sessions(made: Sequence[Event]) -> list[dict[str, Any]]:
    """Return summaries of sessions of 200 events each."""
    return [
        {
            "id": f"ses_{n}",
            "project": PROJECT,
            "agent": "claude-code",
            "session_id": f"past-{n}",
            "prev_session_id": None,
            "summary": f"Asked: {made[n * 200].content[:400]}",
            "code": "",
            "cjk": "",
            "content_hash": "",
            "topics": [],
            "first_at": made[n * 200].at,
            "last_at": made[n * 200 + 199].at,
            "prompts": 66,
            "events": 200,
            "ended_by": "idle",
        }
        for n in range(ITEMS // 200)
    ]


def active(made: Sequence[Event]) -> list[dict[str, Any]]:
    """Return a working set of 100 events, and 1,900 that left it."""
    return [
        {
            "id": f"wse_{one.id}",
            "event_id": one.id,
            "project": PROJECT,
            "session_id": one.session_id,
            "thread_id": "thr_1",
            "kind": one.kind.value,
            "at": one.at,
            "added_at": one.at,
            "relevance_score": 0.9,
            "recency": 0.9,
            "overlap": 0.9,
            "kind_value": 0.9,
            "topics": ["webhook"],
            "files": ["a.py"],
            "entities": [],
            "expires_at": one.at + timedelta(days=1),
            "left_at": None if n < 100 else one.at,
            "left_reason": None if n < 100 else "expired",
        }
        for n, one in enumerate(reversed(made[-2000:]))
    ]


def log(made: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the log of so many turns."""
    return [
        {
            "log_id": f"log_{n:06}",
            "project": PROJECT,
            "session_id": "s",
            "thread_id": "thr_1",
            "turn_event_id": one.id,
            "from_context_id": "a",
            "to_context_id": "b",
            "continuity_score": 0.7,
            "topics_score": 0.5,
            "files_score": None,
            "time_score": 0.9,
            "entities_score": None,
            "transition_type": "seamless",
            "score_type": "seamless",
            "created_at": one.at,
        }
        for n, one in enumerate(made[-TURNS:])
    ]


def both_modes(home: Home, command: list[str], prompts: Sequence[str], name: str) -> dict[str, Any]:
    """Return the figures of both modes."""
    found: dict[str, Any] = {}
    for mode in ("endless", "session"):
        set_mode(home, mode)
        waits_s, told = asked(command, prompts, f"{name}-{mode}")
        found[mode] = figures(waits_s) | {"told_share": round(told / len(waits_s), 2)}
    return found


def asked(command: list[str], prompts: Sequence[str], name: str) -> tuple[list[float], int]:
    """Call the hook in turns with a start and a prompt; return the seconds of each, and how many were told.

    A bare interpreter in between tells how busy the machine is with other things.
    """
    waits_s, told = [], 0
    for n in range(RUNS):
        session = f"{name}-{n}"
        start = {"hook_event_name": "SessionStart", "source": "startup"}
        prompt = {
            "hook_event_name": "UserPromptSubmit",
            "prompt": prompts[n * 7 % len(prompts)],
            "prompt_id": str(n),
        }
        for fields in (start, prompt):
            data = json.dumps({"session_id": session, "cwd": PROJECT, **fields}).encode()
            start_s = time.perf_counter()
            done = subprocess.run(command, input=data, check=True, capture_output=True, env={}, cwd="/")
            waits_s.append(time.perf_counter() - start_s)
            start_s = time.perf_counter()
            subprocess.run([command[0], "-I", "-S", "-c", "pass"], check=True, env={}, cwd="/")
            BARE_S.append(time.perf_counter() - start_s)
            told += bool(done.stdout)
    return waits_s, told


def figures(waits_s: Sequence[float]) -> dict[str, float]:
    """Return median, 95th percentile and maximum in milliseconds."""
    return {
        "p50_ms": round(median(waits_s) * 1000, 1),
        "p95_ms": round(percentile(waits_s, 0.95) * 1000, 1),
        "max_ms": round(max(waits_s) * 1000, 1),
    }


@contextmanager
def running(home: Home, role: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of our programs."""
    command = [sys.executable, "-P", "-m", "headwater.surface.workers", role, str(home.root)]
    process = subprocess.Popen(command, cwd=home.root)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for_model(home: Home, version: str) -> None:
    """Return when the server answers, has its model, and has embedded what had no vector: memories and sessions."""
    while (ask_server(home, "ping", {}) or {}).get("model") is None:
        time.sleep(0.2)
    time.sleep(3.0)
    with closing(VectorOutbox(home.outbox_file)) as outbox:
        while outbox.counts(version).pending + outbox.counts(version).processing:
            time.sleep(0.5)
    time.sleep(1.0)


@contextmanager
def events_coming(home: Home) -> Iterator[None]:
    """Append events of another session at a steady rate."""
    stop = threading.Event()

    def send() -> None:
        n = 0
        while not stop.wait(1 / RATE_PER_S):
            n += 1
            payload = {
                "session_id": "live",
                "cwd": PROJECT,
                "hook_event_name": "PostToolUse",
                "tool_name": "Bash",
                "tool_use_id": f"t{n}",
                "tool_input": {"command": f"pytest -k case_{n}"},
                "tool_response": {"stdout": f"{n} passed", "stderr": ""},
            }
            envelope = capture.build_envelope(
                payload,
                agent="claude-code",
                received_at_ns=time.time_ns(),
                project_dir=PROJECT,
                project=PROJECT,
            )
            capture.append_line(str(home.journal / "claude-code-live.jsonl"), capture.encode_line(envelope))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


if __name__ == "__main__":
    main()
