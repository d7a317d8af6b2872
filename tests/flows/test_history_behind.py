"""A history that lies behind all that was handed on, read by a bounded run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from order_stream import CONFIG, Stream, prompt

from headwater.flows.moments import Change, Ordered
from headwater.flows.project_memory import in_order
from headwater.schemas import limits

BOUNDED = replace(CONFIG, history_events=10, reads_behind=True)
LATER = CONFIG.horizon_s + 1


def behind(*changes: tuple[str, float, Change], told: int = 12) -> Stream:
    """Return a bounded stream that knows `first`, and to which a history later than its horizon was told."""
    stream = Stream(config=BOUNDED)
    stream.tell(prompt("first", 0))
    stream.end()
    assert stream.heard == ["first"]
    stream.restart(BOUNDED)
    stream.tell(*(prompt(f"e{n:02}", LATER + n) for n in reversed(range(told))))
    for id_, at_s, change in changes:
        stream.tell(prompt(id_, at_s), change=change)
    return stream


def test_a_history_behind_all_that_was_handed_on_is_read_from_the_table_and_not_the_project_anew() -> None:
    """Nothing of it is handed on before the end, and then all of it in order; the state does not hold it."""
    stream = behind(("e99", LATER + 99, Change.NEW), ("e03", LATER + 3, Change.CHANGED))
    stream.wait(timedelta(seconds=10))
    assert stream.heard == ["first"]
    assert stream.logic.snapshot()["waiting"] == []
    stream.end()
    assert stream.heard == ["first", *(f"e{n:02}" for n in range(12)), "e99"]
    assert (stream.table.built, stream.table.read, stream.logic.is_dirty) == (0, 0, False)
    stream.restart(BOUNDED)
    stream.tell(prompt("next", 2 * LATER + 99))
    stream.end()
    assert (stream.heard[-1], stream.table.built) == ("next", 0)


@pytest.mark.parametrize(
    "change",
    [
        ("late", -1.0, Change.NEW),  # before what was handed on
        ("late", 60.0, Change.NEW),  # in the time whose passing was handed on
        ("e03", -1.0, Change.CHANGED),  # went to another time
        ("first", LATER + 5, Change.CHANGED),
        ("e03", LATER + 3, Change.GONE),
        ("again", LATER + 50, Change.AGAIN),
    ],
)
def test_what_does_not_lie_behind_makes_the_project_dirty(change: tuple[str, float, Change]) -> None:
    """Whatever the history's events do that concerns what was handed on, the project is derived anew."""
    stream = behind(change)
    assert stream.logic.is_dirty
    stream.end()
    assert stream.table.built == 1
    assert stream.heard == [one.id for one in in_order(stream.table.events.values())]


def test_a_table_that_holds_another_history_makes_the_project_dirty() -> None:
    """What was counted and what the table has behind the last place must agree."""
    stream = behind()
    del stream.table.events["e05"]
    stream.end()
    assert (stream.table.built, stream.heard) == (
        1,
        [one.id for one in in_order(stream.table.events.values())],
    )


def test_a_bounded_run_derives_a_dirty_project_once_at_its_end() -> None:
    """However long it reads: what is derived while lines still come would have to be derived again."""
    stream = behind(("late", -1.0, Change.NEW))
    stream.wait(timedelta(seconds=2 * limits.REBUILD_WAIT_S))
    stream.tell(prompt("e50", LATER + 50))
    assert (stream.logic.is_dirty, stream.table.built) == (True, 0)
    stream.end()
    assert (stream.table.built, stream.logic.is_dirty) == (1, False)
    assert stream.heard == [one.id for one in in_order(stream.table.events.values())]


@pytest.mark.parametrize("told", [15, 16])
def test_a_long_history_is_read_from_the_table(told: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to BEHIND_EVENTS events are held as they were last told; of more none is, and the table gives them all."""
    monkeypatch.setattr(limits, "BEHIND_EVENTS", 15)
    stream = behind(told=told)
    changed = replace(prompt("e03", LATER + 3), content="told again")
    stream.tell(changed, change=Change.CHANGED)
    stream.end()
    assert stream.heard == ["first", *(f"e{n:02}" for n in range(told))]
    assert (stream.table.built, stream.table.read) == (0, int(told > 15))
    assert Ordered(changed) in stream.moments


def test_a_stopped_run_leaves_its_history_to_the_next() -> None:
    """A bounded run goes on with it; one that runs beside what comes derives the project anew."""
    stream = behind()
    stream.restart(BOUNDED)
    stream.tell(prompt("e50", LATER + 50))
    stream.end()
    assert (len(stream.heard), stream.heard[-1], stream.table.built) == (14, "e50", 0)
    stream = behind()
    stream.restart()
    stream.wait(timedelta(seconds=limits.REBUILD_QUIET_S + 1))
    assert (len(stream.heard), stream.table.built) == (13, 1)
