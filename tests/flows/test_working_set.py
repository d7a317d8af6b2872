"""The working set: who is in, who left when and why, as of the project's last event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from project_events import AT, event, turn

from headwater.flows.project_memory import MemoryConfig, ProjectLogic
from headwater.flows.working_set import WorkingSetRules
from headwater.schemas.events import Event, Kind
from headwater.schemas.memory_columns import WORKING_SET
from headwater.schemas.relevance import groups_of

WEBHOOK = "the webhook worker must retry each delivery five times with jitter and exponential backoff"
IMAGE = "docker image of the build is too large, alpine base with musl wheels instead of debian"
HOUR_S = 3600.0


def rows_of(events: list[Event], until_s: float | None = None, **rules: Any) -> dict[str, dict[str, Any]]:
    """Return event id -> row after events and the time behind them."""
    logic = ProjectLogic("/p", MemoryConfig(working_set=WorkingSetRules(**rules)))
    for one in events:
        logic.on_event(one)
    if until_s is not None:
        logic.on_time(AT + timedelta(seconds=until_s))
    return {row["event_id"]: row for row in logic.rows()[WORKING_SET.name]}


def test_events_come_in_with_their_turn_and_expire_a_day_after_the_last_touch() -> None:
    """24 hours are counted from the last turn of the thread, not from when an event came in."""
    first = turn("a", WEBHOOK, "retries are in")
    rows = rows_of(first)
    assert rows.keys() == {"a-p", "a-t", "a-r"}
    assert {row["added_at"] for row in rows.values()} == {AT + timedelta(seconds=120)}
    assert {row["expires_at"] for row in rows.values()} == {AT + timedelta(seconds=120, hours=24)}
    again = rows_of([*first, *turn("b", WEBHOOK, "more of it", at_s=20 * HOUR_S)])
    assert again["a-p"]["expires_at"] == AT + timedelta(hours=44, seconds=120)


def test_a_touch_of_a_file_keeps_its_events() -> None:
    """Another thread that edits the same file keeps what was done to it active; other events are not kept."""
    other = [
        event("p2", Kind.PROMPT, IMAGE, at_s=10 * HOUR_S, turn="b"),
        event("t2", Kind.TOOL, "Edit a.py", at_s=10 * HOUR_S + 1, turn="b", files=("a.py",)),
        event("r2", Kind.RESPONSE, "alpine it is", at_s=10 * HOUR_S + 2, turn="b"),
    ]
    rows = rows_of([*turn("a", WEBHOOK, "retries are in"), *other], keep_active=100)
    assert rows["a-t"]["expires_at"] == AT + timedelta(hours=34, seconds=2)
    assert rows["a-p"]["expires_at"] == AT + timedelta(hours=24, seconds=120)


def test_what_expires_leaves_at_its_time() -> None:
    """However late that is noticed: `left_at` is when it was due."""
    for until_s in (25 * HOUR_S, 400 * HOUR_S):
        rows = rows_of(turn("a", WEBHOOK, "retries are in"), until_s=until_s, keep_active=100)
        assert {(row["left_reason"], row["left_at"]) for row in rows.values()} == {
            ("expired", AT + timedelta(hours=24, seconds=120))
        }


def test_a_consolidated_window_leaves_its_best() -> None:
    """Of a window that became a memory `keep_active` events stay, answers and prompts before tools."""
    events = [one for n in range(4) for one in turn(f"t{n}", WEBHOOK, "retries are in", at_s=n * 200)]
    rows = rows_of(events, until_s=HOUR_S, keep_active=5)
    stay = {id_ for id_, row in rows.items() if row["left_at"] is None}
    assert len(stay) == 5
    assert not any(id_.endswith("-t") for id_ in stay)
    gone = [row for row in rows.values() if row["left_at"] is not None]
    assert {row["left_reason"] for row in gone} == {"consolidated"}
    assert all(row["left_at"] is None for row in rows_of(events, until_s=HOUR_S, keep_active=100).values())


def test_it_never_holds_more_than_its_size() -> None:
    """The least relevant leave: repeats never push out what is going on, each event is in once."""
    events = [one for n in range(30) for one in turn(f"t{n:02}", WEBHOOK, "in", at_s=n * 130)]
    logic = ProjectLogic("/p", MemoryConfig(working_set=WorkingSetRules(max_events=20, keep_active=100)))
    for one in events:
        logic.on_event(one)
        assert len(logic.working_set.snapshot()["members"]) <= 20
    rows = {row["event_id"]: row for row in logic.rows()[WORKING_SET.name]}
    stay = [row for row in rows.values() if row["left_at"] is None]
    assert len(stay) == 20
    assert {"t29-p", "t29-r"} <= {row["event_id"] for row in stay}
    assert {row["left_reason"] for row in rows.values()} <= {None, "crowded", "consolidated"}
    assert len({row["id"] for row in rows.values()}) == len(rows) == 90


def test_relevance_is_computed_and_falls() -> None:
    """What goes on scores high, what is old and about something else low; nothing is 1 by default."""
    rows = rows_of(
        [
            *turn("a", IMAGE, "alpine it is"),
            *turn("b", WEBHOOK, "webhook retries with jitter are in", at_s=15 * HOUR_S),
        ],
        keep_active=100,
    )
    scores = [rows[id_]["relevance_score"] for id_ in ("b-p", "a-p", "a-t")]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] - scores[1] > 0.1
    assert scores[1] - scores[2] > 0.1
    assert all(0.0 <= row["relevance_score"] < 1.0 for row in rows.values() if row["kind"] != "response")


def test_sessions_starts_and_ends_are_no_members() -> None:
    """Only what was said and done is active."""
    rows = rows_of(
        [
            event("start", Kind.SESSION_START, turn=None),
            *turn("a", WEBHOOK, "in", at_s=1),
            event("end", Kind.SESSION_END, at_s=500, turn=None),
        ]
    )
    assert rows.keys() == {"a-p", "a-t", "a-r"}


def test_what_members_share_with_the_context_is_counted_as_it_changes() -> None:
    """Turn by turn, over windows that close and after a restart, the counts are those of the sets themselves."""
    sides = ("lamp", "door", "boat", "fork", "wind")
    names = [f"{one}{two}" for one in ("red", "tall", "warm", "loud", "fast") for two in sides]
    logic = ProjectLogic("/p", MemoryConfig(working_set=WorkingSetRules(max_events=60, keep_active=100)))
    shared = set()
    for n in range(40):
        text = " ".join(names[n * step % 25] for step in (1, 3, 7))
        for one in turn(f"t{n:02}", f"{text} in src/{names[n % 25]}.py", f"{text} is in", at_s=n * 150):
            logic.on_event(one)
        if n == 25:
            logic = ProjectLogic(
                "/p", MemoryConfig(working_set=WorkingSetRules(max_events=60)), logic.snapshot()
            )
        state = logic.working_set._state
        current = groups_of(state.context)
        for member in state.members.values():
            counts = [len(own & there) for own, there in zip(member.groups, current, strict=True)]
            assert member.shared == counts
            shared.add(tuple(counts))
    assert len(shared) > 5
