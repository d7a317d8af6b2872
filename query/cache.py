"""Answers kept in memory for a while: one cache a layer, the least recently used goes first.

A key holds every argument, the scope and the state of the tables that were read, so that what was written, changed or
forgotten since is never answered from here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.schemas import limits
from headwater.schemas.columns import EVENTS
from headwater.schemas.events import ItemKind
from headwater.schemas.memory_columns import EVENT_THREADS, MEMORIES, REVERSALS, SESSIONS
from headwater.storage.vectors import table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from headwater.query.stores import Stores
    from headwater.schemas.clock import Clock
    from headwater.schemas.config import CacheConfig

T = TypeVar("T")

_READ = (EVENTS, EVENT_THREADS, MEMORIES, REVERSALS, SESSIONS)
_EMBEDDED = (ItemKind.ENTRY, ItemKind.MEMORY, ItemKind.SESSION_SUMMARY)


class ProgressiveCache:
    """The answers of three layers. Safe to share between threads: two may do the same work, to the same end."""

    def __init__(self, config: CacheConfig, clock: Clock) -> None:
        """Begin empty; times are read from the clock's monotonic side."""
        self._layers = (
            _Layer(config.layer1_ttl, limits.CACHE_LAYER1),
            _Layer(config.layer2_ttl, limits.CACHE_LAYER2),
            _Layer(config.layer3_ttl, limits.CACHE_LAYER3),
        )
        self._clock = clock
        self._guard = threading.Lock()

    def get(
        self, layer: int, key: Hashable, make: Callable[[], T], is_kept: Callable[[T], bool] | None = None
    ) -> T:
        """Return what a layer (1 to 3) holds under a key, else what `make` makes, which is kept unless told not to."""
        kept = self._layers[layer - 1]
        with self._guard:
            held = kept.find(key, self._clock.monotonic_s())
        if held is not None:
            value: T = held[0]
            return value
        value = make()
        if is_kept is not None and not is_kept(value):
            return value
        with self._guard:
            kept.put(key, value, self._clock.monotonic_s())
        return value

    def sizes(self) -> tuple[int, int, int]:
        """Return how many answers each layer holds."""
        first, second, third = (len(layer.held) for layer in self._layers)
        return first, second, third


class _Layer:
    def __init__(self, ttl_ms: int, size: int) -> None:
        self._ttl_s = ttl_ms / 1000
        self._size = size
        self.held: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()

    def find(self, key: Hashable, now_s: float) -> tuple[Any] | None:
        found = self.held.get(key)
        if found is None:
            return None
        value, until_s = found
        if now_s >= until_s:
            del self.held[key]
            return None
        self.held.move_to_end(key)
        return (value,)

    def put(self, key: Hashable, value: object, now_s: float) -> None:
        if not self._ttl_s:
            return
        self.held[key] = (value, now_s + self._ttl_s)
        self.held.move_to_end(key)
        while len(self.held) > self._size:
            self.held.popitem(last=False)


def state_of(stores: Stores) -> tuple[Hashable, ...]:
    """Return what changes with every commit to a table that an answer is read from, without opening any.

    A commit is a new file in a table's folder of versions; its name is looked at, for two commits may bear one time.
    """
    if stores.lance is None:
        return ()
    folders = [stores.lance.folder / f"{table.name}.lance" for table in _READ]
    if stores.home is not None and stores.embedding_version is not None:
        names = [table_name(kind.value, stores.embedding_version) for kind in _EMBEDDED]
        folders += [stores.home.vectors / f"{name}.lance" for name in names]
    current = None if stores.current is None else stores.current.generation
    decided = stores.decided_stamp
    return (
        current,
        stores.embedding_version,
        decided,
        *(_versions(folder / "_versions") for folder in folders),
    )


def _versions(folder: Path) -> Hashable:
    try:
        names = [path.name for path in folder.iterdir()]
        inode = folder.stat().st_ino
    except OSError:
        return None  # there is no such table yet
    return (inode, len(names), min(names, default=""), max(names, default=""))
