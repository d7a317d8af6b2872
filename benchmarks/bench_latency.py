"""From an appended journal line to a keyword hit on an open reader, at 20 events a second."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from common import arguments, percentile, write_result

from headwater.schemas.columns import EVENTS
from headwater.storage.home import Home
from headwater.storage.locks import is_held
from headwater.storage.run_files import INGEST_LOCK
from headwater.storage.tables import LanceStore
from headwater.surface import capture

EVENTS_N = 300
RATE_PER_S = 20.0
SETTLE_S = 3.0  # after the program is up, before the first event


def line(word: str, n: int) -> bytes:
    """Return a prompt's journal line with a word of its own."""
    payload = {
        "session_id": f"latency-{n % 3}",
        "cwd": "/home/dev/p",
        "hook_event_name": "UserPromptSubmit",
        "prompt_id": f"p{n}",
        "prompt": f"look at {word} please, the refund test fails on the second run with a deadlock",
    }
    envelope = capture.build_envelope(
        payload, agent="claude-code", received_at_ns=time.time_ns(), project_dir="/home/dev/p", project="/p"
    )
    return capture.encode_line(envelope)


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        home = Home.open(Path(folder) / "home")
        command = [sys.executable, "-P", "-m", "headwater.surface.workers", "ingest", str(home.root)]
        worker = subprocess.Popen(command, cwd=home.root)
        try:
            while not is_held(home.run / INGEST_LOCK):
                time.sleep(0.05)
            time.sleep(SETTLE_S)
            waits_s = measure(home)
        finally:
            worker.terminate()
            worker.wait()
    result = {
        "events": EVENTS_N,
        "rate_per_s": RATE_PER_S,
        "p50_ms": round(median(waits_s) * 1000),
        "p95_ms": round(percentile(waits_s, 0.95) * 1000),
        "max_ms": round(max(waits_s) * 1000),
        "p50_bar_ms": 150,
        "p95_bar_ms": 400,
    }
    write_result("latency", result, as_json=args.json)


def measure(home: Home) -> list[float]:
    """Append at a steady rate from a thread; return for each event the seconds until the reader found it."""
    table = LanceStore(home.lance).open(EVENTS, create=False)
    sent_s: dict[str, float] = {}

    def send() -> None:
        start_s = time.perf_counter()
        for n in range(EVENTS_N):
            time.sleep(max(0.0, start_s + n / RATE_PER_S - time.perf_counter()))
            word = f"quokka{n:04}"
            data = line(word, n)
            sent_s[word] = time.perf_counter()
            capture.append_line(str(home.journal / f"claude-code-latency-{n % 3}.jsonl"), data)

    sender = threading.Thread(target=send)
    sender.start()
    waits_s: list[float] = []
    for n in range(EVENTS_N):
        word = f"quokka{n:04}"
        while word not in sent_s or table.match(word, "content", None, 1, ["id"]).height == 0:
            time.sleep(0.002)
        waits_s.append(time.perf_counter() - sent_s[word])
    sender.join()
    return waits_s


if __name__ == "__main__":
    main()
