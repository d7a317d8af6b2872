"""Whether an event costs the same when there are many: CPU time per 10,000 events, from an empty table to 300,000.

Each slice is one bounded run of the ingest flow, with its table's upkeep, over sessions that no slice before had. CPU
time of this process, all threads, for the machine may be shared; wall time stands beside it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from common import arguments, story_lines, write_result

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.surface import capture

EVENTS = 300_000
SLICE = 10_000


def envelopes(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (session id, journal line) of each payload; made once, for a slice only changes the session's name."""
    made = []
    for line in lines:
        envelope = capture.build_envelope(
            line["payload"],
            agent="claude-code",
            received_at_ns=line["received_at_ns"],
            project_dir="/bench",
            project="/bench",
        )
        made.append((line["payload"]["session_id"], capture.encode_line(envelope).decode("utf-8")))
    return made


def append(home: Home, made: list[tuple[str, str]], number: int) -> None:
    """Append one copy of all lines to the journal, as sessions of their own."""
    files: dict[str, list[str]] = {}
    for session, line in made:
        new = f"{number}-{session}"
        files.setdefault(capture.journal_name("claude-code", new), []).append(line.replace(session, new))
    for name, texts in files.items():
        with (home.journal / name).open("a", encoding="utf-8") as file:
            file.writelines(texts)


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
    made = envelopes(story_lines(args.data))
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
                append(home, made, number)
                number += 1
                estimate += len(made)
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
        size_bytes = sum(path.stat().st_size for path in home.lance.rglob("*") if path.is_file())
    rates = [one["events_per_cpu_s"] for one in slices]
    first, last = rates[0], rates[-1]
    result = {
        "first_events_per_cpu_s": first,
        "last_events_per_cpu_s": last,
        "last_by_first": round(last / first, 3),
        "median_events_per_cpu_s": statistics.median(rates),
        "table_bytes_per_event": round(size_bytes / before),
        "slices": slices,
    }
    write_result("scale", result, as_json=args.json)


if __name__ == "__main__":
    main()
