from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from project_events import AT, event, projects, story, turn

from headwater.flows.project_memory import Derived, MemoryConfig, ProjectLogic, derive, in_order
from headwater.schemas.continuity import TransitionType
from headwater.schemas.events import Event, Kind
from headwater.schemas.memory_columns import MEMORY_TABLES

CONFIG = MemoryConfig()
BORDERS = (Kind.SESSION_START, Kind.SESSION_END)


def whole(events: list[Event]) -> Derived:
    """Return all that events make, with a month of silence after them."""
    until = events[-1].at + timedelta(days=30) if events else AT
    return derive("/p", events, CONFIG, until=until)


@given(projects())
@settings(max_examples=150, deadline=None)
def test_each_event_of_a_turn_is_in_exactly_one_thread(events: list[Event]) -> None:
    """Everything but the start and end of sessions is assigned, once."""
    derived = whole(events)
    assigned = [one.id for item in derived.assigned for one in item.events]
    assert sorted(assigned) == sorted(one.id for one in events if one.kind not in BORDERS)
    for item in derived.assigned:
        assert len({(one.session_id, one.turn_id) for one in item.events}) == 1


@given(projects())
@settings(max_examples=150, deadline=None)
def test_each_event_of_a_window_is_a_source_of_exactly_one_memory(events: list[Event]) -> None:
    """Nothing is remembered twice, nothing of a window is lost, and what is left over still waits."""
    logic = ProjectLogic("/p", CONFIG)
    derived = Derived()
    for one in events:
        derived.add(logic.on_event(one))
    derived.add(logic.on_time(AT + timedelta(days=4000)))
    sources = [id_ for memory in derived.last_memories().values() for id_ in memory.source_events]
    windowed = [piece.id for window in derived.windows for piece in window.pieces]
    waiting = [
        piece[0] for window in logic.windows.snapshot()["windows"].values() for piece in window["pieces"]
    ]  # with too little in it a window stays open
    assert sorted(sources) == sorted(windowed)
    assert sorted(windowed + waiting) == sorted(derived.threads())
    assert all(0.0 <= memory.confidence <= 1.0 for memory in derived.memories)
    assert all(len(memory.summary) <= 1000 for memory in derived.memories)


@given(projects(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_order_and_repeats_of_the_input_do_not_matter(events: list[Event], random: object) -> None:
    """Late, repeated and shuffled deliveries, sorted, give the same."""
    mixed = [*events, *events[::2]]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert in_order(mixed) == in_order(events)
    assert whole(mixed and in_order(mixed)) == whole(events)


@given(projects(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_stopped_and_restored_stream_with_timers_gives_the_same_as_the_whole(
    events: list[Event], data: st.DataObject
) -> None:
    """Snapshots through JSON at any place, and timers at any time between two events, change nothing."""
    logic = ProjectLogic("/p", CONFIG)
    derived = Derived()
    for place, one in enumerate(events):
        if data.draw(st.booleans()):
            logic = ProjectLogic("/p", CONFIG, json.loads(json.dumps(logic.snapshot())))
        if place and data.draw(st.booleans()):
            between = (one.at - events[place - 1].at) * data.draw(st.sampled_from([0.0, 0.3, 0.9]))
            derived.add(logic.on_time(events[place - 1].at + between))
        derived.add(logic.on_event(one))
    derived.add(logic.on_time(events[-1].at + timedelta(days=30) if events else AT))
    assert derived == whole(events)


Stored = dict[str, dict[str, dict[str, Any]]]


def store(logic: ProjectLogic, stored: Stored) -> None:
    """Put the rows that were made or changed into tables, by their keys."""
    rows = logic.rows()
    for definition in MEMORY_TABLES:
        for row in rows[definition.name]:
            stored.setdefault(definition.name, {})[row[definition.key]] = row


@given(projects(), st.data())
@settings(max_examples=150, deadline=None)
def test_rows_are_the_same_however_often_they_are_stored(events: list[Event], data: st.DataObject) -> None:
    """Rows written as they come, with restarts and timers in between, are in the end those of one write."""
    until = events[-1].at + timedelta(days=30) if events else AT
    whole_logic, whole_rows = ProjectLogic("/p", CONFIG), Stored()
    for one in events:
        whole_logic.on_event(one)
    whole_logic.on_time(until)
    store(whole_logic, whole_rows)
    logic, stored = ProjectLogic("/p", CONFIG), Stored()
    for place, one in enumerate(events):
        if place and data.draw(st.booleans()):
            between = (one.at - events[place - 1].at) * data.draw(st.sampled_from([0.0, 0.3, 0.9]))
            logic.on_time(events[place - 1].at + between)
        logic.on_event(one)
        if data.draw(st.booleans()):
            store(logic, stored)
            logic = ProjectLogic("/p", CONFIG, json.loads(json.dumps(logic.snapshot())))
    logic.on_time(until)
    store(logic, stored)
    assert stored == whole_rows


@given(projects())
@settings(max_examples=50, deadline=None)
def test_a_timer_at_each_due_time_gives_the_same(events: list[Event]) -> None:
    """Waking exactly when something is due brings it forward and makes nothing else."""
    logic = ProjectLogic("/p", CONFIG)
    derived = Derived()

    def wake_until(now: datetime) -> None:
        while (due := logic.due_at()) is not None and due <= now:
            derived.add(logic.on_time(due))

    for one in events:
        wake_until(one.at)
        derived.add(logic.on_event(one))
    if events:
        wake_until(events[-1].at + timedelta(days=30))
    assert derived == whole(events)


def test_the_story_live_is_the_story_as_a_whole() -> None:
    """A real mix of sessions, restarted at each event, gives the same threads, log and memories."""
    events = story()
    logic = ProjectLogic(events[0].project, CONFIG)
    derived = Derived()
    for one in events:
        logic = ProjectLogic(events[0].project, CONFIG, json.loads(json.dumps(logic.snapshot())))
        derived.add(logic.on_event(one))
    assert derived == derive(events[0].project, events, CONFIG)
    assert 6 <= len(set(derived.threads().values())) <= 16


def test_unrelated_subjects_are_not_one_memory() -> None:
    """Work on several subjects makes a memory for each, not one of everything."""
    derived = whole(story())
    memories = derived.last_memories().values()
    assert len({memory.thread_id for memory in memories}) >= 6
    assert max(len(memory.source_events) for memory in memories) < 30
    assert not any(memory.confidence == 1.0 for memory in memories)


def test_no_event_is_repeated_in_the_memories_of_several_subjects() -> None:
    """An event with many topics is the source of one memory."""
    derived = whole(story())
    sources = [id_ for memory in derived.last_memories().values() for id_ in memory.source_events]
    assert len(sources) == len(set(sources))


def test_too_little_is_kept_until_more_comes() -> None:
    """Two events make no memory and are not dropped: with a third, days later, all three are its sources."""
    say = "the webhook worker must retry each delivery five times with jitter"
    first = [
        event("p1", Kind.PROMPT, say, turn="t1"),
        event("r1", Kind.RESPONSE, "webhook retry delivery jitter planned", at_s=60, turn="t1"),
    ]
    assert not whole(first).memories
    again = [
        event("p2", Kind.PROMPT, "go on", at_s=200_000, turn="t2"),
        event("r2", Kind.RESPONSE, "webhook delivery retries with jitter done", at_s=200_060, turn="t2"),
    ]
    (memory,) = whole([*first, *again]).last_memories().values()
    assert memory.source_events == ("p1", "r1", "p2", "r2")


def test_idle_consolidation_comes_at_its_time() -> None:
    """Half an hour after the last answer the memory is due, not at the next full hour."""
    logic = ProjectLogic("/p", CONFIG)
    for one in turn(
        "a", "retry the webhook worker with jitter and backoff", "webhook worker retries with jitter"
    ):
        logic.on_event(one)
    due = AT + timedelta(seconds=120 + 1800)
    assert logic.due_at() == due
    assert not logic.on_time(due - timedelta(seconds=1)).memories
    (memory,) = logic.on_time(due).memories
    assert (memory.trigger, memory.created_at) == ("idle", due)


def test_the_first_turn_has_no_transition() -> None:
    """Where nothing was before there is no score, and no break."""
    assert not whole(turn("a", "retry the webhook worker with jitter", "done")).transitions


def test_transitions_are_logged_once_per_turn() -> None:
    """Each turn but the first has one row, between contexts that follow each other, with both types."""
    derived = whole(story())
    turns = [one for one in derived.assigned if one.turn is not None]
    assert len(derived.transitions) == len(turns) - 1
    for before, after in zip(derived.transitions, derived.transitions[1:], strict=False):
        assert after.from_context_id == before.to_context_id
    assert {one.type for one in derived.transitions} == set(TransitionType)
