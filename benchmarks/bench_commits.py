"""Five thousand single-event commits: files and bytes stay bounded, readers never fail, text search stays fast."""

from __future__ import annotations

import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from common import arguments, percentile, write_result

from headwater.flows.event_writer import EventWriter, Settler
from headwater.schemas.columns import EVENTS
from headwater.schemas.events import Draft, Event, Kind, Position
from headwater.schemas.ids import content_hash, prompt_event_id
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore

COMMITS = 5_000
BEGAN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def draft(n: int) -> Draft:
    """Return the n-th prompt on its way."""
    text = f"look at wombat{n:05} please, the refund test number {n} fails on the second run"
    event = Event(
        id=prompt_event_id("claude-code", "s", str(n)),
        agent="claude-code",
        session_id="s",
        project="/p",
        at=BEGAN + timedelta(seconds=n),
        kind=Kind.PROMPT,
        content=text,
        content_hash=content_hash(text),
    )
    return Draft(Position("claude-code-s.jsonl@0", n), event, "claude-code-s.jsonl@0", n)


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        home = Home.open(Path(folder) / "home")
        reader = _Reader(home)
        known, outbox = KnownIds(home.ids_file), VectorOutbox(home.outbox_file)
        table = LanceStore(home.lance).open(EVENTS)
        writer, settler = (
            EventWriter(table, known),
            Settler(table, known, outbox, "bench", home.quarantine_file),
        )
        reader.start()
        files_max, start_s = 0, time.perf_counter()
        for n in range(COMMITS):
            settler.enqueue(writer.write_events([draft(n)]))
            if n % 250 == 0:
                files_max = max(files_max, _files(home))
        took_s = time.perf_counter() - start_s
        reader.stop()
        table.maintain(datetime.now(UTC), force=True)
        files_end, megabytes = _files(home), _megabytes(home)
    fifth = len(reader.waits_s) // 5
    first, last = reader.waits_s[:fifth], reader.waits_s[-fifth:]
    result = {
        "commits": COMMITS,
        "commits_per_s": round(COMMITS / took_s, 1),
        "files_max": files_max,
        "files_after_care": files_end,
        "mb_after_care": round(megabytes, 1),
        "reads": len(reader.waits_s),
        "reads_failed": len(reader.errors),
        "first_fifth_p50_ms": round(median(first) * 1000, 1),
        "last_fifth_p50_ms": round(median(last) * 1000, 1),
        "last_fifth_p95_ms": round(percentile(last, 0.95) * 1000, 1),
    }
    write_result("commits", result, as_json=args.json)


class _Reader:
    """Searches all the time through a handle of its own."""

    def __init__(self, home: Home) -> None:
        self._table = LanceStore(home.lance).open(EVENTS, create=False)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.waits_s: list[float] = []
        self.errors: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            start_s = time.perf_counter()
            try:
                self._table.match("refund test", "content", None, 10, ["id"])
            except Exception as error:  # noqa: BLE001 - counted: that is what is measured
                self.errors.append(repr(error))
            self.waits_s.append(time.perf_counter() - start_s)


def _files(home: Home) -> int:
    return sum(1 for path in home.lance.rglob("*") if path.is_file())


def _megabytes(home: Home) -> float:
    return sum(path.stat().st_size for path in home.lance.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    main()
