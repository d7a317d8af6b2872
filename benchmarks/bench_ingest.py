"""How many journal lines a second the ingest flow takes, events only and with the redaction of foreign input before it.

One core: the process's own CPU time is given beside the wall time, for the machine may be shared.
"""

from __future__ import annotations

import copy
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from common import arguments, story_lines, write_result

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths

COPIES = 22  # of the four stories: about 20,000 lines


def copies(lines: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Return the lines n times, each time of other sessions, so that no line repeats a fact."""
    made: list[dict[str, Any]] = []
    for number in range(n):
        for line in lines:
            one = copy.deepcopy(line)
            one["payload"]["session_id"] = f"{number}-{one['payload']['session_id']}"
            made.append(one)
    return made


def timed(work: Any) -> tuple[float, float, Any]:
    """Return wall seconds, CPU seconds of this process, and what the work returned."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    value = work()
    return time.perf_counter() - wall_s, time.process_time() - cpu_s, value


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    lines = copies(story_lines(args.data), COPIES)
    with tempfile.TemporaryDirectory() as folder:
        warm = Home.open(Path(folder) / "warm")
        run_ingest(
            warm, IngestOptions(embedding_version="bench", until_idle=True)
        )  # imports and first tables
        home = Home.open(Path(folder) / "home")
        log = Path(folder) / "hooks.jsonl"
        log.write_text(
            "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8"
        )
        read_s, read_cpu_s, appended = timed(lambda: append_paths(home, [log], None, Progress("reading")))
        flow_s, flow_cpu_s, _ = timed(
            lambda: run_ingest(home, IngestOptions(embedding_version="bench", until_idle=True))
        )
        known = KnownIds(home.ids_file)
        events = known.count_ids()
        known.close()
    n = appended.lines
    result = {
        "lines": n,
        "events": events,
        "flow_s": round(flow_s, 3),
        "flow_cpu_s": round(flow_cpu_s, 3),
        "events_per_s": round(events / flow_s),
        "events_per_cpu_s": round(events / flow_cpu_s),
        "events_per_s_bar": 5000,
        "foreign_events_per_s": round(events / (flow_s + read_s)),
        "foreign_events_per_cpu_s": round(events / (flow_cpu_s + read_cpu_s)),
        "foreign_events_per_s_bar": 2000,
    }
    write_result("ingest", result, as_json=args.json)


if __name__ == "__main__":
    main()
