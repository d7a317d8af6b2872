"""Fault points: named places where a test can stop the process or make a call fail. Without a plan they do nothing.

In one process a test sets a plan with `planned`. A child process takes it from HEADWATER_FAULT=`name:n:action`, action
`kill` (SIGKILL to itself, as a crash would) or `full` (no space left), at the n-th time the place is passed.
"""

from __future__ import annotations

import errno
import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# every place there is, in the order a line passes them
POINTS = (
    "ingest.read",  # lines were read, nothing is known of them yet
    "ingest.intended",  # ids are noted, the table does not have them
    "ingest.added",  # the table has new rows
    "ingest.upserted",  # the table has changed rows
    "ingest.enqueued",  # jobs are in the outbox
    "ingest.settled",  # fates are on record, the snapshot is not written
    "ingest.quarantined",  # the quarantine file has the line, its fate is not on record
    "memory.built",  # a project was derived anew, nothing of it is handed on
    "memory.added",  # a table of memory has new rows
    "memory.upserted",  # a table of memory has changed rows
    "memory.deleted",  # rows of a table of memory that a rebuild does not have are gone
    "memory.enqueued",  # jobs of summaries are in the outbox
    "table.maintained",  # between two steps of a table's upkeep
    "archive.written",  # sealed lines are in a temporary file, the journal file is untouched
    "archive.sealed",  # the journal file has another name, nobody writes to it any more
    "archive.published",  # the archive has the lines, and so has the journal
    "archive.verified",  # they were compared
    "archive.removed",  # the archive alone has them
    "archive.exported",  # a day of a table is published
    "reprocess.built",  # a new generation is complete, the old one is current
    "reprocess.switched",  # the new one is current, the old ones are not cleared away
    "embed.claimed",  # jobs are leased
    "embed.encoded",  # vectors exist in memory
    "embed.written",  # vectors are in their table, the jobs are not done
    "embed.trimmed",  # surplus chunks are gone, the jobs are not done
)


class SimulatedCrash(BaseException):
    """What a test raises to end a flow as abruptly as one process can; nothing of ours catches it."""


@dataclass(slots=True)
class Plan:
    """Fail at the `n`-th pass (from 1) of a point; `passed` counts the passes of every point."""

    point: str
    n: int
    action: str = "crash"
    passed: dict[str, int] = field(default_factory=dict)
    fired: bool = False

    def __post_init__(self) -> None:
        """Refuse a place that does not exist: a test that never fires proves nothing."""
        if self.point not in POINTS:
            raise ValueError(f"fault plan: wanted one of {POINTS}, got {self.point!r}")


def _from_environment() -> Plan | None:
    text = os.environ.get("HEADWATER_FAULT")
    if not text:
        return None
    point, n, action = text.split(":")
    return Plan(point, int(n), action)


_plan: Plan | None = _from_environment()


@contextmanager
def planned(plan: Plan) -> Iterator[Plan]:
    """Let the plan act inside the block. One plan per process at a time."""
    global _plan
    before, _plan = _plan, plan
    try:
        yield plan
    finally:
        _plan = before


def fault_point(point: str) -> None:
    """Pass a named place: nothing happens unless a plan says so. Raises SimulatedCrash or OSError then."""
    plan = _plan
    if plan is None:
        return
    plan.passed[point] = plan.passed.get(point, 0) + 1
    if plan.fired or point != plan.point or plan.passed[point] != plan.n:
        return
    plan.fired = True
    if plan.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if plan.action == "full":
        raise OSError(errno.ENOSPC, "no space left on device (planned)")
    raise SimulatedCrash(point)
