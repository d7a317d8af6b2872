"""The server's embedding thread: loads the model, then runs the embed flow whenever jobs are due."""

from __future__ import annotations

import os
import threading
from itertools import chain, repeat
from typing import TYPE_CHECKING

from headwater.schemas import clock, limits
from headwater.schemas.errors import HeadwaterError
from headwater.surface.workers import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home
    from headwater.surface.operations import Context


class EmbedLoop:
    """One thread; it ends with `stop`. What fails is logged, shown by `status`, and tried again."""

    def __init__(self, home: Home, context: Context, stop: threading.Event) -> None:
        """Remember what to work on."""
        self._home = home
        self._context = context
        self._stop = stop
        self._thread = threading.Thread(target=self._run, name="embed", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread to end its batch."""
        self._thread.join(timeout=limits.STOP_S)

    def _run(self) -> None:
        waits = _waits()
        while not self._stop.is_set():
            started_s = clock.SYSTEM.monotonic_s()
            try:
                self._work()
                continue  # another version became current
            except HeadwaterError as error:
                self._context.model_error = str(error)
                LOG.warning("embedding stopped, tried again soon: %s", error)
            except Exception as error:  # noqa: BLE001 - keyword search goes on; it is logged and shown
                self._context.model_error = f"{type(error).__name__}: {error}"
                LOG.exception("embedding stopped by a fault of ours, tried again soon")
            if clock.SYSTEM.monotonic_s() - started_s > limits.STEADY_S:
                waits = _waits()
            self._stop.wait(next(waits))

    def _work(self) -> None:
        """Embed with the version that is current until it is another one, or the server stops."""
        encoder = self._load()  # takes seconds; the encoder before it answers meanwhile
        self._context.encoder, self._context.model_error = encoder, None
        LOG.info("model %s is loaded", encoder.version)
        from headwater.flows.vector_worker import VectorWorker

        worker = VectorWorker(self._home, encoder, owner=f"server-{os.getpid()}", stop=self._stop)
        compared = False
        try:
            while not self._stop.is_set() and self._home.current().embedding_version == encoder.version:
                if worker.acquire():  # else another worker does it: `vector worker`, `ingest`
                    if not compared:
                        found = worker.compare()
                        if found:
                            LOG.info("%d items had no vector, or no job for one, and got a job", found)
                        compared = True
                    if worker.has_work():
                        for error in worker.process_all()["errors"]:
                            LOG.warning("vector job %s: %s", error["job_id"], error["error"])
                self._stop.wait(limits.POLL_JOBS_S)
        finally:
            worker.release()

    def _load(self) -> Encoder:
        from headwater.storage.active import active_model
        from headwater.storage.embedder import load

        return load(active_model(self._home))


def _waits() -> Iterator[float]:
    """Yield the waits between tries: growing, then the last one for as long as the server lives."""
    return chain(limits.RESTART_BACKOFF_S, repeat(limits.RESTART_BACKOFF_S[-1]))
