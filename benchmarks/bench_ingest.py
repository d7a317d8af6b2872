"""How many journal lines a second the ingest flow takes, events only and with the redaction of foreign input before it.

One core: the process's own CPU time is given beside the wall time, for the machine may be shared. `history`: recorded
transcripts of 100 MB, each time with ids of their own, read, redacted and appended, then taken by the flow.
"""

from __future__ import annotations

import copy
import gzip
import json
import re
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from common import arguments, story_lines, write_result

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths

COPIES = 22  # of the four stories: about 20,000 lines
HISTORY_BYTES = 100_000_000
HISTORY_SETS = ("claude-code-spotter-en", "claude-code-repiq-ja")
_IDS = re.compile(r'"(uuid|parentUuid|sessionId|promptId)":"([0-9a-f]{8})|toolu_')


def copies(lines: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Return the lines n times, each time of other sessions, so that no line repeats a fact."""
    made: list[dict[str, Any]] = []
    for number in range(n):
        for line in lines:
            one = copy.deepcopy(line)
            one["payload"]["session_id"] = f"{number}-{one['payload']['session_id']}"
            made.append(one)
    return made


def write_history(data: Path, folder: Path) -> int:
    """Write the recorded transcripts again and again, with new ids, until there are HISTORY_BYTES; return how many."""
    size = number = 0
    files = [path for name in HISTORY_SETS for path in sorted((data / name).glob("*.gz"))]
    while files and size < HISTORY_BYTES:
        for path in files:
            text = gzip.decompress(path.read_bytes()).decode()
            target = folder / f"{number}-{path.name.removesuffix('.gz')}"
            target.write_text(_IDS.sub(partial(_renewed, number), text), encoding="utf-8")
            size += target.stat().st_size
        number += 1
    return size


def _renewed(number: int, match: re.Match[str]) -> str:
    return f'"{match[1]}":"{int(match[2], 16) ^ number * 0x01010101:08x}' if match[1] else f"toolu_{number}"


def history(data: Path, folder: Path) -> dict[str, Any]:
    """Return the figures of a long history; empty without the recorded sets."""
    (folder / "log").mkdir()
    size = write_history(data, folder / "log")
    if not size:
        return {}
    home = Home.open(folder / "history")
    read_s, read_cpu_s, appended = timed(
        lambda: append_paths(home, [folder / "log"], None, Progress("reading"))
    )
    flow_s, flow_cpu_s, _ = timed(
        lambda: run_ingest(home, IngestOptions(embedding_version="bench", until_idle=True))
    )
    with closing(KnownIds(home.ids_file)) as known:
        events = known.count_ids()
    lines = appended.lines + appended.noise.total() + appended.copies.total()
    kept_bytes = sum(path.stat().st_size for path in home.journal.iterdir())
    return {
        "history_bytes": size,
        "history_lines": lines,
        "history_kept_lines": appended.lines,
        "history_kept_bytes_per_line": round(kept_bytes / appended.lines),
        "history_events": events,
        "history_read_mb_per_s": round(size / 1e6 / read_s, 1),
        "history_read_lines_per_s": round(lines / read_s),
        "history_read_kept_lines_per_s": round(appended.lines / read_s),
        "history_read_kept_lines_per_cpu_s": round(appended.lines / read_cpu_s),
        "history_lines_per_s": round(lines / (read_s + flow_s)),
        "history_lines_per_cpu_s": round(lines / (read_cpu_s + flow_cpu_s)),
        "history_lines_per_s_bar": 2000,
    }


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
        long = history(args.data, Path(folder))
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
        **long,
    }
    write_result("ingest", result, as_json=args.json)


if __name__ == "__main__":
    main()
