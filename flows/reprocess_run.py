"""Building a generation beside the live one, and switching to it: `reprocess`.

The live flow goes on while the new tables are built from archive and journal. Then it is asked to let go
(HANDOVER_LOCK), the lines that came meanwhile are read, CURRENT is renamed, and it goes on in the new generation, from
the snapshots that the build left. Until that rename nothing that is in use was touched.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.flows.ingest_run import IngestOptions, run_generation
from headwater.flows.missing import enqueue_missing
from headwater.flows.project_rebuild import forget_project
from headwater.flows.reprocess import reprocess_flow
from headwater.flows.source import Wakes
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError, InputError, StoreError
from headwater.storage import generations, seal
from headwater.storage.archive import count_lines
from headwater.storage.control import ControlJournal
from headwater.storage.faults import fault_point
from headwater.storage.home import replace_file
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock
from headwater.storage.outbox import VectorOutbox
from headwater.storage.quarantine import take_in
from headwater.storage.run_files import ARCHIVE_LOCK, HANDOVER_LOCK, INGEST_LOCK, INGEST_STATE, REPROCESS_LOCK
from headwater.storage.tables import LanceStore, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.schemas.clock import Clock
    from headwater.storage.home import Home

_LOOK_S = 0.25  # how often progress is told
_COPIED = "COPIED"  # beside the tables: the copy that a project's rebuild begins with is complete


@dataclass(frozen=True, slots=True)
class ReprocessOptions:
    """How one run goes. `keep`: old generations that stay; `project`: build only this one, the others stay as they are.

    `update(done, total)` is told how many lines were read.
    """

    keep: int = limits.GENERATIONS_KEPT
    project: str | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    update: Callable[[int, int], None] = lambda _done, _total: None
    clock: Clock = clock_module.SYSTEM


@dataclass(frozen=True, slots=True)
class ReprocessReport:
    """What was done. `pause_s`: how long the live flow had to wait; `lines_per_s` over the whole build."""

    generation: str
    previous: str
    resumed: bool
    lines: int
    events: int
    enqueued: int
    elapsed_s: float
    lines_per_s: float
    pause_s: float
    removed: tuple[str, ...]


def reprocess(home: Home, options: ReprocessOptions) -> ReprocessReport:
    """Build a new generation from layer 0 and make it current. An interrupted run is gone on with by the next one.

    Raises BusyError when one runs already, InputError for an unknown project, StoreError when stopped, and what the
    flow's steps raise; then the generation that was current still is.
    """
    with _exclusive(home):
        if options.project is not None:
            options = replace(options, project=_captured_as(home, options.project))
        building, resumed = _begin(home, options.project)
        return _build_and_switch(home, building, options, resumed=resumed)


def go_back(home: Home, name: str, options: ReprocessOptions) -> ReprocessReport:
    """Make an old generation current again, after it has read what came since. Raises like `reprocess`.

    InputError when there is no such generation.
    """
    with _exclusive(home):
        target = home.at(generations.find(home, name).name)
        return _build_and_switch(home, target, options, resumed=True)


@contextmanager
def _exclusive(home: Home) -> Iterator[None]:
    """Keep other runs away, and the lines where they are; nothing is half sealed meanwhile."""
    with (
        hold_lock(home.run / REPROCESS_LOCK, "reprocess"),
        _lock_when_free(home.run / ARCHIVE_LOCK, "archive"),
    ):
        seal.recover(home)
        yield


def _build_and_switch(
    home: Home, building: Home, options: ReprocessOptions, *, resumed: bool
) -> ReprocessReport:
    start_s = options.clock.monotonic_s()
    previous = home.current().generation
    wakes = Wakes()
    with _telling(home, building, wakes, options.update):
        for _ in range(limits.CATCH_UP_RUNS):
            before = wakes.lines
            _run(building, options, wakes, None)
            if wakes.lines - before <= limits.READ_LINES:
                break
        # merged indexes make the new tables as fast as the old ones, and the pause below short
        LanceStore(building.lance).open(EVENTS).maintain(options.clock.now(), force=True)
        fault_point("reprocess.built")
        pause_s = _switch(home, building, options, wakes)
    fault_point("reprocess.switched")
    enqueued = _enqueue(home)
    removed = generations.drop_old(home, options.keep, previous)
    elapsed_s = options.clock.monotonic_s() - start_s
    return ReprocessReport(
        generation=building.lance.name,
        previous=previous,
        resumed=resumed,
        lines=wakes.lines,
        events=LanceStore(building.lance).open(EVENTS, create=False).count(),
        enqueued=enqueued,
        elapsed_s=elapsed_s,
        lines_per_s=wakes.lines / elapsed_s if elapsed_s > 0 else 0.0,
        pause_s=pause_s,
        removed=tuple(removed),
    )


def _run(building: Home, options: ReprocessOptions, wakes: Wakes, state_file: Path | None) -> None:
    """Read all lines that the building generation does not have. Raises StoreError when stopped.

    With a state file the live flow waits: projects that came late meanwhile are left to it.
    """
    run = IngestOptions(
        embedding_version=None,
        until_idle=True,
        stop=options.stop,
        clock=options.clock,
        memory_of=options.project,
        leave_dirty=state_file is not None,
    )
    run_generation(
        building,
        run,
        stop=options.stop,
        wakes=wakes,
        quarantine=generations.quarantine_of(building),
        state_file=state_file,
        flow_of=reprocess_flow,
    )
    if options.stop.is_set():
        raise StoreError("reprocess", "stopped before it was done", "run it again: it goes on where it was")


def _switch(home: Home, building: Home, options: ReprocessOptions, wakes: Wakes) -> float:
    """Let the live flow pause, read the last lines, rename CURRENT; return how long the flow had to wait (s)."""
    with hold_lock(home.run / HANDOVER_LOCK, "reprocess"):
        start_s = options.clock.monotonic_s()
        with _lock_when_free(home.run / INGEST_LOCK, "ingest flow"):
            _run(building, options, wakes, home.run / INGEST_STATE)
            take_in(home.quarantine_file, generations.quarantine_of(building))
            generations.switch(home, building.lance.name)
        return options.clock.monotonic_s() - start_s


@contextmanager
def _lock_when_free(path: Path, what: str) -> Iterator[None]:
    """Hold a lock as soon as its owner lets go. Raises BusyError when that takes longer than HANDOVER_S."""
    until_s = clock_module.SYSTEM.monotonic_s() + limits.HANDOVER_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(hold_lock(path, what))
            except BusyError:
                if clock_module.SYSTEM.monotonic_s() > until_s:
                    raise
                clock_module.SYSTEM.sleep(limits.LOCK_PAUSE_S)
            else:
                break
        yield


def _captured_as(home: Home, project: str) -> str:
    """Return the name under which the events of a project were captured: its own, or the one that was moved to it."""
    table = LanceStore(home.lance).open(EVENTS, create=False)
    names = dict.fromkeys((project, *ControlJournal(home).state().names(project)))
    known = [name for name in names if table.count(f"project = {quote(name)}")]
    if project in known or len(known) == 1:
        return project if project in known else known[0]
    where = f"project {project}"
    if known:
        fix = f"name one of them, or leave --project out: {', '.join(known)}"
        raise InputError(where, f"wanted one that was captured as one, got {len(known)} names", fix)
    fix = "name a project as `headwater project list` shows it, or leave --project out"
    raise InputError(where, "wanted one that has events, found none", fix)


def _begin(home: Home, project: str | None) -> tuple[Home, bool]:
    """Return the generation to build; for one project it begins as a copy of the live one without that project."""
    building, resumed = generations.begin(home, {"project": project})
    if project is None:
        return building, resumed
    copied = building.lance / _COPIED
    if resumed and copied.exists():
        return building, True
    if resumed:  # killed while it copied
        generations.remove(home, building.lance.name)
        building, _ = generations.begin(home, {"project": project})
    with (
        hold_lock(home.run / HANDOVER_LOCK, "reprocess"),
        _lock_when_free(home.run / INGEST_LOCK, "ingest flow"),
    ):
        generations.copy_tables(home.pinned(), building)
    forget_project(building, project)
    replace_file(copied, b"")
    return building, False


@contextmanager
def _telling(home: Home, building: Home, wakes: Wakes, update: Callable[[int, int], None]) -> Iterator[None]:
    """Tell how far the build is, from a thread, while the block runs."""
    with closing(KnownIds(building.ids_file)) as known:
        before = sum(known.count_fates().values())
    total = count_lines(home)
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(_LOOK_S):
            update(min(before + wakes.lines, total), total)

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(limits.STOP_S)


def _enqueue(home: Home) -> int:
    """Ask for the vectors that the new generation's items lack; return how many."""
    embedding_version = home.current().embedding_version
    if embedding_version is None:
        return 0
    with closing(VectorOutbox(home.outbox_file)) as outbox:
        return enqueue_missing(home, outbox, embedding_version)
