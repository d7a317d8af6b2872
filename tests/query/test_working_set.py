from __future__ import annotations

from typing import Any

import pytest
from memory_rows import PROJECT, MemoryRows, minutes

from headwater.query.working_set import WorkingSetStore
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.config import WorkingSetConfig
from headwater.schemas.events import Kind

HERE = Scope(PROJECT)


def store(world: Any, **settings: float) -> WorkingSetStore:
    """Return the store with settings."""
    return WorkingSetStore(world.stores, WorkingSetConfig.model_validate(settings))


def ids(found: object) -> list[str]:
    """Return the ids of the members, without their prefix."""
    return [one.event_id.removeprefix("evt_") for one in found.members]  # type: ignore[attr-defined]


def test_empty_tables_give_an_empty_set(world: Any) -> None:
    """Before the flow has written anything the working set is empty, without an error."""
    found = store(world).get(HERE, minutes(0))
    assert (found.members, found.topics, found.last_activity) == ((), (), None)


def test_expiry_is_compared_as_time(world: Any, rows: MemoryRows) -> None:
    """A row leaves at the very microsecond of its expiry, on the same day, whatever the texts of times look like."""
    rows.member("a", hours=1)
    assert ids(store(world).get(HERE, minutes(59.99))) == ["a"]
    assert ids(store(world).get(HERE, minutes(60))) == []


def test_what_has_left_is_not_shown(world: Any, rows: MemoryRows) -> None:
    """A row with `left_at` is not active, though it has not expired."""
    rows.member("a", left_at=minutes(5), left_reason="consolidated")
    rows.member("b")
    assert ids(store(world).get(HERE, minutes(10))) == ["b"]


def test_relevance_falls_with_the_recency_of_now(world: Any, rows: MemoryRows) -> None:
    """Relevance is computed for now: after a half-life of 12 hours recency counts half."""
    rows.member("a", overlap=None, kind=Kind.RESPONSE)
    (now,) = store(world, min_relevance_score=0.0).get(HERE, minutes(0)).members
    (later,) = store(world, min_relevance_score=0.0).get(HERE, minutes(12 * 60)).members
    assert now.relevance == pytest.approx(1.0)
    assert later.relevance == pytest.approx((0.35 * 0.5 + 0.2) / 0.55)


def test_both_filters_of_relevance_filter(world: Any, rows: MemoryRows) -> None:
    """Rows below `min_relevance_score` are not returned; relevance is not the same for all."""
    rows.member("strong")
    rows.member("weak", kind=Kind.TOOL, overlap=0.0)
    assert ids(store(world).get(HERE, minutes(1))) == ["strong"]
    assert ids(store(world, min_relevance_score=0.0).get(HERE, minutes(1))) == ["strong", "weak"]


def test_order_is_relevance_then_newer(world: Any, rows: MemoryRows) -> None:
    """The most relevant come first, of equal ones the one added later; `max_events` bounds them."""
    rows.member("old", overlap=0.5, at=minutes(0), added_at=minutes(1))
    rows.member("new", overlap=0.5, at=minutes(0), added_at=minutes(2))
    rows.member("best", overlap=1.0)
    assert ids(store(world).get(HERE, minutes(3))) == ["best", "new", "old"]
    assert ids(store(world, max_events=2).get(HERE, minutes(3))) == ["best", "new"]


def test_last_activity_is_the_newest_event(world: Any, rows: MemoryRows) -> None:
    """The last activity is the time of the newest member, not that of the most relevant one."""
    rows.member("relevant", 0)
    rows.member("newer", 30, overlap=0.6)
    found = store(world).get(HERE, minutes(31))
    assert ids(found)[0] == "relevant"
    assert found.last_activity == minutes(30)


def test_topics_stand_by_weight(world: Any, rows: MemoryRows) -> None:
    """What more relevant events name stands first, each name once."""
    rows.member("a", topics=["retry", "retry"], files=["a.py"], entities=[])
    rows.member("b", topics=["cache", "retry"], files=["a.py", "b.py"], entities=["X"])
    found = store(world).get(HERE, minutes(1))
    assert found.topics == ("retry", "cache")
    assert (found.files, found.entities) == (("a.py", "b.py"), ("X",))


def test_what_it_is_about_is_bounded(world: Any, rows: MemoryRows) -> None:
    """Topics are at most ACTIVE_ITEMS, however many an event names."""
    rows.member("a", topics=[f"t{n}" for n in range(limits.ACTIVE_ITEMS + 9)])
    assert len(store(world).get(HERE, minutes(1)).topics) == limits.ACTIVE_ITEMS


def test_a_project_does_not_see_another(world: Any, rows: MemoryRows) -> None:
    """Every read names a project or all of them."""
    rows.member("a")
    rows.member("b", project="/p/it's")
    assert ids(store(world).get(HERE, minutes(1))) == ["a"]
    assert ids(store(world).get(Scope("/p/it's"), minutes(1))) == ["b"]
    assert sorted(ids(store(world).get(Scope(None), minutes(1)))) == ["a", "b"]
    assert ids(store(world).at(HERE, minutes(1))) == ids(store(world).as_of_last_event(HERE)) == ["a"]


def test_working_set_at_a_time_past(world: Any, rows: MemoryRows) -> None:
    """Time travel shows what was in then: what came later is not, what left or expired later is."""
    rows.member("gone", 0, left_at=minutes(20), left_reason="consolidated")
    rows.member("short", 0, hours=0.25)
    rows.member("late", 40)
    assert sorted(ids(store(world).at(HERE, minutes(10)))) == ["gone", "short"]
    assert ids(store(world).at(HERE, minutes(20))) == []
    assert ids(store(world).at(HERE, minutes(50))) == ["late"]


def test_as_of_the_last_event_no_time_passes(world: Any, rows: MemoryRows) -> None:
    """Relevance is that of the last turn, and what had expired by then is out."""
    rows.member("a", 0, hours=0.5)
    rows.member("b", 60, recency=0.9)
    (only,) = store(world).as_of_last_event(HERE).members
    assert only.event_id == "evt_b"
    assert only.relevance == pytest.approx(0.35 * 0.9 + 0.45 + 0.2 * 0.9)


def test_an_event_is_one_row_however_often_it_is_told(world: Any, rows: MemoryRows) -> None:
    """The same event told again replaces its row: duplicates cannot push others out."""
    for n in range(5):
        rows.member("a", n)
    rows.member("b")
    assert sorted(ids(store(world, max_events=2).get(HERE, minutes(6)))) == ["a", "b"]
