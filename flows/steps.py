"""What Bytewax needs around our plain functions and logics: adapters only, no decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from headwater.flows.sessions import SessionConfig, SessionLogic, SessionState, session_key
from headwater.schemas import clock as clock_module
from headwater.schemas.events import Draft, Dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from typing import TypeGuard

    from headwater.flows.event_writer import Settler, Written

X = TypeVar("X")
"""Item of a sink."""


class _CallPartition(StatelessSinkPartition[X]):
    def __init__(self, write: Callable[[list[X]], None]) -> None:
        self._write = write

    def write_batch(self, items: list[X]) -> None:
        self._write(items)


class CallSink(DynamicSink[X]):
    """A sink that hands each batch to one function; one worker, so one writer."""

    def __init__(self, write: Callable[[list[X]], None]) -> None:
        """Remember the function."""
        self._write = write

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _CallPartition[X]:
        """Return the only partition."""
        del step_id, worker_index, worker_count
        return _CallPartition(self._write)


def drop_noise(item: Draft | Dropped) -> TypeGuard[Draft]:
    """Return whether an item is an event; the others are recorded and end here."""
    return isinstance(item, Draft)


def record_dropped(settler: Settler) -> CallSink[Draft | Dropped]:
    """Return the sink of lines without an event."""
    return CallSink(settler.record_dropped)


def enqueue(settler: Settler) -> CallSink[Written]:
    """Return the sink that asks for vectors and settles each batch."""
    return CallSink(settler.enqueue)


def key_by_session(draft: Draft) -> str:
    """Return the key of the draft's session."""
    return session_key(draft.event)


class _SessionWindow(StatefulBatchLogic[Draft, Draft, dict[str, Any]]):
    """Feeds one session's drafts through its logic, and lets an idle session go."""

    def __init__(self, logic: SessionLogic) -> None:
        self._logic = logic

    def on_batch(self, values: list[Draft]) -> tuple[Iterable[Draft], bool]:
        drafts = [self._logic.on_draft(draft) for draft in values]
        self._logic.heard(clock_module.SYSTEM.now())
        return drafts, StatefulBatchLogic.RETAIN

    def on_notify(self) -> tuple[Iterable[Draft], bool]:
        due = self.notify_at()
        return [], due is not None and clock_module.SYSTEM.now() >= due

    def on_eof(self) -> tuple[Iterable[Draft], bool]:
        return [], StatefulBatchLogic.RETAIN  # a stop is not an end: the session goes on after the restart

    def notify_at(self) -> datetime | None:
        return self._logic.idle_at()

    def snapshot(self) -> dict[str, Any]:
        return self._logic.snapshot()


def window_by_session(resume_state: dict[str, Any] | None) -> _SessionWindow:
    """Return the logic of one session, going on from a snapshot."""
    return _SessionWindow(SessionLogic(SessionConfig(), SessionState.from_plain(resume_state)))
