"""What Bytewax needs around the logics of memory: adapters only, no decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bytewax.operators import StatefulBatchLogic

from headwater.flows.moments import Forgotten, Moment, Rebuilt, Seen, TableChange
from headwater.flows.order_state import OrderConfig, OrderState
from headwater.flows.ordering import OrderLogic
from headwater.flows.remembering import Consolidation, Continuity
from headwater.flows.session_log import SessionLog
from headwater.flows.steps import CallSink
from headwater.flows.thread_log import ThreadLog
from headwater.flows.topic_windows import TopicWindows
from headwater.flows.topics import TopicLogic
from headwater.flows.working_set import WorkingSetLogic
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.memory_columns import (
    CONTINUITY_LOG,
    EVENT_THREADS,
    MEMORIES,
    REVERSALS,
    SESSIONS,
    THREADS,
    WORKING_SET,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headwater.flows.event_writer import Written
    from headwater.flows.memory_writer import MemoryWriter
    from headwater.flows.order_state import Builder
    from headwater.flows.project_memory import MemoryConfig
    from headwater.schemas.jobs import JobRequest

RETAIN, DISCARD = StatefulBatchLogic.RETAIN, StatefulBatchLogic.DISCARD


def tell_projects(written: Written) -> Iterator[tuple[str, Seen]]:
    """Yield (project, event) of a batch that is in the table."""
    for seen in written.seen:
        yield seen.event.project, seen


def with_project(keyed: tuple[str, Any]) -> tuple[str, tuple[str, Any]]:
    """Return a keyed item that says its key itself: the engine tells a logic neither its key nor that of a snapshot."""
    return keyed[0], keyed


def write_working_set(writer: MemoryWriter) -> CallSink[tuple[str, TableChange]]:
    """Return the sink of working sets."""
    return CallSink(writer.write)


def write_continuity(writer: MemoryWriter) -> CallSink[tuple[str, TableChange]]:
    """Return the sink of continuity logs."""
    return CallSink(writer.write)


def write_threads(writer: MemoryWriter) -> CallSink[tuple[str, TableChange]]:
    """Return the sink of threads and of the events in them."""
    return CallSink(writer.write)


def enqueue_summaries(writer: MemoryWriter) -> CallSink[JobRequest]:
    """Return the sink that asks for vectors of memories and sessions."""
    return CallSink(writer.enqueue)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step does with each moment of its project, and its state; `flush` returns the rows that were made."""

    take: Callable[[Any], Iterable[Any]]
    snapshot: Callable[[], dict[str, Any]]
    flush: Callable[[], Iterable[TableChange]] | None = None


class _Logic(StatefulBatchLogic[tuple[str, Any], Any, dict[str, Any]]):
    """A step of one project; it is made when its first moment says which project that is.

    A step that hands moments on names the project with each; rows say it themselves.
    """

    def __init__(
        self, make: Callable[[str, dict[str, Any] | None], Step], data: dict[str, Any] | None
    ) -> None:
        self._make = make
        self._project = "" if data is None else str(data["project"])
        self._step = None if data is None else make(self._project, data["state"])

    def on_batch(self, values: list[tuple[str, Any]]) -> tuple[Iterable[Any], bool]:
        if self._step is None:
            self._project = values[0][0]
            self._step = self._make(self._project, None)
        made: list[Any] = []
        is_over = False
        for _, moment in values:
            made += self._step.take(moment)
            is_over = isinstance(moment, Forgotten)
        if self._step.flush is None:
            return [(self._project, one) for one in made], is_over
        return [*made, *self._step.flush()], is_over

    def on_notify(self) -> tuple[Iterable[Any], bool]:
        return [], RETAIN

    def on_eof(self) -> tuple[Iterable[Any], bool]:
        return [], RETAIN

    def notify_at(self) -> datetime | None:
        return None

    def snapshot(self) -> dict[str, Any]:
        state = None if self._step is None else self._step.snapshot()
        return {"project": self._project, "state": state}


class _Order(StatefulBatchLogic[tuple[str, Any], tuple[str, Any], dict[str, Any]]):
    """Feeds what comes of one project through its order, and lets a silent project go."""

    def __init__(
        self,
        make: Callable[[str, dict[str, Any] | None], OrderLogic],
        data: dict[str, Any] | None,
        *,
        finish: Callable[[], bool],
    ) -> None:
        self._make = make
        self._finish = finish
        self._project = "" if data is None else str(data["project"])
        self._logic = None if data is None else make(self._project, data["state"])

    def on_batch(self, values: list[tuple[str, Any]]) -> tuple[Iterable[tuple[str, Any]], bool]:
        if self._logic is None:
            self._project = values[0][0]
            self._logic = self._make(self._project, None)
        self._logic.take([item for _, item in values], clock_module.SYSTEM.now())
        return [], RETAIN

    def on_notify(self) -> tuple[Iterable[tuple[str, Any]], bool]:
        if self._logic is None:
            return [], RETAIN
        now = clock_module.SYSTEM.now()
        return self._end(self._logic, self._logic.on_time(now), now)

    def on_eof(self) -> tuple[Iterable[tuple[str, Any]], bool]:
        if self._logic is None:
            return [], RETAIN
        if not self._finish():
            return [], RETAIN  # a stop is not an end: the project goes on after the restart
        return self._tell(self._logic.on_end(clock_module.SYSTEM.now())), RETAIN

    def notify_at(self) -> datetime | None:
        at = None if self._logic is None else self._logic.notify_at()
        return None if at is None else at.astimezone(UTC)  # the engine takes no other name of it

    def snapshot(self) -> dict[str, Any]:
        state = None if self._logic is None else self._logic.snapshot()
        return {"project": self._project, "state": state}

    def _tell(self, moments: Iterable[Moment]) -> list[tuple[str, Any]]:
        return [(self._project, moment) for moment in moments]

    def _end(
        self, logic: OrderLogic, moments: list[Moment], now: datetime
    ) -> tuple[Iterable[tuple[str, Any]], bool]:
        if logic.is_over(now):
            return self._tell([*moments, Forgotten()]), DISCARD
        return self._tell(moments), RETAIN


class MemorySteps:
    """The stateful steps of memory, by their names; each is what the engine builds a project's logic with."""

    def __init__(
        self,
        config: MemoryConfig,
        builder: Builder,
        *,
        finish: Callable[[], bool],
        is_clean: bool = True,
        is_bounded: bool = False,
    ) -> None:
        """`finish` is asked at the end: whether all that waits is handed on, and late projects are derived anew.

        `is_bounded`: the run reads what is there and ends. `is_clean`: the run before this one ended well, so that its
        tables hold what its snapshots know of.
        """
        self._is_clean = is_clean
        self._config = config
        self._order = OrderConfig(
            config.horizon_s,
            limits.HISTORY_EVENTS if is_bounded else limits.WAITING_EVENTS,
            reads_behind=is_bounded,
        )
        self._builder = builder
        self._finish = finish

    def order_by_project(self, data: dict[str, Any] | None) -> _Order:
        """Return the order of one project's events."""

        def make(project: str, state: dict[str, Any] | None) -> OrderLogic:
            known = OrderState.from_plain(state, clock_module.SYSTEM.now(), is_clean=self._is_clean)
            return OrderLogic(project, self._order, self._builder, known)

        return _Order(make, data, finish=self._finish)

    def key_by_topic(self, data: dict[str, Any] | None) -> _Logic:
        """Return the threads of one project."""

        def make(_project: str, state: dict[str, Any] | None) -> Step:
            logic = TopicLogic(self._config.threads, state)
            return Step(logic.take, logic.snapshot)

        return _Logic(make, data)

    def window_by_topic(self, data: dict[str, Any] | None) -> _Logic:
        """Return the windows of one project."""

        def make(project: str, state: dict[str, Any] | None) -> Step:
            logic = TopicWindows(project, self._config.windows, self._config.continuity, state)
            return Step(logic.take, logic.snapshot)

        return _Logic(make, data)

    def working_set(self, data: dict[str, Any] | None) -> _Logic:
        """Return the working set of one project."""

        def make(project: str, state: dict[str, Any] | None) -> Step:
            logic = WorkingSetLogic(project, self._config.working_set, state)
            return _rows_step(logic, {WORKING_SET.name: logic.rows})

        return _Logic(make, data)

    def continuity(self, data: dict[str, Any] | None) -> _Logic:
        """Return the continuity log of one project."""

        def make(_project: str, state: dict[str, Any] | None) -> Step:
            logic = Continuity(self._config.continuity, state)
            return _rows_step(logic, {CONTINUITY_LOG.name: logic.rows})

        return _Logic(make, data)

    def consolidate(self, data: dict[str, Any] | None) -> _Logic:
        """Return the memories of one project."""

        def make(_project: str, state: dict[str, Any] | None) -> Step:
            logic = Consolidation(self._config.consolidation, state)
            return _rows_step(logic, {MEMORIES.name: logic.memory_rows, REVERSALS.name: logic.reversal_rows})

        return _Logic(make, data)

    def follow_threads(self, data: dict[str, Any] | None) -> _Logic:
        """Return what the threads of one project are called."""

        def make(project: str, state: dict[str, Any] | None) -> Step:
            logic = ThreadLog(project, state)
            return _rows_step(logic, {THREADS.name: logic.thread_rows, EVENT_THREADS.name: logic.event_rows})

        return _Logic(make, data)

    def summarise_sessions(self, data: dict[str, Any] | None) -> _Logic:
        """Return the sessions of one project."""

        def make(project: str, state: dict[str, Any] | None) -> Step:
            logic = SessionLog(project, self._config.sessions, state)
            return _rows_step(logic, {SESSIONS.name: logic.rows})

        return _Logic(make, data)


def _rows_step(logic: Any, rows: dict[str, Callable[[], list[dict[str, Any]]]]) -> Step:
    """Return a step that takes moments in and hands on the rows that they made, by table."""

    def take(moment: Any) -> list[TableChange]:
        logic.take(moment)
        if not isinstance(moment, Rebuilt):
            return []
        found = [moment.changes[table] for table in rows if table in moment.changes]
        return [one for one in found if one.rows or one.gone]

    def flush() -> list[TableChange]:
        made = [TableChange(table, tuple(given())) for table, given in rows.items()]
        return [one for one in made if one.rows]

    return Step(take, logic.snapshot, flush)
