"""Running the archive flow: in the ingest process between two runs of its flow, or by hand when nothing is up."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from bytewax.errors import BytewaxRuntimeError
from bytewax.testing import run_main

from headwater.flows.archive import archive_flow
from headwater.flows.archive_steps import EXPORTS, ArchiveReport, ArchiveSteps, silent_files
from headwater.flows.causes import cause_of
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import BusyError, HeadwaterError
from headwater.storage import day_files, seal
from headwater.storage.home import replace_file
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import ARCHIVE_LOCK, ARCHIVE_STATE
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.flows.source import Stop
    from headwater.schemas.clock import Clock
    from headwater.storage.home import Home


def run_archive(
    home: Home,
    *,
    older_than_s: float = limits.ARCHIVE_SILENT_S,
    dry_run: bool = False,
    stop: Stop | None = None,
    clock: Clock = clock_module.SYSTEM,
) -> ArchiveReport:
    """Seal the journal files that are silent and read, export the closed days; end early when `stop` is set.

    The caller holds INGEST_LOCK. Idempotent; what was sealed is durable on return. Raises BusyError while a reprocess
    needs the lines to stay where they are, StoreError, DamagedError.
    """
    home = home.pinned()
    with hold_lock(home.run / ARCHIVE_LOCK, "archive"), closing(KnownIds(home.ids_file)) as known:
        if not dry_run:
            seal.recover(home)
        steps = ArchiveSteps(
            home, known, stop or threading.Event(), clock.now(), older_than_s, dry_run=dry_run
        )
        try:
            run_main(archive_flow(steps))  # type: ignore[no-untyped-call]
        except BytewaxRuntimeError as error:
            raise cause_of(error, "archive flow") from error
        return steps.report


def archive_is_due(home: Home, now: datetime) -> bool:
    """Return whether a file is silent for long enough, or a closed day not exported. Cheap: some tenths of a second.

    What cannot be looked at is due: the run itself tells why.
    """
    home = home.pinned()
    try:
        if next(silent_files(home, now), None) is not None:
            return True
        return any(
            day_files.days_to_write(
                LanceStore(home.lance).open(export.definition, create=False),
                export,
                day_files.folder_of(home, export),
                now,
            )
            for export in EXPORTS
        )
    except HeadwaterError:
        return True


def seal_in_ingest(home: Home, stop: Stop, clock: Clock) -> None:
    """Run the archive flow and leave in `run/` what it did; what it could not do must not end the ingest process."""
    told: dict[str, object] = {"at": clock_module.iso(clock.now())}
    try:
        report = run_archive(home, stop=stop, clock=clock)
        told |= {"files": report.files, "lines": report.lines, "days": report.days, "left": len(report.left)}
    except HeadwaterError as error:
        told["error"] = str(error)
    replace_file(home.run / ARCHIVE_STATE, json.dumps(told).encode())


def recover_archive(home: Home) -> None:
    """Finish or undo what an interrupted archive run left, unless somebody who did so holds the archive.

    The caller holds INGEST_LOCK. Raises StoreError, DamagedError.
    """
    try:
        with hold_lock(home.run / ARCHIVE_LOCK, "archive"):
            seal.recover(home)
    except BusyError:
        return
