from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_stream import CONFIG, NOW, STEP, WAIT, Stream, Table, prompt
from project_events import AT, projects

from headwater.flows.moments import (
    Asked,
    ByHand,
    Change,
    Ordered,
    Passed,
    Seen,
)
from headwater.flows.order_state import OrderState
from headwater.flows.project_memory import in_order
from headwater.schemas import limits
from headwater.schemas.events import Event


def test_events_within_the_reorder_time_come_in_order() -> None:
    """What comes out of order within REORDER_S is put right and makes nothing dirty."""
    stream = Stream()
    stream.tell(prompt("b", 1.0))
    stream.tell(prompt("a", 0.5))
    assert stream.heard == []
    stream.wait(WAIT - STEP)
    assert stream.heard == []
    stream.wait(STEP)
    assert (stream.heard, stream.logic.is_dirty, stream.table.built) == (["a", "b"], False, 0)


def test_in_a_stream_without_a_pause_the_newest_still_waits_for_earlier_ones() -> None:
    """Events come four times a second, each with an earlier one 0.9 s behind it: nothing is late."""
    stream = Stream()
    for n in range(40):
        stream.tell(prompt(f"e{n:02}", n * 0.25))
        if n >= 4:
            stream.tell(prompt(f"late{n:02}", (n - 4) * 0.25 + 0.1))
        stream.wait(timedelta(seconds=0.25))
        assert not stream.logic.is_dirty
    stream.wait(2 * WAIT)
    assert stream.heard == [one.id for one in in_order(stream.table.events.values())]
    assert stream.table.built == 0


def test_a_late_event_makes_the_project_dirty_and_it_is_derived_anew() -> None:
    """An event from before what was handed on: quiet for REBUILD_QUIET_S, then all of it anew, in order, once."""
    stream = Stream()
    stream.tell(prompt("b", 100))
    stream.wait(WAIT)
    stream.tell(prompt("a", 0))
    assert stream.logic.is_dirty
    stream.tell(prompt("c", 200))
    stream.wait(timedelta(seconds=limits.REBUILD_QUIET_S - 1))
    assert stream.table.built == 0
    stream.wait(timedelta(seconds=1 + 3 * limits.REBUILD_LOOK_S))
    assert (stream.heard, stream.logic.is_dirty, stream.table.built) == (["a", "b", "c"], False, 1)


def test_an_import_is_waited_for_but_not_for_ever() -> None:
    """While late events keep coming nothing is built, until REBUILD_WAIT_S after the first."""
    stream = Stream()
    stream.tell(prompt("z", 1e6))
    stream.wait(WAIT)
    for n in range(int(limits.REBUILD_WAIT_S) - 2):
        stream.tell(prompt(f"e{n}", n))
        stream.wait(timedelta(seconds=1))
    assert stream.table.built == 0
    for n in range(4):
        stream.tell(prompt(f"f{n}", n))
        stream.wait(timedelta(seconds=1))
    assert stream.table.built >= 1


def test_what_comes_while_it_is_built_is_not_lost() -> None:
    """A later event is handed on after the build, an earlier or a changed one has the project built once more."""
    for then, again in ((prompt("d", 300), False), (prompt("0", -50), True)):
        stream = Stream()
        stream.tell(prompt("b", 100))
        stream.wait(WAIT)
        stream.table.slow = True
        stream.tell(prompt("a", 0))
        stream.wait(timedelta(seconds=limits.REBUILD_QUIET_S + 1))
        assert stream.table.built == 1
        stream.tell(then)
        stream.table.slow = False
        stream.wait(timedelta(seconds=10))
        wanted = [one.id for one in in_order(stream.table.events.values())]
        assert (stream.heard, stream.table.built) == (wanted, 1 + again)


def test_an_event_that_changed_is_replaced_while_it_waits_and_dirty_after() -> None:
    """Its call's result within the wait is no reason to derive anew; a transcript a day later is."""
    stream = Stream()
    one = prompt("a", 0)
    stream.tell(one)
    stream.tell(replace(one, content="changed"), change=Change.CHANGED)
    stream.wait(WAIT)
    assert [m.event.content for m in stream.moments if isinstance(m, Ordered)] == ["changed"]
    stream.tell(replace(one, content="changed"), change=Change.SAME)
    assert not stream.logic.is_dirty
    stream.tell(replace(one, content="changed again"), change=Change.CHANGED)
    assert stream.logic.is_dirty


def test_an_event_that_went_to_another_project_is_gone() -> None:
    """The project that had it is derived anew without it."""
    stream = Stream()
    stream.tell(prompt("a", 0), prompt("b", 1))
    stream.wait(WAIT)
    gone = stream.table.events.pop("a")
    stream.logic.take([Seen(gone, Change.GONE)], stream.now)
    stream.wait(timedelta(seconds=10))
    assert stream.heard == ["b"]


def test_a_project_that_is_new_here_but_not_in_the_table_is_derived_anew() -> None:
    """A lost snapshot, or a project that had been silent for so long that it was let go."""
    table = Table()
    table.events = {"old": prompt("old", -1e6)}
    stream = Stream(table)
    stream.tell(prompt("new", 0))
    assert stream.logic.is_dirty
    stream.wait(timedelta(seconds=10))
    assert stream.heard == ["old", "new"]


def test_a_dirty_project_stays_so_over_a_restart() -> None:
    """A build that was interrupted is begun anew."""
    stream = Stream()
    stream.tell(prompt("b", 100))
    stream.wait(WAIT)
    stream.table.slow = True
    stream.tell(prompt("a", 0))
    stream.wait(timedelta(seconds=5))
    stream.table.begun.clear()
    stream.restart()
    stream.table.slow = False
    stream.wait(timedelta(seconds=10))
    assert stream.heard == ["a", "b"]


def test_a_table_that_differs_after_a_crash_is_noticed() -> None:
    """What a killed run wrote or deleted without handing it on: the project is derived anew, else it goes on."""
    for spoil in (None, "lost", "more"):
        stream = Stream()
        stream.tell(prompt("a", 0), prompt("b", 1))
        stream.wait(WAIT)
        if spoil == "lost":
            del stream.table.events["a"]
        elif spoil == "more":
            stream.table.events["c"] = prompt("c", 0.5)
        stream.restart()
        stream.wait(timedelta(seconds=10))
        assert stream.heard == [one.id for one in in_order(stream.table.events.values())]
        assert stream.table.built == (spoil is not None)


def test_time_is_handed_on_while_it_can_make_something_and_then_the_state_goes() -> None:
    """Every TIMER_S up to the horizon and never behind it; after PROJECT_FORGET_S without an event the state may go."""
    stream = Stream()
    stream.now = AT + timedelta(seconds=1)
    stream.tell(prompt("a", 0))
    stream.wait(timedelta(seconds=CONFIG.horizon_s + 3 * limits.TIMER_S))
    passed = [m.at for m in stream.moments if isinstance(m, Passed)]
    gaps = {(b - a).total_seconds() for a, b in pairwise(passed)}
    assert gaps == {limits.TIMER_S}
    assert passed[-1] == AT + timedelta(seconds=CONFIG.horizon_s)
    assert not stream.logic.is_over(stream.now)
    stream.wait(timedelta(seconds=limits.PROJECT_FORGET_S))
    assert [m.at for m in stream.moments if isinstance(m, Passed)] == passed
    assert stream.logic.is_over(stream.now)


@pytest.mark.parametrize("history", [limits.HISTORY_EVENTS, limits.WAITING_EVENTS])
def test_a_history_is_derived_as_a_whole(history: int) -> None:
    """HISTORY_EVENTS waiting in a bounded run, or WAITING_EVENTS in a live one, are derived together, once."""
    stream = Stream(config=replace(CONFIG, history_events=history))
    for start in range(0, history, 100):
        assert not stream.logic.is_dirty
        stream.tell(*(prompt(f"e{n:05}", n) for n in range(start, start + 100)))
    assert stream.logic.is_dirty
    stream.wait(timedelta(seconds=limits.REBUILD_QUIET_S + 1))
    assert (len(stream.heard), stream.table.built) == (history, 1)


def test_what_changed_while_it_waits_may_not_go_before_what_was_handed_on() -> None:
    """A merged event that is now earlier than the last one handed on is late, though it waited."""
    stream = Stream()
    stream.tell(prompt("a", 10))
    stream.wait(WAIT)
    stream.tell(prompt("b", 11))
    stream.tell(prompt("b", 5), change=Change.CHANGED)
    stream.wait(timedelta(seconds=limits.REBUILD_QUIET_S + 3))
    assert (stream.heard, stream.table.built) == (["b", "a"], 1)


def test_a_request_to_consolidate_has_its_place_in_the_order() -> None:
    """It comes after the events of its time and before later ones; one from the past makes the project dirty."""
    stream = Stream()
    at = AT + timedelta(seconds=50)
    stream.tell(prompt("a", 0), prompt("b", 100))
    stream.logic.take([Asked(at)], stream.now)
    stream.wait(WAIT)
    kinds = [m.event.id if isinstance(m, Ordered) else type(m).__name__ for m in stream.moments]
    assert kinds[:3] == ["a", "ByHand", "b"]
    assert ByHand(at) in stream.moments
    stream.logic.take([Asked(at)], stream.now)
    assert stream.logic.is_dirty


@given(projects(), st.data())
@settings(max_examples=200, deadline=None)
def test_any_deliveries_end_in_the_order_of_the_whole(events: list[Event], data: st.DataObject) -> None:
    """Late, repeated, reordered, with waits and restarts: the steps behind hear all events, in order, each once."""
    order = data.draw(st.permutations(events))
    stream = Stream()
    for one in order:
        stream.tell(one)
        if data.draw(st.booleans()):
            stream.tell(one, change=Change.SAME)
        if data.draw(st.integers(0, 3)) == 0:
            stream.wait(timedelta(seconds=data.draw(st.sampled_from([0.5, 2.5, 70]))))
        if data.draw(st.integers(0, 5)) == 0:
            stream.restart()
    stream.wait(timedelta(seconds=2 * limits.REBUILD_WAIT_S))
    assert stream.heard == [one.id for one in in_order(events)]


def test_an_unknown_snapshot_is_dirty() -> None:
    """What a snapshot of another version meant is not guessed at: the project is derived anew."""
    assert OrderState.from_plain({"v": 9, "dirty": False}, NOW).dirty_since == NOW


@pytest.mark.parametrize("change", [Change.NEW, Change.AGAIN])
def test_a_line_read_again_counts_like_a_new_one(change: Change) -> None:
    """After a crash, events whose lines had a fate are told again: the restored state has not seen them."""
    stream = Stream()
    stream.tell(prompt("b", 100), change=change)
    stream.wait(WAIT)
    stream.tell(prompt("a", 0), change=change)
    stream.wait(timedelta(seconds=10))
    assert stream.heard == ["a", "b"]
