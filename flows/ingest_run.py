"""Running the ingest flow in this process: one at a time per home, resumed from its snapshots."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from bytewax.errors import BytewaxRuntimeError
from bytewax.recovery import (
    InconsistentPartitionsError,
    MissingPartitionsError,
    NoPartitionsError,
    RecoveryConfig,
    init_db_dir,
)
from bytewax.testing import run_main

from headwater.flows.archive_run import recover_archive, seal_in_ingest
from headwater.flows.causes import cause_of
from headwater.flows.decisions import DecisionReader, DecisionSource, asked_of
from headwater.flows.event_writer import EventWriter, RepeatCounter, Settler
from headwater.flows.ingest import IngestParts, ingest_flow
from headwater.flows.interrupts import Interrupts, Reason
from headwater.flows.memory_steps import MemorySteps
from headwater.flows.memory_writer import MemoryWriter, open_tables
from headwater.flows.project_build import ProjectBuilder, Sources
from headwater.flows.project_memory import MemoryConfig
from headwater.flows.source import JournalSource, SourceConfig, Stop, Wakes
from headwater.flows.watcher import Watcher
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError, DamagedError, HomeError, StoreError
from headwater.storage.archive import Archive, Segment
from headwater.storage.home import replace_file
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock, is_held
from headwater.storage.outbox import VectorOutbox
from headwater.storage.panics import panics_as_errors
from headwater.storage.quarantine import drop_repeats
from headwater.storage.run_files import HANDOVER_LOCK, INGEST_LOCK, INGEST_STATE
from headwater.storage.sqlite import Database
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bytewax.dataflow import Dataflow

    from headwater.schemas.clock import Clock
    from headwater.storage.home import Home
    from headwater.storage.tables import LanceTable

log = logging.getLogger(__name__)

_ENDED_WELL = "ENDED_WELL"  # beside the snapshots: nothing was written after the last of them
_STATE_EVERY_S = 0.5  # how often the state file may be written: `status` reads it


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How one run goes. `until_idle`: end when every complete line was read; else at `stop`.

    `archive`: look after the archive when nothing is to be read (see `flows/archive_run.py`). `memory_of`: only this
    project's lines are read anew, the memory of others stays. `leave_dirty`: projects that came late are left to the
    next run, so that this one is short. `update(project)` is told which project is derived anew.
    """

    embedding_version: str | None
    until_idle: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = clock_module.SYSTEM
    archive: bool = False
    memory_of: str | None = None
    leave_dirty: bool = False
    update: Callable[[str], None] = lambda _project: None


def run_ingest(home: Home, options: IngestOptions) -> Wakes:
    """Run the flow until it is stopped or idle; all that was read is durable when it returns.

    A flow that runs until it is stopped lets go of the tables while another process holds HANDOVER_LOCK, and goes on
    in the generation that is current then. Raises BusyError when another process runs it, and what its steps raise.
    """
    wakes = Wakes()
    if options.until_idle:
        with hold_lock(home.run / INGEST_LOCK, "ingest flow"):
            _run_current(home, options, options.stop, wakes)
        return wakes
    with Interrupts(home, options.stop, wakes, options.clock, archive=options.archive) as interrupts:
        while True:
            with ExitStack() as stack:
                _take_lock(home, options, stack, wait=interrupts.reason is Reason.HANDOVER)
                interrupts.go_on()
                while not options.stop.is_set():
                    _run_current(home, options, interrupts, wakes)
                    if interrupts.reason is not Reason.ARCHIVE:
                        break
                    seal_in_ingest(home, options.stop, options.clock)
                    interrupts.go_on()
            if options.stop.is_set() or interrupts.reason is None:
                return wakes
            while is_held(home.run / HANDOVER_LOCK) and not options.stop.wait(limits.HANDOVER_LOOK_S):
                continue
            if options.stop.is_set():
                return wakes


def _take_lock(home: Home, options: IngestOptions, stack: ExitStack, *, wait: bool) -> None:
    """Hold the flow's lock; after a handover another process may have been faster, and is waited for."""
    while True:
        try:
            stack.enter_context(hold_lock(home.run / INGEST_LOCK, "ingest flow"))
        except BusyError:
            if not wait or options.stop.wait(limits.HANDOVER_LOOK_S):
                raise
        else:
            return


def _run_current(home: Home, options: IngestOptions, stop: Stop, wakes: Wakes) -> None:
    """Run the flow once in the generation that is current."""
    recover_archive(home)
    drop_repeats(home.quarantine_file)
    run_generation(
        home.pinned(),
        options,
        stop=stop,
        wakes=wakes,
        quarantine=home.quarantine_file,
        state_file=home.run / INGEST_STATE,
    )
    drop_repeats(home.quarantine_file)


def run_generation(
    home: Home,
    options: IngestOptions,
    *,
    stop: Stop,
    wakes: Wakes,
    quarantine: Path,
    state_file: Path | None,
    flow_of: Callable[[IngestParts], Dataflow] = ingest_flow,
) -> None:
    """Run the flow once on the tables of a pinned home; the caller holds what keeps others away from them.

    Lines that were sealed are read from the archive when these tables do not have them. `state_file`: where to tell how
    far it is, for `status`.
    """
    config = home.config().ingest
    with ExitStack() as stack:
        outbox = VectorOutbox(home.outbox_file, options.clock)
        stack.callback(outbox.close)
        store = LanceStore(home.lance)
        table = store.open(EVENTS)
        tables = _memory_tables(home, store, table)
        known = KnownIds(home.ids_file)
        stack.callback(known.close)
        writer = _agreeing(home, table, known, options)
        _collect_rarely(stack)
        source = SourceConfig(
            folder=home.journal,
            stop=stop,
            rescan_s=config.rescan_s,
            pace_s=config.read_pace_s,
            until_idle=options.until_idle,
            wakes=wakes,
            clock=options.clock,
            archive=Archive(home.archive),
            is_settled=lambda segment: _is_settled(known, segment),
        )
        settler = Settler(table, known, outbox, _version_of(home, options), quarantine, clock=options.clock)
        watcher = Watcher(home.journal)
        if not options.until_idle:  # a bounded run looks at every file once and ends: nobody has to wake it
            stack.callback(watcher.close)
            watcher.start()
        if state_file is not None:
            keeper = _StateKeeper(state_file, source)
            stack.callback(keeper.close)
            keeper.start()
        steps, memory_writer = _memory(home, options, stop, table, tables, outbox, stack)
        parts = IngestParts(
            JournalSource(source, watcher),
            DecisionSource(DecisionReader(home, stop, until_idle=options.until_idle)),
            RepeatCounter(known),
            writer,
            settler,
            steps,
            memory_writer,
        )
        _run(flow_of(parts), home.recovery, config.epoch_s)
        replace_file(home.recovery / _ENDED_WELL, b"")


def _collect_rarely(stack: ExitStack) -> None:
    """Let the garbage collector look for cycles rarely: the flow makes none, and looking took a fourth of its time."""
    gc.freeze()  # what the imports left stays for ever
    stack.callback(gc.unfreeze)
    stack.callback(gc.set_threshold, *gc.get_threshold())
    gc.set_threshold(*limits.GC_THRESHOLDS)


def _memory_tables(home: Home, store: LanceStore, events: LanceTable) -> dict[str, LanceTable]:
    """Return the tables of memory; when one was lost, lines are told once more, so that memory is derived anew."""
    tables, is_new = open_tables(store)
    if is_new and events.count():
        _drop_snapshots(home)
    return tables


def _memory(  # noqa: PLR0917 - all of it is opened by its only caller
    home: Home,
    options: IngestOptions,
    stop: Stop,
    events: LanceTable,
    tables: dict[str, LanceTable],
    outbox: VectorOutbox,
    stack: ExitStack,
) -> tuple[MemorySteps, MemoryWriter]:
    """Return what makes memory of events, and what writes it."""
    rules = MemoryConfig.of(home.config().endless)
    builder = ProjectBuilder(
        Sources(events, tables, lambda project: asked_of(home, project), rules),
        finishes=options.until_idle and not options.leave_dirty,
        update=options.update,
    )
    stack.callback(builder.close)
    steps = MemorySteps(
        rules,
        builder,
        finish=lambda: options.until_idle and not stop.is_set(),
        is_clean=_begin(home.recovery),
        is_bounded=options.until_idle,
    )
    return steps, MemoryWriter(tables, outbox, _version_of(home, options), clock=options.clock)


def _begin(recovery: Path) -> bool:
    """Return whether the run before this one ended well; this one has not yet."""
    mark = recovery / _ENDED_WELL
    is_clean = mark.exists()
    mark.unlink(missing_ok=True)
    return is_clean


def _version_of(home: Home, options: IngestOptions) -> str | Callable[[], str | None] | None:
    """Return the version for new jobs; a flow that goes on until it is stopped follows a switch to another one."""
    if options.until_idle:
        return options.embedding_version
    return lambda: home.current().embedding_version or options.embedding_version


def _is_settled(known: KnownIds, segment: Segment) -> bool:
    """Whether these tables have the lines of a segment: lines get their fates in order, so the last one tells."""
    return segment.lines == 0 or bool(known.offsets(segment.key, segment.last, segment.end))


def _agreeing(home: Home, table: LanceTable, known: KnownIds, options: IngestOptions) -> EventWriter:
    """Return a writer whose register agrees with the table; when either is lost, layer 0 is read from its start.

    Without the register nobody knows how many equal facts came before, so going on from a snapshot would take the next
    one for the first.
    """
    if table.count() < known.count_ids():
        known.clear()
    if not known.has_fates():
        _drop_snapshots(home)
    writer = EventWriter(table, known, tells_again=options.memory_of is None)
    if not writer.complete:
        known.clear()
        _drop_snapshots(home)
        writer = EventWriter(table, known, tells_again=options.memory_of is None)
    return writer


def _drop_snapshots(home: Home) -> None:
    """Delete the snapshots: the flow begins anew."""
    try:
        if home.recovery.exists():
            shutil.rmtree(home.recovery)
    except OSError as error:
        raise StoreError(
            str(home.recovery), f"cannot be deleted: {error}", "check its permissions"
        ) from error


def _run(flow: Dataflow, recovery: Path, epoch_s: float) -> None:
    try:
        _prepare(recovery)
        snapshots = RecoveryConfig(str(recovery))  # type: ignore[no-untyped-call]
        run_main(flow, epoch_interval=timedelta(seconds=epoch_s), recovery_config=snapshots)  # type: ignore[no-untyped-call]
    except (NoPartitionsError, MissingPartitionsError, InconsistentPartitionsError) as error:
        raise _unusable(recovery, error) from error  # before OSError: some of these are one
    except OSError as error:
        raise _unwritable(recovery, error) from error
    except BytewaxRuntimeError as error:
        raise cause_of(error) from error
    except RuntimeError as error:  # what the engine says about a snapshot file that it cannot read
        raise _unusable(recovery, error) from error


def _prepare(recovery: Path) -> None:
    """Make the folder of snapshots; an empty or damaged one is made anew, for it is disposable."""
    recovery.mkdir(parents=True, exist_ok=True)
    for file in recovery.glob("*.sqlite3"):
        database = Database(file, "")
        try:
            with database.reading() as connection:
                tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        except DamagedError:
            tables = 0
        database.close()
        if not tables:
            shutil.rmtree(recovery)
            recovery.mkdir()
            break
    if any(recovery.glob("*.sqlite3")):
        return
    try:
        with panics_as_errors():
            init_db_dir(recovery, 1)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        shutil.rmtree(recovery, ignore_errors=True)  # what is half made would be taken for snapshots
        raise _unwritable(recovery, error) from error


def _unwritable(recovery: Path, error: Exception) -> StoreError:
    few_handles = "unable to open" in str(error) or "Too many open files" in str(error)
    fix = "raise the limit of open files (ulimit -n)" if few_handles else "free disk space"
    return StoreError(str(recovery), f"cannot be written: {error}", f"{fix}, check permissions, try again")


def _unusable(recovery: Path, error: Exception) -> StoreError:
    fix = "delete this folder: the flow reads the journal again and writes nothing twice"
    return StoreError(str(recovery), f"snapshots cannot be used: {error}", fix)


class _StateKeeper:
    """Writes how far the flow has read, and what woke it, for `status`; only when it changed."""

    def __init__(self, path: Path, source: SourceConfig) -> None:
        self._path = path
        self._source = source
        self._ended = threading.Event()
        self._last = ""
        self._thread = threading.Thread(target=self._run, name="state", daemon=True)

    def start(self) -> None:
        self._write()
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._write()

    def _run(self) -> None:
        while not self._ended.wait(_STATE_EVERY_S):
            self._write()

    def _write(self) -> None:
        wakes = self._source.wakes
        cursors = dict(self._source.cursors)
        state = {
            "pid": os.getpid(),
            "wakes": {"watch": wakes.watch, "rescan": wakes.rescan},
            "cursors": cursors,
        }
        text = json.dumps(state)
        if text == self._last:
            return
        try:
            replace_file(self._path, text.encode())
        except (
            HomeError
        ) as error:  # tried again; a full disk stops the flow at what it has to write, which says so
            log.debug("%s", error)
        else:
            self._last = text
