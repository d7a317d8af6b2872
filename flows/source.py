"""Journal files as a Bytewax source: fixed shards, resume state is the cursor, watchfiles only wakes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

from headwater.flows.watcher import Watcher, shard_of
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.storage import journal
from headwater.storage.faults import fault_point
from headwater.storage.journal import Cursor, RawLine

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from headwater.schemas.clock import Clock

Shard = dict[
    str, tuple[int, str, int]
]  # file name -> (offset, head, turn): plain, so that old snapshots stay readable


@dataclass(slots=True)
class Wakes:
    """How often files were found changed: by watchfiles, and only by the rescan."""

    watch: int = 0
    rescan: int = 0


@dataclass(slots=True)
class Pace:
    """Reads of all shards happen on one beat, so that they share a commit."""

    every_s: float
    beat_s: float = -1e9

    def may_read(self, now_s: float) -> bool:
        """Return whether a shard may read now: in a running beat, or when the last one is long enough ago."""
        since_s = now_s - self.beat_s
        if since_s >= self.every_s:
            self.beat_s = now_s
            return True
        return since_s < limits.TICK_S


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Where and how to read. `until_idle` ends the source when every complete line has been read."""

    folder: Path
    stop: threading.Event
    rescan_s: float = limits.RESCAN_S
    pace_s: float = limits.READ_PACE_S
    until_idle: bool = False
    wakes: Wakes = field(default_factory=Wakes)
    cursors: dict[str, int] = field(default_factory=dict)
    clock: Clock = clock_module.SYSTEM


class ShardReader:
    """One shard, without Bytewax: which files have something to read, and reading them."""

    def __init__(
        self, shard: int, config: SourceConfig, watcher: Watcher, pace: Pace, state: Shard | None
    ) -> None:
        """Go on from `state`; a scan of the folder comes first, for files that changed while nobody watched."""
        self._shard = shard
        self._config = config
        self._watcher = watcher
        self._pace = pace
        self._cursors = {name: Cursor(*cursor) for name, cursor in (state or {}).items()}
        config.cursors.update({name: cursor.offset for name, cursor in self._cursors.items()})
        self._waiting: dict[
            str, bool
        ] = {}  # names with something to read, in order -> only the rescan told so
        self._scanned_s: float | None = None

    def lines(self) -> list[RawLine]:
        """Return the next lines, none when there is nothing to read now.

        Raises StopIteration on stop, and when all is read in a bounded run.
        """
        if self._config.stop.is_set():
            raise StopIteration
        now_s = self._config.clock.monotonic_s()
        self._look(now_s)
        if not self._waiting:
            if self._config.until_idle:
                raise StopIteration
            return []
        if not self._config.until_idle and not self._pace.may_read(now_s):
            return []
        found: list[RawLine] = []
        while self._waiting and len(found) < limits.READ_LINES:
            name = next(iter(self._waiting))
            by_rescan = self._waiting.pop(name)
            got = journal.read(self._config.folder, name, self._cursors.get(name, Cursor()))
            self._cursors[name] = got.cursor
            self._config.cursors[name] = got.cursor.offset
            if got.more:
                self._waiting[name] = False
            if by_rescan and got.lines:  # a torn line is found again and again, and woke nobody
                self._config.wakes.rescan += 1
            found += got.lines
        fault_point("ingest.read")
        return found

    @property
    def pending(self) -> bool:
        """Whether a file is known to have more to read."""
        return bool(self._waiting)

    def state(self) -> Shard:
        """Return the cursors, a copy."""
        return {name: (cursor.offset, cursor.head, cursor.turn) for name, cursor in self._cursors.items()}

    def _look(self, now_s: float) -> None:
        """Note files that watchfiles named, and every `rescan_s` those that only a look at all sizes finds."""
        for name in self._watcher.take(self._shard):
            if name.endswith(".jsonl") and name != journal.CONTROL_NAME and self._waiting.get(name, True):
                self._waiting[name] = False
                self._config.wakes.watch += 1
        first = self._scanned_s is None
        if not first and now_s - (self._scanned_s or 0.0) < self._config.rescan_s:
            return
        self._scanned_s = now_s
        sizes = journal.list_files(self._config.folder)
        for gone in self._cursors.keys() - sizes.keys():
            del self._cursors[gone]
            self._config.cursors.pop(gone, None)
        for name, size in sorted(sizes.items()):
            if shard_of(name) != self._shard or name in self._waiting:
                continue
            if size != self._cursors.get(name, Cursor()).offset:
                self._waiting[name] = not first


class _ShardPartition(StatefulSourcePartition[RawLine, Shard]):
    def __init__(self, reader: ShardReader, config: SourceConfig) -> None:
        self._reader = reader
        self._clock = config.clock
        self._busy = False
        self._quiet_s = 0.0

    def next_batch(self) -> list[RawLine]:
        lines = self._reader.lines()
        self._busy = bool(lines)
        return lines

    def next_awake(self) -> datetime | None:
        if self._busy and self._reader.pending:
            return None
        # Bytewax compares with the machine's clock, whichever one the rest of the flow goes by
        return clock_module.SYSTEM.now() + timedelta(seconds=self.next_tick_s())

    def next_tick_s(self) -> float:
        """Return how long to wait before the next look: longer when nothing came for a while."""
        tick_s = limits.TICK_IDLE_S if self._quiet_s >= limits.QUIET_S else limits.TICK_S
        self._quiet_s = 0.0 if self._busy or self._reader.pending else self._quiet_s + tick_s
        return tick_s

    def snapshot(self) -> Shard:
        return self._reader.state()


class JournalSource(FixedPartitionedSource[RawLine, Shard]):
    """All journal files of a home, in SHARDS parts."""

    def __init__(self, config: SourceConfig, watcher: Watcher) -> None:
        """Remember what to read; the watcher must have been started."""
        self._config = config
        self._watcher = watcher
        self._pace = Pace(config.pace_s)

    def list_parts(self) -> list[str]:
        """Return the shard names."""
        return [f"shard-{n:03}" for n in range(limits.SHARDS)]

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> _ShardPartition:
        """Return the reader of one shard, going on from its cursors."""
        del step_id
        shard = int(for_part.removeprefix("shard-"))
        return _ShardPartition(
            ShardReader(shard, self._config, self._watcher, self._pace, resume_state), self._config
        )
