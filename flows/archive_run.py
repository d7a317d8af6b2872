"""Running the archive flow: in the ingest process between two runs of its flow, or by hand when nothing is up."""

from __future__ import annotations

import json
import threading
from contextlib import closing, suppress
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
    from collections.abc import Mapping
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

    The caller holds INGEST_LOCK. Idempotent; what was sealed is durable on return. How it went is left in `run/` for
    `status` and `doctor`. Raises BusyError while a reprocess needs the lines to stay where they are, StoreError,
    DamagedError.
    """
    try:
        report = _run(home.pinned(), older_than_s, stop or threading.Event(), clock, dry_run=dry_run)
    except BusyError:
        raise  # whoever holds it will let go: nothing is wrong
    except HeadwaterError as error:
        _tell(home, clock, {"error": f"{error.where}: {error.problem}", "fix": error.fix})
        raise
    if not dry_run:
        done = {"files": report.files, "lines": report.lines, "days": report.days, "left": len(report.left)}
        _tell(home, clock, done)
    return report


def _run(home: Home, older_than_s: float, stop: Stop, clock: Clock, *, dry_run: bool) -> ArchiveReport:
    with hold_lock(home.run / ARCHIVE_LOCK, "archive"), closing(KnownIds(home.ids_file)) as known:
        if not dry_run:
            seal.recover(home)
        steps = ArchiveSteps(home, known, stop, clock.now(), older_than_s, dry_run=dry_run)
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


def _tell(home: Home, clock: Clock, what: Mapping[str, object]) -> None:
    told = {"at": clock_module.iso(clock.now()), **what}
    replace_file(home.run / ARCHIVE_STATE, json.dumps(told).encode())


def seal_in_ingest(home: Home, stop: Stop, clock: Clock) -> None:
    """Run the archive flow; what it could not do is told in `run/`, and must not end the ingest process."""
    with suppress(HeadwaterError):
        run_archive(home, stop=stop, clock=clock)


def recover_archive(home: Home) -> None:
    """Finish or undo what an interrupted archive run left, unless somebody who did so holds the archive.

    The caller holds INGEST_LOCK. Raises StoreError, DamagedError.
    """
    try:
        with hold_lock(home.run / ARCHIVE_LOCK, "archive"):
            seal.recover(home)
    except BusyError:
        return
