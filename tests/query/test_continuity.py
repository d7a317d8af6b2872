from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from memory_rows import PROJECT, MemoryRows, minutes

from headwater.query.continuity import ContinuityManager
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.config import ContinuitySection

HERE = Scope(PROJECT)


def manager(world: Any, **settings: float) -> ContinuityManager:
    """Return the manager with settings."""
    return ContinuityManager(world.stores, ContinuitySection.model_validate(settings))


def test_without_a_log_the_score_is_unknown(world: Any) -> None:
    """No figure is invented; `score_without_log` brings the usual one back."""
    assert manager(world).current(HERE, minutes(0)).score is None
    assert manager(world).current(HERE, minutes(0)).type is None
    assert manager(world, score_without_log=0.5).current(HERE, minutes(0)).score == 0.5


def test_score_is_the_mean_of_the_last_hour(world: Any, rows: MemoryRows) -> None:
    """Rows older than an hour do not count; the last transition is told all the same."""
    rows.turn("a", 0.1, 0)
    rows.turn("b", 0.4, 70, transition_type="topic_shift")
    rows.turn("c", 0.8, 90, transition_type="break")
    found = manager(world).current(HERE, minutes(100))
    assert found.score == pytest.approx(0.6)
    assert (found.type, found.at) == ("break", minutes(90))
    edge = minutes(90) + timedelta(seconds=limits.CONTINUITY_WINDOW_S)
    assert manager(world).current(HERE, edge).score is None
    later = manager(world).current(HERE, minutes(1000))
    assert (later.score, later.type) == (None, "break")


def test_the_mean_mixes_no_projects(world: Any, rows: MemoryRows) -> None:
    """The score of a project is that of its own log."""
    rows.turn("a", 0.2, 0)
    rows.turn("b", 0.9, 0, project="/p/two")
    assert manager(world).current(HERE, minutes(1)).score == pytest.approx(0.2)
    assert manager(world).current(Scope(None), minutes(1)).score == pytest.approx(0.55)


def test_as_of_the_last_turn_no_time_passes(world: Any, rows: MemoryRows) -> None:
    """For what is told to an agent the hour ends with the last turn, so that the figure stays what it is."""
    rows.turn("a", 0.4, 0)
    rows.turn("b", 0.8, 59)
    assert manager(world).as_of_last_event(HERE).score == pytest.approx(0.6)
    assert manager(world).as_of_last_event(Scope("/p/none")).score is None


def test_log_since_a_time(world: Any, rows: MemoryRows) -> None:
    """The log is newest first, with the parts of each score, from a time on."""
    rows.turn("a", 0.4, 0)
    rows.turn("b", 0.8, 59)
    assert [row.id for row in manager(world).since(HERE)] == ["log_b", "log_a"]
    (row,) = manager(world).since(HERE, minutes(59))
    assert (row.score, row.topics, row.files, row.time) == (0.8, 0.8, None, 1.0)


def test_log_is_shown_in_bounds(world: Any, rows: MemoryRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most CONTINUITY_ROWS rows come at once, the newest."""
    monkeypatch.setattr(limits, "CONTINUITY_ROWS", 2)
    for n in range(4):
        rows.turn(f"t{n}", 0.5, n)
    assert [row.id for row in manager(world).since(HERE)] == ["log_t3", "log_t2"]
