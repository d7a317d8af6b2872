"""How long stopping takes: SIGTERM to the ingest flow, idle and under load, and `down` of the whole stream."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from common import arguments, percentile, write_result

from headwater.storage.home import Home
from headwater.storage.run_files import read_ingest_state
from headwater.surface import capture, client, processes

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
BAR_S = 2.0
WAIT_S = 60.0
RATE_PER_S = 500


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    os.environ["HEADWATER_EMBEDDING__MODEL"] = (
        "test-hash"  # a real model is loaded for seconds, and stops no faster
    )
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        home = Home.open(Path(folder) / "home")
        try:
            idle_s = [stop_ingest(home) for _ in range(ROUNDS)]
            with Load(home):
                busy_s = [stop_ingest(home) for _ in range(ROUNDS)]
                down_s = [stop_all(home) for _ in range(ROUNDS)]
        finally:
            processes.stop_all(home)
    result = {
        "rounds": ROUNDS,
        "load_events_per_s": RATE_PER_S,
        "ingest_idle_max_s": round(max(idle_s), 3),
        "ingest_busy_p50_s": round(percentile(busy_s, 0.5), 3),
        "ingest_busy_max_s": round(max(busy_s), 3),
        "down_busy_max_s": round(max(down_s), 3),
        "bar_s": BAR_S,
    }
    write_result("stop", result, as_json=args.json)


def stop_ingest(home: Home) -> float:
    """Return the seconds from SIGTERM until an ingest flow that has run for a moment is gone."""
    worker = processes.spawn(home, "ingest", detached=False)
    wait_for(lambda: read_ingest_state(home).get("pid") == worker.pid)  # it reads, and does not only start
    time.sleep(1.5)
    start_s = time.perf_counter()
    worker.send_signal(signal.SIGTERM)
    code = worker.wait(WAIT_S)
    took_s = time.perf_counter() - start_s
    if code != 0:
        sys.exit(f"ingest ended with {code}; see {home.logs / 'ingest.log'}")
    return took_s


def stop_all(home: Home) -> float:
    """Return the seconds that stopping supervisor, ingest and server takes."""
    supervisor = processes.spawn(home, "supervisor", detached=True)
    wait_for(lambda: (client.ask_server(home, "ping", {}) or {}).get("model") is not None)
    wait_for(lambda: read_ingest_state(home).get("pid") == processes.pids(home)["ingest"])
    time.sleep(1.5)
    start_s = time.perf_counter()
    processes.stop_all(home)
    took_s = time.perf_counter() - start_s
    supervisor.wait(WAIT_S)
    return took_s


def wait_for(done: Callable[[], bool]) -> None:
    """Wait until something holds; end the benchmark when it never does."""
    if not processes.wait_until(done, WAIT_S):
        sys.exit("the stream did not start")


class Load:
    """Events that come in all the while."""

    def __init__(self, home: Home) -> None:
        """Remember where."""
        self._home = home
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        """Begin."""
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        n = 0
        while not self._ended.wait(0.1):
            for _ in range(RATE_PER_S // 10):
                n += 1
                payload = {
                    "session_id": f"s{n % 8}",
                    "hook_event_name": "UserPromptSubmit",
                    "prompt": f"number {n}",
                    "prompt_id": f"p{n}",
                }
                envelope = capture.build_envelope(
                    payload,
                    agent="claude-code",
                    received_at_ns=time.time_ns(),
                    project_dir="/p",
                    project="/p",
                )
                name = capture.journal_name("claude-code", payload["session_id"])
                capture.append_line(str(self._home.journal / name), capture.encode_line(envelope))


if __name__ == "__main__":
    main()
