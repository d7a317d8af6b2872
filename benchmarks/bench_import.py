"""An import while the stream is up and hooks fire: nothing lost, nothing doubled, and what a hook call takes meanwhile.

Twenty recorded transcripts are brought into a home whose stream is up, while real hook processes are started at a fixed
rate. Their time is compared with that before and after the import, in the same run, so that both see the same machine.
The rows are compared with those of an import of the same files into a home of its own, and with what the hooks told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
from common import arguments, percentile, write_result

from headwater.schemas.columns import EVENTS
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.surface.verbs.capture import hook_command

SETS = ("claude-code-spotter-en", "claude-code-repiq-ja")
RATE_PER_S = 20.0
QUIET_S = 15.0  # before the import, and after it
WAIT_S = 300.0
PROGRAM = Path(sys.executable).with_name("headwater")
ENV = {
    **os.environ,
    "HEADWATER_EMBEDDING__MODEL": "test-hash",
}  # vectors cost nothing: hooks and import are measured


@dataclass
class Hooks:
    """Hook processes at a fixed rate, from a thread; each call's start and length (s), and the ids that it told."""

    command: list[str]
    calls: list[tuple[float, float]] = field(default_factory=list)
    late_s: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Fire until told to stop; one call at a time, as one agent does, so a slow call delays the next one."""
        start_s, n = time.perf_counter(), 0
        while not self.stop.is_set():
            due_s = start_s + n / RATE_PER_S
            time.sleep(max(0.0, due_s - time.perf_counter()))
            at_s = time.perf_counter()
            self.late_s = max(self.late_s, at_s - due_s)
            subprocess.run(self.command, input=payload(n), check=True, env={"PATH": "/usr/bin:/bin"}, cwd="/")
            self.calls.append((at_s, time.perf_counter() - at_s))
            n += 1

    def between(self, start_s: float, end_s: float) -> list[float]:
        """Return the lengths of the calls that began in a span."""
        return [length for at_s, length in self.calls if start_s <= at_s < end_s]


def payload(n: int) -> bytes:
    """Return a call's payload with an id of its own."""
    told = {
        "session_id": f"hooks-{n % 4}",
        "cwd": "/home/dev/paylark",
        "prompt_id": f"p{n // 20}",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"pytest tests/test_{n % 97}.py"},
        "tool_response": {"stdout": f"{n} passed\n" + "line of output\n" * 200, "stderr": ""},
        "tool_use_id": f"toolu_bench_{n}",
    }
    return json.dumps(told).encode()


def headwater(home: Path, *words: str) -> str:
    """Run a verb in a home."""
    done = subprocess.run(
        [str(PROGRAM), "--home", str(home), *words], env=ENV, capture_output=True, text=True, check=True
    )
    return done.stdout


def rows(home: Path) -> pl.DataFrame:
    """Return all events by id."""
    table = LanceStore(Home.open(home).lance).open(EVENTS, create=False)
    return table.scan([column.name for column in EVENTS.columns]).sort("id")


def wait_for(home: Path, events: int) -> None:
    """Wait until a home has so many events; a few moments more show whether it gets too many."""
    until_s = time.monotonic() + WAIT_S
    while rows(home).height < events and time.monotonic() < until_s:
        time.sleep(0.2)
    time.sleep(2.0)


def compare(quiet: pl.DataFrame, busy: pl.DataFrame, calls: int) -> dict[str, int]:
    """Return how many events are lost, doubled, foreign, or other than those of the quiet import."""
    hooks = busy.filter(pl.col("session_id").str.starts_with("hooks-"))
    told = hooks.unnest("tool")["use_id"].to_list()
    imported = busy.filter(~pl.col("session_id").str.starts_with("hooks-"))
    wanted = {f"toolu_bench_{n}" for n in range(calls)}
    both = imported.join(quiet.select("id"), on="id", how="semi").sort("id")
    return {
        "lost": len(wanted - set(told)) + quiet.height - both.height,
        "doubled": busy.height - busy["id"].n_unique() + len(told) - len(set(told)),
        "foreign": imported.height - both.height + len(set(told) - wanted),
        "other": sum(one != two for one, two in zip(both.iter_rows(), quiet.iter_rows(), strict=False)),
    }


def measure(folder: Path, files: list[str]) -> dict[str, Any]:
    """Return the figures of one run; the stream is down again when it returns."""
    quiet, busy = folder / "quiet", folder / "busy"
    alone = json.loads(headwater(quiet, "ingest", *files, "--no-embed", "--json"))
    headwater(busy, "up")
    hooks = Hooks(hook_command(Home.open(busy).root, "claude-code"))
    thread = threading.Thread(target=hooks.run)
    thread.start()
    try:
        time.sleep(2.0)
        spans = [time.perf_counter()]
        time.sleep(QUIET_S)
        spans.append(time.perf_counter())
        report = json.loads(headwater(busy, "ingest", *files, "--no-embed", "--json"))
        spans.append(time.perf_counter())
        time.sleep(2.0)
        spans.append(time.perf_counter())
        time.sleep(QUIET_S)
        spans.append(time.perf_counter())
    finally:
        hooks.stop.set()
        thread.join()
    told = rows(quiet)
    wait_for(busy, told.height + len(hooks.calls))
    again = json.loads(headwater(busy, "ingest", *files, "--no-embed", "--json"))
    headwater(busy, "down")
    without = hooks.between(spans[0], spans[1]) + hooks.between(spans[3], spans[4])
    during = hooks.between(spans[1], spans[2])
    return {
        "files": len(files),
        "lines": report["lines"],
        "imported_events": report["events"],
        "hook_calls": len(hooks.calls),
        "hook_calls_during_import": len(during),
        **compare(told, rows(busy), len(hooks.calls)),
        "events_of_a_second_import": again["events"],
        "import_alone_s": alone["elapsed_s"],
        "import_s": report["elapsed_s"],
        "hook_ms": round(median(without) * 1000, 1),
        "hook_during_import_ms": round(median(during) * 1000, 1),
        "ratio": round(median(during) / median(without), 2),
        "hook_p95_ms": round(percentile(without, 0.95) * 1000, 1),
        "hook_during_import_p95_ms": round(percentile(during, 0.95) * 1000, 1),
        "ratio_p95": round(percentile(during, 0.95) / percentile(without, 0.95), 2),
        "latest_start_s": round(hooks.late_s, 2),
    }


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    files = [str(path) for name in SETS for path in sorted((args.data / name).glob("*.gz"))]
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        result = measure(Path(folder), files)
    write_result("import", result, as_json=args.json)


if __name__ == "__main__":
    main()
