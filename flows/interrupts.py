"""What interrupts a running ingest flow: a stop, another process that wants the tables, or the archive's hour."""

from __future__ import annotations

import threading
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from headwater.flows.archive_run import archive_is_due
from headwater.schemas import limits
from headwater.storage.locks import is_held
from headwater.storage.run_files import HANDOVER_LOCK

if TYPE_CHECKING:
    from headwater.flows.source import Stop, Wakes
    from headwater.schemas.clock import Clock
    from headwater.storage.home import Home


class Reason(StrEnum):
    """Why a flow that was not stopped has to pause."""

    HANDOVER = "handover"
    ARCHIVE = "archive"


class Interrupts:
    """Looks every HANDOVER_LOOK_S, in a thread of its own, whether the flow has to end; the source asks `is_set`."""

    def __init__(self, home: Home, stop: Stop, wakes: Wakes, clock: Clock, *, archive: bool) -> None:
        """Begin to look with the block's start."""
        self.reason: Reason | None = None
        self._home = home
        self._stop = stop
        self._wakes = wakes
        self._clock = clock
        self._archive_at = clock.now() if archive else None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interrupts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(limits.STOP_S)

    def is_set(self) -> bool:
        """Return whether the flow has to end now."""
        return self.reason is not None or self._stop.is_set()

    def go_on(self) -> None:
        """Forget the reason: what it asked for is done."""
        self.reason = None

    def _run(self) -> None:
        while not self._ended.wait(limits.HANDOVER_LOOK_S):
            if self.reason is None:
                self.reason = self._look()

    def _look(self) -> Reason | None:
        if is_held(self._home.run / HANDOVER_LOCK):
            return Reason.HANDOVER
        now = self._clock.now()
        if self._archive_at is None or now < self._archive_at:
            return None
        read_s = self._wakes.read_s
        if read_s is None or self._clock.monotonic_s() - read_s < limits.ARCHIVE_QUIET_S:
            return None
        self._archive_at = now + timedelta(seconds=limits.ARCHIVE_EVERY_S)
        return Reason.ARCHIVE if archive_is_due(self._home, now) else None
