"""Whether an event costs the same when there are many: CPU time per 10,000 events, from an empty table to 300,000.

Each slice is one bounded run of the ingest flow, with memory and with its tables' upkeep, over new sessions of about
300 events that come after all others, as sessions do. Then all of it is derived anew by `reprocess`. CPU time of this
process, all threads; other work on the machine makes it longer as well, so compare on a quiet one. Every
FTS_MERGE_DELTAS deltas all text indexes are merged: the slice that has the merge in it stands out.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from common import arguments, stories, write_result

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.surface import capture

EVENTS = int(os.environ.get("HEADWATER_BENCH_EVENTS", "300000"))
SLICE = 10_000
COPIES = 12  # of the stories' lines in one session: about 300 events, as in a day of work
HOUR_NS = 3_600_000_000_000
ROUND_NS = (
    13 * 24 * HOUR_NS
)  # the stories last 11 days and half a day more with their copies, then a day of silence
ORIGIN_NS = 1_735_689_600_000_000_000  # 2025-01-01


def append(home: Home, lines: list[dict[str, Any]], number: int) -> None:
    """Append one copy of all lines, in one project; COPIES of them go to the same sessions, as other calls."""
    files: dict[str, list[bytes]] = {}
    for line in lines:
        payload = dict(line["payload"])
        payload["session_id"] = f"{number // COPIES}-{payload['session_id']}"
        for key in ("prompt_id", "tool_use_id"):
            if key in payload:
                payload[key] = f"{payload[key]}-{number % COPIES}"
        envelope = {
            "v": 1,
            "id": f"{number}",
            "received_at_ns": ORIGIN_NS
            + line["since_ns"]
            + number // COPIES * ROUND_NS
            + number % COPIES * HOUR_NS,
            "agent": "claude-code",
            "host": "h",
            "project_dir": "/bench",
            "project": "/bench",
            "format": "claude-hook",
            "source": None,
            "payload": payload,
            "clipped": {},
        }
        name = capture.journal_name("claude-code", payload["session_id"])
        files.setdefault(name, []).append(capture.encode_line(envelope))
    for name, texts in files.items():
        with (home.journal / name).open("ab") as file:
            file.writelines(texts)


def since_start(stories: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the lines of all stories, each with how long after its story's start it came (`since_ns`)."""
    return [
        {**line, "since_ns": line["received_at_ns"] - story[0]["received_at_ns"]}
        for story in stories
        for line in sorted(story, key=lambda one: int(one["received_at_ns"]))
    ]


def count(home: Home) -> int:
    """Return how many events there are."""
    known = KnownIds(home.ids_file)
    try:
        return known.count_ids()
    finally:
        known.close()


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    lines = since_start(stories(args.data))
    slices: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        options = IngestOptions(embedding_version="bench", until_idle=True)
        run_ingest(Home.open(Path(folder) / "warm"), options)  # imports
        home = Home.open(Path(folder) / "home")
        number = before = 0
        while before < EVENTS + SLICE:
            wanted = before + SLICE
            estimate = before
            while estimate < wanted:
                append(home, lines, number)
                number += 1
                estimate += len(lines)
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            run_ingest(home, options)
            wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
            after = count(home)
            slices.append(
                {
                    "from": before,
                    "events": after - before,
                    "events_per_cpu_s": round((after - before) / cpu_s),
                    "events_per_s": round((after - before) / wall_s),
                }
            )
            before = after
            if not args.json:
                print(json.dumps(slices[-1]), flush=True)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        reprocess(home, ReprocessOptions(keep=0))
        again = {
            "reprocess_events_per_s": round(before / (time.perf_counter() - wall_s)),
            "reprocess_events_per_cpu_s": round(before / (time.process_time() - cpu_s)),
        }
        size_bytes = sum(path.stat().st_size for path in home.lance.rglob("*") if path.is_file())
    rates = [one["events_per_cpu_s"] for one in slices]
    result = {
        "first_events_per_cpu_s": rates[0],
        "last_events_per_cpu_s": rates[-1],
        "last_by_first": round(rates[-1] / rates[0], 3),
        "last_ten_by_first_ten": round(statistics.mean(rates[-10:]) / statistics.mean(rates[:10]), 3),
        **again,
        "events_per_s_bar": 2000,
        "table_bytes_per_event": round(size_bytes / before),
        "slices": slices,
    }
    write_result("scale", result, as_json=args.json)


if __name__ == "__main__":
    main()
