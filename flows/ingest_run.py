"""Running the ingest flow in this process: one at a time per home, resumed from its snapshots."""

from __future__ import annotations

import gc
import json
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

from headwater.flows.event_writer import EventWriter, RepeatCounter, Settler
from headwater.flows.ingest import ingest_flow
from headwater.flows.source import JournalSource, SourceConfig, Wakes
from headwater.flows.watcher import Watcher
from headwater.schemas import clock as clock_module
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import DamagedError, HeadwaterError, StoreError
from headwater.storage.home import replace_file
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock
from headwater.storage.outbox import Outbox
from headwater.storage.run_files import INGEST_LOCK, INGEST_STATE
from headwater.storage.sqlite import Database
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from pathlib import Path

    from bytewax.dataflow import Dataflow

    from headwater.schemas.clock import Clock
    from headwater.storage.home import Home
    from headwater.storage.tables import LanceTable

_STATE_EVERY_S = 0.5  # how often the state file may be written: `status` reads it


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How one run goes. `until_idle`: end when every complete line was read; else at `stop`."""

    embedding_version: str | None
    until_idle: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Clock = clock_module.SYSTEM


def run_ingest(home: Home, options: IngestOptions) -> Wakes:
    """Run the flow until it is stopped or idle; all that was read is durable when it returns.

    Raises BusyError when another process runs it, and what its steps raise.
    """
    config = home.config().ingest
    with ExitStack() as stack:
        stack.enter_context(hold_lock(home.run / INGEST_LOCK, "ingest flow"))
        outbox = Outbox(home.outbox_file, options.clock)
        stack.callback(outbox.close)
        table = LanceStore(home.lance).open(EVENTS)
        known, writer = _agreeing(home, table)
        stack.callback(known.close)
        gc.freeze()  # what the imports left stays for ever: not looking through it saves a fifth of the time
        stack.callback(gc.unfreeze)
        source = SourceConfig(
            folder=home.journal,
            stop=options.stop,
            rescan_s=config.rescan_s,
            pace_s=config.read_pace_s,
            until_idle=options.until_idle,
            clock=options.clock,
        )
        settler = Settler(
            table, known, outbox, options.embedding_version, home.quarantine_file, clock=options.clock
        )
        watcher = Watcher(home.journal)
        if not options.until_idle:  # a bounded run looks at every file once and ends: nobody has to wake it
            stack.callback(watcher.close)
            watcher.start()
        keeper = _StateKeeper(home.run / INGEST_STATE, source)
        stack.callback(keeper.close)
        keeper.start()
        flow = ingest_flow(JournalSource(source, watcher), RepeatCounter(known), writer, settler)
        _run(flow, home.recovery, config.epoch_s)
        return source.wakes


def _agreeing(home: Home, table: LanceTable) -> tuple[KnownIds, EventWriter]:
    """Return register and writer that agree with the table; when either is lost, the journal is read from its start.

    Without the register nobody knows how many equal facts came before, so going on from a snapshot would take the next
    one for the first.
    """
    if not home.ids_file.exists():
        _start_over(home)
    known = KnownIds(home.ids_file)
    writer = EventWriter(table, known)
    if not writer.complete:
        known.close()
        _start_over(home)
        known = KnownIds(home.ids_file)
        writer = EventWriter(table, known)
    return known, writer


def _start_over(home: Home) -> None:
    """Delete the register and the snapshots: both are made again from the journal."""
    try:
        if home.recovery.exists():
            shutil.rmtree(home.recovery)
        for suffix in ("", "-wal", "-shm"):
            home.ids_file.with_name(home.ids_file.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(str(home.root), f"cannot be written: {error}", "check its permissions") from error


def _run(flow: Dataflow, recovery: Path, epoch_s: float) -> None:
    try:
        _prepare(recovery)
        snapshots = RecoveryConfig(str(recovery))  # type: ignore[no-untyped-call]
        run_main(flow, epoch_interval=timedelta(seconds=epoch_s), recovery_config=snapshots)  # type: ignore[no-untyped-call]
    except (NoPartitionsError, MissingPartitionsError, InconsistentPartitionsError) as error:
        raise _unusable(recovery, error) from error  # before OSError: some of these are one
    except OSError as error:
        raise StoreError(
            str(recovery), f"cannot be written: {error}", "free disk space, check permissions"
        ) from error
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
    if not any(recovery.glob("*.sqlite3")):
        init_db_dir(recovery, 1)  # type: ignore[no-untyped-call]


def _unusable(recovery: Path, error: Exception) -> StoreError:
    fix = "delete this folder: the flow reads the journal again and writes nothing twice"
    return StoreError(str(recovery), f"snapshots cannot be used: {error}", fix)


def cause_of(error: BaseException) -> HeadwaterError:
    """Return our error from under what Bytewax wraps around it."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, HeadwaterError):
            return inner
        inner = inner.__cause__
    return StoreError("ingest flow", f"ended: {error}", "run: headwater doctor")


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
        if text != self._last:
            replace_file(self._path, text.encode())
            self._last = text
