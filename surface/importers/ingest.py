"""`ingest PATH`: append redacted envelopes to the journal, then wait for the flow, or run it when nothing is up.

It never writes a table.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock, limits
from headwater.schemas.errors import BusyError, StoreError
from headwater.schemas.events import Fate
from headwater.storage import journal
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import is_held
from headwater.storage.outbox import Outbox
from headwater.storage.run_files import INGEST_LOCK, SERVER_LOCK
from headwater.surface import capture
from headwater.surface.importers.hooks import HookImporter
from headwater.surface.importers.records import Format, file_format, find_files, read_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater.storage.home import Home
    from headwater.surface.console import Progress

_POLL_S = 0.1
WAIT_S = 120.0  # without any line getting its fate, while a flow runs: then something is wrong there


@dataclass(slots=True)
class Appended:
    """What was appended: how many lines, and where (journal file name -> start and end offsets, bytes)."""

    lines: int = 0
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def note(self, name: str, start: int, end: int) -> None:
        """Note one appended line, joined to the one before when nothing lies between."""
        spans = self.spans.setdefault(name, [])
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        self.lines += 1


def append_paths(home: Home, paths: list[Path], wanted: Format | None, progress: Progress) -> Appended:
    """Append every record of the files to the journal; what is left out is told with the reason. Durable on return.

    Raises InputError for a path that cannot be read, StoreError when the journal cannot be written.
    """
    importer = HookImporter()
    done = Appended()
    for path in find_files(paths):
        found = file_format(path)
        if found is Format.TRANSCRIPT:
            done.left_out.append({"file": str(path), "why": "a transcript; reading those is not built yet"})
            continue
        if wanted is not None and found not in (wanted, Format.UNKNOWN) and not _fits(wanted, found):
            done.left_out.append({"file": str(path), "why": f"looks like {found}, wanted {wanted}"})
            continue
        if found is Format.UNKNOWN and path not in paths:
            why = "nothing in it looks like a hook payload; name the file itself to bring it in all the same"
            done.left_out.append({"file": str(path), "why": why})
            continue
        for record in read_records(path):
            envelope = importer.envelope(record)
            payload = envelope["payload"]
            session = payload.get("session_id") if isinstance(payload, dict) else None
            name = capture.journal_name(
                envelope["agent"], session if isinstance(session, str) and session else "unknown"
            )
            line = capture.encode_line(envelope)
            start = _append(home.journal / name, line)
            done.note(name, start, start + len(line))
            progress.update(done.lines)
    return done


def wait_for_flow(home: Home, appended: Appended, progress: Progress) -> dict[Fate, int]:
    """Return the fates of the appended lines; runs the flow in this process when none runs. Raises StoreError."""
    known = KnownIds(home.ids_file)
    spans = _keyed(home, appended)
    counts = dict.fromkeys(Fate, 0)
    moved_s = clock.SYSTEM.monotonic_s()
    try:
        while sum(counts.values()) < appended.lines:
            if not is_held(home.run / INGEST_LOCK):
                _run_here(home, known, spans, appended.lines, progress)
            before = sum(counts.values())
            counts = known.count_fates(spans)
            progress.update(sum(counts.values()), appended.lines)
            now_s = clock.SYSTEM.monotonic_s()
            if sum(counts.values()) > before:
                moved_s = now_s
            elif now_s - moved_s > WAIT_S:
                done = f"{sum(counts.values())} of {appended.lines} lines"
                raise StoreError(
                    "ingest", f"the running flow got no further than {done}", "see: headwater status"
                )
            if sum(counts.values()) < appended.lines:
                clock.SYSTEM.sleep(_POLL_S)
    finally:
        known.close()
    return counts


def embed_pending(home: Home, progress: Progress) -> int:
    """Return how many items got vectors: by the running server, or here when there is none."""
    from headwater.flows.embed_run import run_embed
    from headwater.flows.missing import enqueue_missing
    from headwater.storage.embedder import load
    from headwater.storage.models import active_version, resolve

    version = active_version(home)
    outbox = Outbox(home.outbox_file)
    try:
        before = outbox.counts(version).done
        if is_held(home.run / SERVER_LOCK):
            while (counts := outbox.counts(version)).pending + counts.processing and is_held(
                home.run / SERVER_LOCK
            ):
                progress.update(
                    counts.done - before, counts.done - before + counts.pending + counts.processing
                )
                clock.SYSTEM.sleep(_POLL_S)
            return outbox.counts(version).done - before
        enqueue_missing(home, outbox, version)
        total = outbox.counts(version).pending
        if not total:
            return 0
        encoder = load(resolve(home.config().embedding.model, home))
        with _watched(lambda: progress.update(outbox.counts(version).done - before, total)):
            report = run_embed(home, encoder, owner=f"ingest-{os.getpid()}")
        return report.succeeded
    finally:
        outbox.close()


def summary(appended: Appended, fates: dict[Fate, int], embedded: int, elapsed_s: float) -> dict[str, Any]:
    """Return the counts of one ingest; lines = lines_with_events + duplicates + merged + noise + quarantined."""
    return {
        "lines": appended.lines,
        "lines_with_events": fates[Fate.EVENT],
        "duplicates": fates[Fate.DUPLICATE],
        "merged": fates[Fate.MERGED],
        "noise": fates[Fate.NOISE],
        "quarantined": fates[Fate.QUARANTINED],
        "events": fates[Fate.EVENT],
        "embedded": embedded,
        "elapsed_s": round(elapsed_s, 3),
        "left_out": appended.left_out,
    }


def _append(path: Path, line: bytes) -> int:
    try:
        return capture.append_line(str(path), line)
    except OSError as error:
        fix = "free disk space and check the permissions, then ingest again: nothing is counted twice"
        raise StoreError(str(path), f"cannot be written: {error}", fix) from error


def _fits(wanted: Format, found: Format) -> bool:
    return wanted is Format.HOOK and found is Format.STAMPED


def _keyed(home: Home, appended: Appended) -> list[tuple[str, int, int]]:
    """Return the spans under the keys that positions carry."""
    keyed: list[tuple[str, int, int]] = []
    for name, spans in appended.spans.items():
        key = journal.Cursor(head=journal.head_of(home.journal / name)).key(name)
        keyed += [(key, start, end) for start, end in spans]
    return keyed


def _run_here(
    home: Home, known: KnownIds, spans: list[tuple[str, int, int]], lines: int, progress: Progress
) -> None:
    """Run the flow until all is read, showing how far the given lines are; another process may be faster."""
    from headwater.flows.ingest_run import IngestOptions, run_ingest
    from headwater.storage.models import active_version

    options = IngestOptions(embedding_version=active_version(home), until_idle=True)
    with _watched(lambda: progress.update(sum(known.count_fates(spans).values()), lines)):
        try:
            run_ingest(home, options)
        except BusyError:
            return  # an `up` came in between: its flow does the work


class _watched:  # noqa: N801 - used like a function
    """Calls something every so often from a thread while a block runs."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(limits.STOP_S)

    def _run(self) -> None:
        while not self._ended.wait(_POLL_S * 5):
            self._look()
