"""Session summaries: one row a session, told when it ends or falls silent."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from project_events import AT, event, turn

from headwater.flows.project_memory import MemoryConfig, ProjectLogic
from headwater.schemas import limits
from headwater.schemas.events import Event, Kind
from headwater.schemas.memory_columns import SESSIONS

DAY_S = 86_400.0


def told(events: list[Event], until_s: float = 30 * DAY_S) -> list[dict[str, Any]]:
    """Return the rows of sessions that events and the time after them tell, each as it was last."""
    logic = ProjectLogic("/p", MemoryConfig())
    for one in events:
        logic.on_event(one)
    logic.on_time(AT + timedelta(seconds=until_s))
    rows = {row["id"]: row for row in logic.rows()[SESSIONS.name]}
    return sorted(rows.values(), key=lambda row: row["first_at"])


def test_a_silent_session_is_told_after_half_an_hour() -> None:
    """No end comes: at 30 minutes of silence there is one row, not before."""
    events = turn("a", "move the tile cache to disk", "tiles now lie under var/tiles with lru eviction")
    assert told(events, until_s=120 + 1799) == []
    (row,) = told(events, until_s=120 + 1800)
    assert (row["ended_by"], row["prompts"], row["events"]) == ("idle", 1, 3)
    assert "lru eviction" in row["summary"]
    assert row["last_at"] == AT + timedelta(seconds=120)


def test_an_end_tells_it_at_once_and_more_tells_it_again() -> None:
    """A session that ended and goes on has one row still, of all of it."""
    end = event("end", Kind.SESSION_END, at_s=300, turn=None)
    first = [
        *turn("a", "move the tile cache to disk", "tiles now lie under var/tiles with lru eviction"),
        end,
    ]
    (row,) = told(first, until_s=301)
    assert row["ended_by"] == "session_end"
    more = [*first, *turn("b", "limit it to 512 MiB", "the cache limit is 512 MiB", at_s=600)]
    (again,) = told(more)
    assert (again["id"], again["ended_by"], again["prompts"]) == (row["id"], "idle", 2)
    assert "512 MiB" in again["summary"]


def test_a_session_that_wakes_up_after_a_day_has_another_row() -> None:
    """What it was about the first time stays told."""
    rows = told(
        [
            *turn("a", "move the tile cache to disk", "tiles now lie under var/tiles with lru eviction"),
            *turn("b", "limit it to 512 MiB", "the cache limit is 512 MiB", at_s=2 * DAY_S),
        ]
    )
    assert [("lru" in row["summary"], "512" in row["summary"]) for row in rows] == [
        (True, False), (False, True),
    ]  # fmt: skip
    assert {row["session_id"] for row in rows} == {"s1"}


def test_sub_agents_and_other_sessions_do_not_end_it() -> None:
    """The end of one session tells nothing of another that goes on beside it."""
    events = [
        *turn("a", "move the tile cache to disk", "tiles now lie under var/tiles with lru eviction"),
        *turn("b", "rename the parser", "the parser is renamed", at_s=10, session="s2"),
        event("end", Kind.SESSION_END, at_s=200, session="s2", turn=None),
    ]
    events.sort(key=lambda one: one.at)
    assert [row["session_id"] for row in told(events, until_s=201)] == ["s2"]


def test_a_session_where_nothing_was_said_is_not_told() -> None:
    """A start and an end make no row."""
    events = [
        event("start", Kind.SESSION_START, turn=None),
        event("end", Kind.SESSION_END, at_s=5, turn=None),
    ]
    assert told(events) == []


def test_head_and_tail_of_a_long_session_are_kept() -> None:
    """SESSION_HEAD_PIECES and SESSION_TAIL_PIECES of what was said wait for its end, SESSION_PIECE_CHARS of each."""
    logic = ProjectLogic("/p", MemoryConfig())
    for n in range(60):
        for one in turn(f"t{n:02}", f"ask {n} " + "x" * 2_000, f"answer {n}", at_s=n * 130):
            logic.on_event(one)
    ((_, data),) = logic.sessions.snapshot()["sessions"]
    head, tail = data[-2], data[-1]
    assert (len(head), len(tail)) == (limits.SESSION_HEAD_PIECES, limits.SESSION_TAIL_PIECES)
    assert max(len(piece[4]) for piece in [*head, *tail]) == limits.SESSION_PIECE_CHARS
    assert "ask 0 " in head[0][4]
    assert "answer 59" in tail[-1][4]
    json.dumps(data)
