"""Embedding all items with another model, beside the one that answers: a bounded run of the embed flow.

It writes the new version's tables and no others; new events included, until nothing worth a claim is left. The old
version's worker goes on as before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.flows.causes import is_fault
from headwater.flows.embed_run import work_off
from headwater.flows.missing import enqueue_missing, missing_vectors
from headwater.flows.reconcile import delete_orphans
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import DamagedError, ModelError, StoreError
from headwater.storage.outbox import VectorOutbox
from headwater.storage.vectors import VectorStore
from headwater.storage.worker_lock import version_lock

if TYPE_CHECKING:
    from headwater.schemas.clock import Clock
    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home

Update = Callable[[int, int], None]
"""Told how many items were embedded by this run, and how many it will be."""


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """What a run did: `embedded` by it; `failed` jobs, `items` with vectors of the version now, `left` without.

    `is_complete`: it ended by itself, not by a stop; what came in its last moments is left to the next worker.
    """

    version: str
    embedded: int
    failed: int
    items: int
    left: int
    elapsed_s: float
    is_complete: bool


def reembed(
    home: Home,
    encoder: Encoder,
    *,
    stop: threading.Event | None = None,
    update: Update | None = None,
    clock: Clock = clock_module.SYSTEM,
) -> ReembedReport:
    """Embed what has no vectors of the encoder's version, the newest first, with what comes in meanwhile.

    Resumable: what has vectors is not embedded again, however the run before ended. A model or store that is broken is
    waited for. Raises BusyError when another worker of this version runs, and what the model or a store raises when it
    stays broken for EMBED_WAIT_S.
    """
    with version_lock(home, encoder.version), closing(VectorOutbox(home.outbox_file, clock)) as outbox:
        return _Run(home, encoder, outbox, stop or threading.Event(), clock).run(update)


class _Run:
    """One run; the version's lock is held."""

    def __init__(
        self, home: Home, encoder: Encoder, outbox: VectorOutbox, stop: threading.Event, clock: Clock
    ) -> None:
        self._home = home
        self._encoder = encoder
        self._version = encoder.version
        self._outbox = outbox
        self._stop = stop
        self._clock = clock
        self._embedded = 0
        self._moved_s = clock.monotonic_s()

    def run(self, update: Update | None) -> ReembedReport:
        started_s = self._clock.monotonic_s()
        self._outbox.reconcile_failed(embedding_version=self._version)
        is_complete = False
        while not (is_complete or self._stop.is_set()):
            found = enqueue_missing(self._home, self._outbox, self._version, is_worker=True)
            self._tell(update)
            is_complete = self._work(update) and found <= limits.CLAIM_JOBS
        if is_complete:
            delete_orphans(self._home, self._outbox, self._version)
        store = VectorStore(self._home)
        return ReembedReport(
            version=self._version,
            embedded=self._embedded,
            failed=self._outbox.counts(self._version).failed,
            items=store.count_items(self._version),
            left=missing_vectors(self._home, self._version).height,
            elapsed_s=self._clock.monotonic_s() - started_s,
            is_complete=is_complete,
        )

    def _work(self, update: Update | None) -> bool:
        """Work off the jobs that are there, also those that wait for another try; True when none is left.

        Ends after REEMBED_COMPARE_S, so that what came in meanwhile is looked for: it is the newest, and comes first.
        """
        compare_s = self._clock.monotonic_s() + limits.REEMBED_COMPARE_S
        while not self._stop.is_set():
            due = self._outbox.next_due(self._version)
            if due is None:
                return True
            now_s = self._clock.monotonic_s()
            if now_s >= compare_s:
                return False
            if due > self._clock.now():
                self._clock.sleep(limits.POLL_JOBS_S)
                continue
            self._embed(min(compare_s, now_s + limits.REEMBED_TELL_S))
            self._tell(update)
        return False

    def _embed(self, until_s: float) -> None:
        try:
            report = work_off(
                self._home,
                self._encoder,
                owner=f"reembed-{os.getpid()}",
                stop=self._stop,
                clock=self._clock,
                newest_first=True,
                until_s=until_s,
            )
        except (ModelError, StoreError, DamagedError) as error:
            if is_fault(error) or self._clock.monotonic_s() - self._moved_s > limits.EMBED_WAIT_S:
                raise
            return  # its jobs were given back, and are due again in a moment
        self._embedded += report.succeeded
        self._moved_s = self._clock.monotonic_s()

    def _tell(self, update: Update | None) -> None:
        if update is None:
            return
        counts = self._outbox.counts(self._version)
        update(self._embedded, self._embedded + counts.pending + counts.processing)
