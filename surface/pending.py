"""Waiting until everything has its vectors: by whoever makes them now, or in this process when nobody does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headwater.schemas import clock, limits
from headwater.schemas.errors import BusyError, StoreError
from headwater.storage.locks import is_held
from headwater.storage.outbox import VectorOutbox
from headwater.storage.run_files import SERVER_LOCK

if TYPE_CHECKING:
    from headwater.schemas.jobs import JobCounts
    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home
    from headwater.surface.console import Progress

_POLL_S = 0.1
_TELL_S = 2.0  # of work between two looks at how far it is


def embed_pending(home: Home, progress: Progress) -> int:
    """Return how many items got vectors: by the running server or worker, or here when there is none.

    Jobs that wait for another try are waited for. Raises what the model or a store raises when it is broken as a
    whole, and StoreError when a running worker gets no further.
    """
    from headwater.storage.active import active_version

    waiting = _Waiting(home, active_version(home), progress)
    try:
        while waiting.go_on():
            clock.SYSTEM.sleep(_POLL_S)
        return waiting.done()
    finally:
        waiting.outbox.close()


class _Waiting:
    """How far the jobs of one version are since the wait began."""

    def __init__(self, home: Home, version: str, progress: Progress) -> None:
        from headwater.storage.worker_lock import version_lock

        self.outbox = VectorOutbox(home.outbox_file)
        self._home = home
        self._version = version
        self._progress = progress
        self._lock = version_lock(home, version)
        self._before = self.outbox.counts(version).done
        self._encoder: Encoder | None = None
        self._is_compared = False
        self._last: JobCounts | None = None
        self._moved_s = clock.SYSTEM.monotonic_s()

    def done(self) -> int:
        """Return how many jobs were done meanwhile."""
        return max(0, self.outbox.counts(self._version).done - self._before)

    def go_on(self) -> bool:
        """Work, when nobody else does, and tell how far it is; return whether there is anything left to wait for."""
        if not is_held(self._home.run / SERVER_LOCK) and self._lock.owner() is None:
            self._work()
        counts = self.outbox.counts(self._version)
        left = counts.pending + counts.processing
        self._progress.update(counts.done - self._before, counts.done - self._before + left)
        if self.outbox.next_due(self._version) is None:
            return False
        now_s = clock.SYSTEM.monotonic_s()
        if counts != self._last:
            self._last, self._moved_s = counts, now_s
        elif now_s - self._moved_s > limits.EMBED_WAIT_S:
            fix = "see: headwater vector status; what came in is found by its words"
            raise StoreError("embedding", f"the running worker got no further, {left:,} items wait", fix)
        return True

    def _work(self) -> None:
        """Embed for a moment what is due; another worker may be faster."""
        from headwater.flows.embed_run import work_off
        from headwater.flows.missing import enqueue_missing
        from headwater.storage.active import active_model
        from headwater.storage.embedder import load

        if not self._is_compared:
            enqueue_missing(self._home, self.outbox, self._version)
            self._is_compared = True
        due = self.outbox.next_due(self._version)
        if due is None or due > clock.SYSTEM.now():
            return
        if self._encoder is None:
            self._encoder = load(active_model(self._home))
        until_s = clock.SYSTEM.monotonic_s() + _TELL_S
        try:
            with self._lock:
                work_off(self._home, self._encoder, owner=f"ingest-{os.getpid()}", until_s=until_s)
        except BusyError:
            self._is_compared = False  # whoever came in between may be gone again before it is done
