"""Layer 0 as a Bytewax source: fixed shards, resume state is the cursor, watchfiles only wakes it.

Sealed lines come before those of the journal file of the same name. A flow that goes on from its snapshots has read
them there before they were sealed; one that begins, or whose register does not know them, reads them from the archive.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

from headwater.flows.watcher import Watcher, shard_of
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import StoreError
from headwater.storage import journal
from headwater.storage.faults import fault_point
from headwater.storage.journal import Cursor, RawLine, Read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater.schemas.clock import Clock
    from headwater.storage.archive import Archive, Segment

log = logging.getLogger(__name__)

# file name -> (offset, head, turn, base, origin) of its cursor: plain, so that old snapshots stay readable
Shard = dict[str, tuple[int, str, int, int, str]]


class Stop(Protocol):
    """What ends a source: an event, or several."""

    def is_set(self) -> bool:
        """Return whether it is time."""
        ...


@dataclass(slots=True)
class Wakes:
    """How often files were found changed: by watchfiles, and only by the rescan; and how many lines were read."""

    watch: int = 0
    rescan: int = 0
    lines: int = 0
    read_s: float | None = None  # when a line was last read, or first looked for, on the monotonic clock


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


class Scan:
    """The journal's files by shard: one look at the folder serves the shards, which all look at about the same time."""

    def __init__(self) -> None:
        """Look at the first call."""
        self._at_s: float | None = None
        self._sizes: list[dict[str, int]] = []

    def sizes(self, folder: Path, shard: int, now_s: float) -> dict[str, int]:
        """Return name -> size (bytes) of a shard's files, looked at no longer than SCAN_SHARED_S ago."""
        if self._at_s is None or now_s - self._at_s >= limits.SCAN_SHARED_S:
            self._sizes = [{} for _ in range(limits.SHARDS)]
            for name, size in sorted(journal.list_files(folder).items()):
                self._sizes[shard_of(name)][name] = size
            self._at_s = now_s
        return self._sizes[shard]


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Where and how to read. `until_idle` ends the source when every complete line has been read.

    `archive`: what is sealed; None: nothing. `is_settled` says whether the register knows the fates of a segment.
    """

    folder: Path
    stop: Stop
    rescan_s: float = limits.RESCAN_S
    pace_s: float = limits.READ_PACE_S
    until_idle: bool = False
    wakes: Wakes = field(default_factory=Wakes)
    cursors: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)  # files that may not be read, and why
    clock: Clock = clock_module.SYSTEM
    archive: Archive | None = None
    is_settled: Callable[[Segment], bool] = lambda _segment: True
    scan: Scan = field(default_factory=Scan)


class ShardReader:
    """One shard, without Bytewax: which files have something to read, and reading them."""

    def __init__(
        self, shard: int, config: SourceConfig, watcher: Watcher, pace: Pace, state: Shard | None
    ) -> None:
        """Go on from `state`; a scan of the folder comes first, for files that changed while nobody watched."""
        self._shard = shard
        self._config = config
        self._archive = config.archive
        self._watcher = watcher
        self._pace = pace
        self._cursors = {name: Cursor(*cursor) for name, cursor in (state or {}).items()}
        # names with something to read, in order -> only the rescan told so
        self._waiting: dict[str, bool] = {}
        if self._archive is not None:
            self._look_in(self._archive, fresh=state is None)
        config.cursors.update({name: at.offset - at.base for name, at in self._cursors.items()})
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
        lines_max = limits.READ_LINES_BOUNDED if self._config.until_idle else limits.READ_LINES
        size_bytes = 0
        while self._waiting and len(found) < lines_max and size_bytes < limits.READ_SHARD_BYTES:
            name = next(iter(self._waiting))
            by_rescan = self._waiting.pop(name)
            got = self._try_read(name)
            if got is None:
                continue
            self._cursors[name] = got.cursor
            self._config.cursors[name] = got.cursor.offset - got.cursor.base
            if got.more:
                self._waiting[name] = False
            if by_rescan and got.lines:  # a torn line is found again and again, and woke nobody
                self._config.wakes.rescan += 1
            found += got.lines
            size_bytes += sum(len(line.data) for line in got.lines)
        if found:
            self._config.wakes.lines += len(found)
            self._config.wakes.read_s = now_s
        fault_point("ingest.read")
        return found

    @property
    def pending(self) -> bool:
        """Whether a file is known to have more to read."""
        return bool(self._waiting)

    def state(self) -> Shard:
        """Return the cursors, a copy."""
        return {name: (at.offset, at.head, at.turn, at.base, at.origin) for name, at in self._cursors.items()}

    def _read(self, name: str, cursor: Cursor | None) -> Read:
        """Return the next lines of a name; without a cursor, its sealed lines have been read."""
        if self._archive is None:
            return journal.read(self._config.folder, name, cursor or Cursor())
        return self._archive.read(self._config.folder, name, cursor or self._archive.end(name))

    def _try_read(self, name: str) -> Read | None:
        """Return the next lines, None for a file that may not be read: the rescan comes back to it."""
        try:
            got = self._read(name, self._cursors.get(name))
        except StoreError as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            if name not in self._config.unreadable:
                log.warning("%s", error)
            self._config.unreadable[name] = str(error)
            return None
        self._config.unreadable.pop(name, None)
        return got

    def _look_in(self, archive: Archive, *, fresh: bool) -> None:
        """Note names with sealed lines to read: all in a flow without snapshots, else those it does not know."""
        for name in archive.names():
            if shard_of(name) != self._shard:
                continue
            cursor = self._cursors.get(name)
            if cursor is None and not (
                fresh or not all(map(self._config.is_settled, archive.segments(name)))
            ):
                continue
            self._cursors[name] = archive.placed(name, cursor or Cursor())
            if archive.has_more(name, self._cursors[name]):
                self._waiting[name] = False

    def _is_sealed(self, name: str) -> bool:
        return self._archive is not None and self._archive.has_more(name, self._cursors[name])

    def _look(self, now_s: float) -> None:
        """Note files that watchfiles named, and every `rescan_s` those that only a look at all sizes finds."""
        for name in self._watcher.take(self._shard):
            if name.endswith(".jsonl") and name != journal.CONTROL_NAME and self._waiting.get(name, True):
                self._waiting[name] = False
                self._config.wakes.watch += 1
        first = self._scanned_s is None
        if first:
            self._config.wakes.read_s = now_s
        if not first and now_s - (self._scanned_s or 0.0) < self._config.rescan_s:
            return
        self._scanned_s = now_s
        sizes = self._config.scan.sizes(self._config.folder, self._shard, now_s)
        for gone in self._cursors.keys() - sizes.keys():
            # a file that came just after the shared look is not gone
            if self._is_sealed(gone) or (self._config.folder / gone).exists():
                continue
            del self._cursors[gone]
            self._config.cursors.pop(gone, None)
            self._config.unreadable.pop(gone, None)
        for name, size in sizes.items():
            if name in self._waiting:
                continue
            cursor = self._cursors.get(name, Cursor())
            if size != cursor.offset - cursor.base:
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
