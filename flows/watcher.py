"""One thread per process that tells which journal files changed: a hint, for the rescan finds what it missed."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from zlib import crc32

from watchfiles import watch

from headwater.schemas import limits
from headwater.schemas.errors import StoreError


def shard_of(name: str) -> int:
    """Return the shard of a journal file; the same for ever, for recovery keys are shard names."""
    return crc32(os.fsencode(name)) % limits.SHARDS


class Watcher:
    """Marks changed file names per shard; each shard takes its own."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder; it must exist."""
        self._folder = folder
        self._ended = threading.Event()
        self._ready = threading.Event()
        self._guard = threading.Lock()
        self._changed: list[set[str]] = [set() for _ in range(limits.SHARDS)]
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Start watching; returns when changes are seen from now on, so that a scan after it misses nothing."""
        self._thread.start()
        self._ready.wait(timeout=limits.READY_S)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join(timeout=limits.STOP_S)

    def take(self, shard: int) -> set[str]:
        """Return the names changed since the last call. Raises StoreError when the watcher has died."""
        if self._error is not None:
            fix = "raise fs.inotify.max_user_watches and max_user_instances, then start again"
            raise StoreError(
                f"watching {self._folder}", f"watchfiles ended: {self._error!r}", fix
            ) from self._error
        with self._guard:
            names, self._changed[shard] = self._changed[shard], set()
        return names

    def _run(self) -> None:
        try:
            for changes in watch(
                self._folder,
                watch_filter=None,  # the default filter would leave out folders named like ours
                step=limits.WATCH_STEP_MS,
                debounce=limits.WATCH_DEBOUNCE_MS,
                rust_timeout=200,
                yield_on_timeout=True,
                stop_event=self._ended,
                raise_interrupt=False,
                recursive=False,
            ):
                self._ready.set()
                names = {Path(path).name for _, path in changes}
                with self._guard:
                    for name in names:
                        self._changed[shard_of(name)].add(name)
        except BaseException as error:  # noqa: BLE001 - kept and raised again in `take`: a dead watcher must not be silent
            self._error = error
            self._ready.set()
