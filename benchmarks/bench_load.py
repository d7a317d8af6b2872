"""A thousand events a second for a minute, without embedding; then silence: lag, idle CPU and memory of ingest."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from common import arguments, write_result

from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import is_held
from headwater.storage.run_files import INGEST_LOCK
from headwater.surface import capture

RATE_PER_S = 1000
DURATION_S = 60
IDLE_S = 10.0
WINDOWS = 3  # of IDLE_S each, one after the other: the first has the daily look at the archive in it
SESSIONS = 8


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        home = Home.open(Path(folder) / "home")
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", "headwater.surface.workers", "ingest", str(home.root)], cwd=home.root
        )
        try:
            while not is_held(home.run / INGEST_LOCK):
                time.sleep(0.05)
            behind_s = send(home.journal)
            drained_s = wait_for(home, RATE_PER_S * DURATION_S)
            process = psutil.Process(worker.pid)
            time.sleep(5.0)  # idle again within this
            shares = [idle_share(process) for _ in range(WINDOWS)]
            rss_mb = process.memory_info().rss / 1e6
        finally:
            worker.terminate()
            worker.wait()
        disk_mb = (
            sum(path.stat().st_size for path in (home.root / "lance").rglob("*") if path.is_file()) / 1e6
        )
    result = {
        "events": RATE_PER_S * DURATION_S,
        "sender_behind_s": round(behind_s, 2),
        "drained_after_s": round(drained_s, 2),
        "drained_bar_s": 5.0,
        "idle_cpu_share": shares[-1],
        "idle_cpu_shares": shares,
        "idle_cpu_bar": 0.06,
        "rss_mb": round(rss_mb),
        "rss_bar_mb": 300,
        "tables_mb": round(disk_mb, 1),
    }
    write_result("load", result, as_json=args.json)


def idle_share(process: psutil.Process) -> float:
    """Return the share of one core that a process takes for IDLE_S."""
    before = process.cpu_times()
    time.sleep(IDLE_S)
    after = process.cpu_times()
    return round(((after.user + after.system) - (before.user + before.system)) / IDLE_S, 4)


def send(folder: Path) -> float:
    """Append at the rate for the duration; return how many seconds the sender itself was late at the end."""
    base = capture.build_envelope(
        {"session_id": "s", "cwd": "/p", "hook_event_name": "PostToolUse", "tool_name": "Bash"},
        agent="claude-code",
        received_at_ns=time.time_ns(),
        project_dir="/p",
        project="/p",
    )
    start_s = time.perf_counter()
    for second in range(DURATION_S):
        for n in range(RATE_PER_S):
            number = second * RATE_PER_S + n
            session = f"load-{number % SESSIONS}"
            payload = base["payload"] | {
                "session_id": session,
                "tool_use_id": f"t{number}",
                "tool_input": {"command": f"pytest tests/test_{number % 97}.py -k case_{number}"},
                "tool_response": {"stdout": f"{number} passed in 0.{number % 9}s", "stderr": ""},
            }
            line = json.dumps(base | {"payload": payload, "received_at_ns": time.time_ns()}).encode() + b"\n"
            capture.append_line(str(folder / f"claude-code-{session}.jsonl"), line)
        time.sleep(max(0.0, start_s + second + 1 - time.perf_counter()))
    return time.perf_counter() - start_s - DURATION_S


def wait_for(home: Home, lines: int) -> float:
    """Return the seconds until every line has its fate."""
    start_s = time.perf_counter()
    known = KnownIds(home.ids_file)
    while sum(known.count_fates().values()) < lines:
        time.sleep(0.05)
    known.close()
    return time.perf_counter() - start_s


if __name__ == "__main__":
    main()
