"""`ingest PATH`: append redacted envelopes to the journal, then wait for the flow, or run it when nothing is up.

It never writes a table.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.flows.claude_transcripts import NOTES
from headwater.flows.normalise import ROLLOUT_FORMAT, TRANSCRIPT_FORMAT, told_time
from headwater.schemas import clock, limits
from headwater.schemas.errors import BusyError, InputError, StoreError
from headwater.schemas.events import Fate
from headwater.storage.archive import count_lines
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import is_held
from headwater.storage.run_files import INGEST_LOCK
from headwater.surface import capture
from headwater.surface.cleaning import valid_text
from headwater.surface.importers.codex_log import AGENT as CODEX
from headwater.surface.importers.hooks import HookImporter
from headwater.surface.importers.placing import CurrentIds, Places
from headwater.surface.importers.plan import read_logs, survey
from headwater.surface.importers.records import Format, file_format, find_files, read_records
from headwater.surface.importers.run import ImportRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.storage.home import Home
    from headwater.surface.console import Progress
    from headwater.surface.importers.run import LogSurvey, Told

_POLL_S = 0.1
GONE_S = 5.0  # the same, after which we look whether those lines are still there
WAIT_S = 120.0  # without any line getting its fate, while a flow runs: then something is wrong there


@dataclass(slots=True)
class Appended:
    """What was appended, and where.

    `noise` and `copies`: records of agents' logs that were not appended, by reason; they count as noise and duplicates.
    `times_replaced`: records whose time cannot be.
    """

    places: Places = field(default_factory=Places)
    left_out: list[dict[str, str]] = field(default_factory=list)
    noise: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)
    times_replaced: int = 0

    @property
    def lines(self) -> int:
        """How many lines were appended."""
        return self.places.lines


def append_paths(home: Home, paths: list[Path], wanted: Format | None, progress: Progress) -> Appended:
    """Append every record of the files to the journal; what is left out is told with the reason. Durable on return.

    Records of agents' logs that can give no event, and those that were told before, are counted and not appended.
    Raises InputError for a path that cannot be read, StoreError when the journal cannot be written.
    """
    importer = HookImporter()
    done = Appended()
    surveys: list[LogSurvey] = []
    for path, found in choose_files(paths, wanted, done.left_out):
        if found in (Format.CLAUDE, Format.CODEX):
            surveys.append(survey(path, found))
            continue
        for record in read_records(path):
            _put(home, importer.envelope(record), done)
            progress.update(done.lines)
    if surveys and _knows_nothing(home):
        _run_here(home, Appended(), progress)
    with opened_run(home) as run:
        for one, told in read_logs(surveys, run):
            if told.reason:
                (done.copies if told.copy else done.noise)[told.reason] += 1
            else:
                envelope = log_envelope(one, told, run)
                done.times_replaced += not _time_is_possible(envelope)
                _put(home, envelope, done)
            progress.update(done.lines + done.noise.total() + done.copies.total())
    return done


def choose_files(
    paths: list[Path], wanted: Format | None, left_out: list[dict[str, str]]
) -> Iterator[tuple[Path, Format]]:
    """Yield the files to read with what they hold; what is left out is told with the reason. Raises InputError."""
    for path in find_files(paths):
        try:
            found = file_format(path)
        except InputError as error:
            if path in paths:
                raise
            left_out.append({"file": str(path), "why": str(error)})
            continue
        if wanted is not None and found not in (wanted, Format.UNKNOWN) and not _fits(wanted, found):
            left_out.append({"file": str(path), "why": f"looks like {found}, wanted {wanted}"})
            continue
        if found is Format.UNKNOWN and path not in paths:
            why = "nothing in it looks like a session; name the file itself to bring it in all the same"
            left_out.append({"file": str(path), "why": why})
            continue
        yield path, wanted if found is Format.UNKNOWN and wanted in (Format.CLAUDE, Format.CODEX) else found


def _knows_nothing(home: Home) -> bool:
    """Whether layer 0 has lines, and the register that knows which were told was lost; a flow that is up mends that."""
    if is_held(home.run / INGEST_LOCK) or not count_lines(home):
        return False
    with closing(KnownIds(home.ids_file)) as known:
        return not known.has_fates()


@contextmanager
def opened_run(home: Home) -> Iterator[ImportRun]:
    """Yield the state of an import that knows what earlier ones told."""
    run = ImportRun(home.root)
    if not home.ids_file.exists():
        yield run
        return
    with closing(CurrentIds(home)) as ids:
        run.told_before = ids.told
        yield run


def log_envelope(one: LogSurvey, told: Told, run: ImportRun) -> dict[str, Any]:
    """Return the journal line of a record of an agent's log, with where it came from."""
    cwd = ""
    if isinstance(told.payload, dict):
        cwd = str(told.payload.get("cwd") or one.cwd)
    folder, project = run.project(one.agent, told.session_id, cwd)
    return capture.build_envelope(
        told.payload,
        received_at_ns=clock.now_ns(),
        agent=one.agent,
        project_dir=folder,
        project=project,
        format=ROLLOUT_FORMAT if one.agent == CODEX else TRANSCRIPT_FORMAT,
        source={
            "file": valid_text(str(one.path)),
            "offset": told.record.offset,
            "n": told.record.n,
            "time": "transcript",
        },
    )


def _put(home: Home, envelope: dict[str, Any], done: Appended) -> None:
    """Append one envelope to its session's journal file."""
    payload = envelope["payload"]
    name = capture.journal_name(envelope["agent"], session_of(payload) or "unknown")
    done.places.put(home, name, capture.encode_line(envelope))


def session_of(payload: Any) -> str:
    """Return the session that a payload names, "" when it names none."""
    if not isinstance(payload, dict):
        return ""
    notes = payload.get(NOTES)
    found = payload.get("session_id") or payload.get("sessionId") or (notes or {}).get("session_id")
    return found if isinstance(found, str) else ""


def _time_is_possible(envelope: dict[str, Any]) -> bool:
    payload = envelope["payload"]
    if not isinstance(payload, dict):
        return True
    return told_time(str(payload.get("timestamp") or ""), envelope["received_at_ns"]) is not None


def wait_for_flow(home: Home, appended: Appended, progress: Progress) -> dict[Fate, int]:
    """Return the fates of the appended lines; runs the flow in this process when none runs.

    Raises StoreError when the flow gets no further, or a journal file with such lines is gone.
    """
    counts = dict.fromkeys(Fate, 0)
    moved_s = clock.SYSTEM.monotonic_s()
    with closing(CurrentIds(home)) as ids:
        while sum(counts.values()) < appended.lines:
            if not is_held(home.run / INGEST_LOCK):
                _run_here(home, appended, progress)
            before = sum(counts.values())
            known = ids.now()
            counts = known.count_fates(appended.places.keyed(known))
            progress.update(sum(counts.values()), appended.lines)
            now_s = clock.SYSTEM.monotonic_s()
            if sum(counts.values()) > before:
                moved_s = now_s
            elif now_s - moved_s > GONE_S:
                _say_why(home, known, appended, sum(counts.values()), now_s - moved_s)
            if sum(counts.values()) < appended.lines:
                clock.SYSTEM.sleep(_POLL_S)
    return counts


def _say_why(home: Home, known: KnownIds, appended: Appended, done: int, waited_s: float) -> None:
    """Raise StoreError when lines can get no fate any more, or have waited for too long."""
    how_far = f"{done} of {appended.lines} lines"
    gone = appended.places.gone(home, known)
    if gone is not None:
        problem = f"was replaced or removed while its lines were read: the flow got {how_far}"
        fix = "ingest again: what is there already is not counted twice"
        raise StoreError(str(home.journal / gone), problem, fix)
    if waited_s > WAIT_S:
        raise StoreError("ingest", f"the running flow got no further than {how_far}", "see: headwater status")


def count_events(home: Home, appended: Appended) -> int:
    """Return how many events the appended lines brought: a line can hold several."""
    if not appended.lines:
        return 0
    known = KnownIds(home.ids_file)
    try:
        return known.logs.count_new(appended.places.keyed(known))
    finally:
        known.close()


def summary(
    appended: Appended, fates: dict[Fate, int], embedded: int, elapsed_s: float, *, events: int | None = None
) -> dict[str, Any]:
    """Return the counts of one ingest; lines = lines_with_events + duplicates + merged + noise + quarantined."""
    return {
        "lines": appended.lines + appended.noise.total() + appended.copies.total(),
        "lines_with_events": fates[Fate.EVENT],
        "duplicates": fates[Fate.DUPLICATE] + appended.copies.total(),
        "merged": fates[Fate.MERGED],
        "noise": fates[Fate.NOISE] + appended.noise.total(),
        "quarantined": fates[Fate.QUARANTINED],
        "events": fates[Fate.EVENT] if events is None else events,
        "skipped": dict((appended.noise + appended.copies).most_common()),
        "times_replaced": appended.times_replaced,
        "embedded": embedded,
        "elapsed_s": round(elapsed_s, 3),
        "left_out": appended.left_out,
    }


def _fits(wanted: Format, found: Format) -> bool:
    return wanted is Format.HOOK and found is Format.STAMPED


def _run_here(home: Home, appended: Appended, progress: Progress) -> None:
    """Run the flow until all is read, showing how far the given lines are; another process may be faster."""
    from headwater.flows.ingest_run import IngestOptions, run_ingest
    from headwater.storage.active import active_version

    options = IngestOptions(
        embedding_version=active_version(home),
        until_idle=True,
        update=lambda project: progress.rename(f"remembering {project.rpartition('/')[2] or 'all'}"),
    )
    with closing(KnownIds(home.ids_file)) as known:

        def look() -> None:
            done = known.count_fates(appended.places.keyed(known))
            progress.update(sum(done.values()), appended.lines)

        with _watched(look):
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
