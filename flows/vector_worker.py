"""The vector worker: one per embedding version, it works off jobs for as long as it holds the version's lock."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Self, cast

from headwater.flows.embed_run import work_off
from headwater.flows.missing import enqueue_missing
from headwater.flows.reconcile import delete_orphans
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.storage.outbox import VectorOutbox
from headwater.storage.worker_lock import version_lock

if TYPE_CHECKING:
    import threading
    from contextlib import AbstractContextManager

    from headwater.schemas.clock import Clock
    from headwater.schemas.jobs import ProcessResult
    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home
    from headwater.storage.worker_lock import WorkerLock


class VectorWorker:
    """Works off the jobs of its encoder's version. In a `with` it holds the lock all the time, else for each call.

    Both raise BusyError when another worker holds it. Use one from one thread.
    """

    def __init__(
        self,
        home: Home,
        encoder: Encoder,
        *,
        lock: WorkerLock | None = None,
        owner: str | None = None,
        stop: threading.Event | None = None,
        clock: Clock = clock_module.SYSTEM,
    ) -> None:
        """`lock`: the version's, from `version_lock`, held or not; it is let go with this worker.

        `owner` stands in the leases, by default with the process id; `stop`, once set, ends work after a batch.
        """
        self._home = home
        self._encoder = encoder
        self._owner = owner or f"worker-{os.getpid()}"
        self._stop = stop
        self._clock = clock
        self._lock = lock or version_lock(home, encoder.version)
        self._outbox = VectorOutbox(home.outbox_file, clock)
        self._cleaned_s: float | None = None
        self._paused_until_s: float | None = None

    def __enter__(self) -> Self:
        """Take the lock, when it is not held already. Raises BusyError."""
        if not self._lock.is_mine:
            self._lock.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Let it go."""
        self.release()

    def acquire(self) -> bool:
        """Take the lock and keep it until `release`; False when another worker holds it."""
        return self._lock.is_mine or self._lock.acquire()

    def release(self) -> None:
        """Let the lock go, and close the outbox; harmless when neither is held."""
        self._lock.release()
        self._outbox.close()

    def compare(self) -> int:
        """Ask for what has no vectors, and do what a reconcile left to us; return how many items got a job.

        Vector tables that cannot be read are moved aside first.
        """
        with self._locked():
            if self._outbox.is_asked_to_reconcile(self._encoder.version):
                delete_orphans(self._home, self._outbox, self._encoder.version)
            return enqueue_missing(self._home, self._outbox, self._encoder.version, is_worker=True)

    def has_work(self) -> bool:
        """Return whether a job is due, or a comparison is (see `compare`): the file is new, or somebody asked.

        Nothing is for OUTAGE_WAIT_S after the model or a store was found broken as a whole.
        """
        if self._paused_until_s is not None and self._clock.monotonic_s() < self._paused_until_s:
            return False
        due = self._outbox.next_due(self._encoder.version)
        return (due is not None and due <= self._clock.now()) or self._is_to_compare()

    def process_all(self) -> ProcessResult:
        """Work off all jobs that are due, and what `has_work` else tells of. Claims are of up to CLAIM_JOBS jobs.

        A job's own failure is in the result. Raises what the model or a store raises when it is broken as a whole: no
        job has lost a try then, see `work_off`.
        """
        self._paused_until_s = self._clock.monotonic_s() + limits.OUTAGE_WAIT_S  # unless it ends well
        with self._locked():
            self._clean()
            if self._is_to_compare():
                self.compare()
            report = work_off(
                self._home, self._encoder, owner=self._owner, stop=self._stop, clock=self._clock
            )
        self._paused_until_s = None
        return cast("ProcessResult", asdict(report))

    def _locked(self) -> AbstractContextManager[object]:
        return nullcontext() if self._lock.is_mine else self._lock

    def _is_to_compare(self) -> bool:
        version = self._encoder.version
        return not self._outbox.was_compared(version) or self._outbox.is_asked_to_reconcile(version)

    def _clean(self) -> None:
        """Remove old done jobs now and then."""
        now_s = self._clock.monotonic_s()
        if self._cleaned_s is None or now_s - self._cleaned_s >= limits.JOBS_CLEAN_EVERY_S:
            self._cleaned_s = now_s
            self._outbox.cleanup_done()
