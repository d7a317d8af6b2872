"""From minilm to multilingual while the stream runs and searches go on, killed twice; then back and forward.

Data: the Korean, Japanese and Chinese stories whole, and the first records of repiq-ja (`--records`, 0: all of them).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import DATA, percentile, write_result
from questions import questions, recall, rows_of

from headwater.schemas import limits
from headwater.schemas.errors import HeadwaterError
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import resolve, version_of
from headwater.storage.vectors import VectorStore
from headwater.surface import client, processes

PROGRAM = Path(sys.executable).with_name("headwater")
STORIES = ("ko-chat", "ja-map", "zh-iot")
QUERIES = ("재시도 정책", "タイル 圧縮", "数据库 迁移", "heartbeat interval", "どこで失敗した")
KILLS = (0.25, 0.5)  # shares of the items after which the run is killed
STREAM_EVERY_S = 1.0


@dataclass
class Asked:
    """What a client saw: seconds of each answer, the version of each, and what failed."""

    times_s: list[float] = field(default_factory=list)
    versions: list[str | None] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON only")
    parser.add_argument("--records", type=int, default=400, help="records of repiq-ja; 0: all")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        home = Home.open(Path(folder) / "home")
        bring_in(home, args.data, args.records, Path(folder))
        result = measure(home, args.data)
    write_result("reembed", {"repiq_records": args.records or "all", **result}, as_json=args.json)


def run(home: Home, *words: str) -> dict[str, Any]:
    """Run a verb with --json; return its answer, with the seconds it took as `command_s`, `cpu_s` of them computing."""
    start_s = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen([str(PROGRAM), *words, "--json"], env=env_of(home), stdout=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{words}: exit {process.returncode}")
        out.seek(0)
        answer: dict[str, Any] = json.load(out)
    took_s = time.perf_counter() - start_s
    return answer | {"command_s": round(took_s, 3), "cpu_s": round(used.ru_utime + used.ru_stime, 3)}


def env_of(home: Home) -> dict[str, str]:
    """Return the environment of a command in that home."""
    return os.environ | {"HEADWATER_HOME": str(home.root)}


def bring_in(home: Home, data: Path, records: int, folder: Path) -> None:
    """Ingest the stories and repiq-ja, with vectors of minilm."""
    for story in STORIES:
        run(home, "ingest", str(data / "stories" / story / "events.jsonl"), "--no-embed")
    left = records
    for path in sorted((data / "claude-code-repiq-ja").glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = file.readlines()
        if records:
            lines, left = lines[:left], left - min(left, len(lines))
        if lines:
            (folder / path.stem).write_text("".join(lines), encoding="utf-8")
            run(home, "ingest", str(folder / path.stem), "--no-embed")
    run(home, "vector", "worker", "--once")


def measure(home: Home, data: Path) -> dict[str, Any]:
    """Return all figures of the change."""
    old = str(home.current().embedding_version)
    asked = questions(
        home, [row for story in STORIES for row in rows_of(data / "stories" / story / "questions.jsonl")]
    )
    before = recall(home, old, load(resolve("minilm", home)), asked)
    new = version_of(resolve("multilingual", home))
    seen, ended = Asked(), threading.Event()
    subprocess.run([str(PROGRAM), "up"], env=env_of(home), check=True, capture_output=True)
    wait_for_model(home, old)
    with ThreadPoolExecutor(2) as pool:
        asking, telling = pool.submit(ask, home, seen, ended), pool.submit(tell, home, ended)
        try:
            kept = [kill_at(home, new, share) for share in KILLS]
            done = run(home, "reembed", "--model", "multilingual", "--activate")
            taken_s = wait_for_model(home, new)
            back = run(home, "models", "activate", "minilm")
            back_s = wait_for_model(home, old)
            forward = run(home, "models", "activate", "multilingual")
            forward_s = wait_for_model(home, new)
        finally:
            ended.set()
            asking.result()
        streamed = telling.result()
    wait_for_vectors(home)
    written = stamps(home, new)
    processes.stop_all(home)
    after = recall(home, new, load(resolve("multilingual", home)), asked)
    changes = [n for n in range(1, len(seen.versions)) if seen.versions[n] != seen.versions[n - 1]]
    return {
        "load_average": round(os.getloadavg()[0], 1),
        "items": len(written),
        "streamed_meanwhile": streamed,
        "killed_with_items": [len(one) for one in kept],
        "embedded_twice": sum(written.get(id_) != stamp for one in kept for id_, stamp in one.items()),
        "items_by_the_last_run": done["embedded"],
        "items_per_s": done["items_per_s"],
        "neighbour_overlap": round(done["probe"]["overlap"], 3),
        "searches": len(seen.times_s),
        "searches_failed": len(seen.failed),
        "search_p50_ms": round(percentile(seen.times_s, 0.5) * 1000, 1),
        "search_p95_ms": round(percentile(seen.times_s, 0.95) * 1000, 1),
        "answers_by_version": dict(Counter(str(one) for one in seen.versions)),
        "changes_of_version": len(changes),
        "loaded_after_s": taken_s,
        "back_command_s": back["command_s"],
        "back_command_cpu_s": back["cpu_s"],
        "back_loaded_after_s": back_s,
        "forward_command_s": forward["command_s"],
        "forward_command_cpu_s": forward["cpu_s"],
        "forward_loaded_after_s": forward_s,
        "command_bar_s": 1.0,
        "questions": len(asked),
        "recall_at_5_minilm": before,
        "recall_at_5_multilingual": after,
    }


def ask(home: Home, seen: Asked, ended: threading.Event) -> None:
    """Search again and again until told to end."""
    while not ended.wait(0.2):
        start_s = time.perf_counter()
        query = QUERIES[len(seen.times_s) % len(QUERIES)]
        try:
            answer = client.ask_server(home, "search", {"query": query, "all_projects": True})
            seen.versions.append(answer["embedding_version"])
            if not answer["index"]:
                seen.failed.append(f"{query}: nothing found")
        except (HeadwaterError, TypeError) as error:
            seen.failed.append(str(error))
        seen.times_s.append(time.perf_counter() - start_s)


def tell(home: Home, ended: threading.Event) -> int:
    """Send an event through the hook now and then; return how many."""
    words = [str(PROGRAM), "install", "--show-command"]
    command = subprocess.run(words, env=env_of(home), check=True, capture_output=True, text=True).stdout
    count = 0
    while not ended.wait(STREAM_EVERY_S):
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "live",
            "cwd": "/",
            "prompt": f"ストリーム {count} 再試行を確認してください",
            "prompt_id": str(count),
        }
        subprocess.run(command, shell=True, input=json.dumps(payload).encode(), env={}, check=True)
        count += 1
    return count


def kill_at(home: Home, version: str, share: float) -> dict[str, str]:
    """Start the run, kill it with SIGKILL once so many of the items have vectors; return which, and when written."""
    total = VectorStore(home).count_items(str(home.current().embedding_version))
    words = [str(PROGRAM), "reembed", "--model", "multilingual", "--activate"]
    process = subprocess.Popen(words, env=env_of(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while VectorStore(home).count_items(version) < share * total:
        if process.poll() is not None:
            raise SystemExit("the run ended before it could be killed")
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return stamps(home, version)


def stamps(home: Home, version: str) -> dict[str, str]:
    """Return item -> when its vectors were written; each item has one set."""
    found: dict[str, str] = {}
    for table in VectorStore(home).tables(version):
        rows = table.scan(["item_kind", "item_id", "indexed_at"], "chunk_n = 0")
        own = {f"{kind}:{item_id}": str(at) for kind, item_id, at in rows.iter_rows()}
        assert len(own) == rows.height, "an item has two vector sets"
        found |= own
    return found


def wait_for_model(home: Home, version: str) -> float:
    """Return how long it took until the server answers with a version."""
    start_s = time.perf_counter()
    while client.ask_server(home, "ping", {})["model"] != version:
        time.sleep(limits.POLL_JOBS_S / 5)
        if time.perf_counter() - start_s > limits.EMBED_WAIT_S:
            raise SystemExit(f"the server does not load {version}")
    return round(time.perf_counter() - start_s, 2)


def wait_for_vectors(home: Home) -> None:
    """Wait until nothing lacks a vector."""
    while run(home, "vector", "status")["items_without_vectors"]:
        time.sleep(0.5)


if __name__ == "__main__":
    main()
