"""Whether what was told was used: worked out by hand on small texts, and on the events of a small project."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater.query.feedback import Named, Outcome, Tally, is_common, judged, outcome, prompt_of, tallies
from headwater.schemas import limits
from headwater.schemas.events import Kind
from headwater.storage.usage import ToldItem

if TYPE_CHECKING:
    from memory_rows import MemoryRows


NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def named(terms: str = "", files: str = "") -> Named:
    """Return what a text names."""
    return Named(frozenset(terms.split()), frozenset(files.split()))


def at(minute: float) -> datetime:
    """Return a time so many minutes after the start."""
    return NOW + timedelta(minutes=minute)


def told(item: str, minute: float, **more: Any) -> ToldItem:
    """Return a thing that session s1 was told."""
    values: dict[str, Any] = {"project": "/p/one", "is_start": False, **more}
    return ToldItem("claude-code:s1", f"ask{minute}", item, at=at(minute), **values)


@pytest.mark.parametrize(
    ("item", "followed", "prompt", "common", "expected"),
    [
        ("jitter backoff", "jitter backoff retry", "", "", Outcome(2, 0)),
        ("jitter backoff", "jitter backoff", "backoff", "", Outcome(1, 0)),  # the prompt said it
        ("jitter backoff webhook", "jitter webhook", "", "webhook", Outcome(1, 0)),  # the project is about it
        ("jitter backoff", "ledger", "", "", Outcome(0, 0)),
        ("", "jitter", "", "", Outcome(0, 0)),
    ],
)
def test_terms_count_beyond_prompt_and_project(
    item: str, followed: str, prompt: str, common: str, expected: Outcome
) -> None:
    """What an item shares with the answer counts when neither the prompt nor the whole project names it."""
    assert outcome(named(item), named(followed), named(prompt), common.split()) == expected


def test_two_terms_or_one_file_are_use() -> None:
    """TOLD_TERMS terms or a file make an item used; a file's own name is no term beside it."""
    assert [Outcome(n, 0).used for n in range(limits.TOLD_TERMS + 1)] == [False, False, True]
    item = named("app/worker.py jitter", "app/worker.py")
    same = outcome(item, named("app/worker.py", "app/worker.py"), named())
    assert (same, same.used) == (Outcome(0, 1), True)
    asked = outcome(item, named("app/worker.py", "app/worker.py"), named("", "app/worker.py"))
    assert (asked, asked.used) == (Outcome(0, 0), False)


def test_a_term_is_common_from_a_tenth_of_the_events_on() -> None:
    """In a small project TOLD_RARE_EVENTS events may name a term, in a large one TOLD_RARE_SHARE of them."""
    assert (limits.TOLD_RARE_EVENTS, limits.TOLD_RARE_SHARE) == (10, 0.1)
    assert [is_common(n, 20) for n in (10, 11)] == [False, True]
    assert [is_common(n, 1000) for n in (100, 101)] == [False, True]


def test_what_was_told_belongs_to_the_prompt_beside_it() -> None:
    """With a prompt it is told within TOLD_TURN_S after it; a start is told for the first prompt that follows."""
    prompts = [at(0), at(10)]
    late = timedelta(seconds=limits.TOLD_TURN_S)
    assert prompt_of(prompts, at(0), is_start=False) == 0
    assert prompt_of(prompts, at(0) + late, is_start=False) == 0
    assert prompt_of(prompts, at(0) + late * 2, is_start=False) is None  # its prompt was not read yet
    assert prompt_of(prompts, at(10) - timedelta(seconds=0.5), is_start=False) == 1  # a transcript rounds
    assert prompt_of(prompts, at(-5), is_start=True) == 0
    assert prompt_of(prompts, at(5), is_start=True) == 1
    assert prompt_of(prompts, at(20), is_start=True) is None
    assert prompt_of([], at(0), is_start=False) is None


def test_tallies_count_by_section() -> None:
    """Told, judged and used, section by section; a share is one of what could be judged."""
    items = [
        told("memory:a", 0, used=True),
        told("memory:b", 0, used=False),
        told("memory:c", 0),
        told("found:d", 0),
    ]
    assert tallies(items) == {"found": Tally(1, 0, 0), "memory": Tally(3, 2, 1)}
    assert (Tally(3, 2, 1).share, Tally(1).share) == (0.5, None)


@pytest.fixture
def turn(world: Any, rows: MemoryRows) -> Any:
    """A past with a memory, a session and two events; then a prompt, a tool call and a sub-agent's answer."""
    past = {"session_id": "s0", "kind": Kind.RESPONSE}
    inside = {"turn_id": "t1"}
    call = "edit `MAX_RETRIES` in app/worker.py"
    world.add(
        world.event("jit", "backoff and jitter", -60, **past),
        world.event("doc", "the image of debian", -50, files=("Dockerfile",), **past),
        world.event("ask", "how often do we retry", 0, **inside),
        world.event("call", call, 1, kind=Kind.TOOL, tool="Edit", files=("app/worker.py",), **inside),
        world.event("sub", "rounding of the ledger", 2, kind=Kind.RESPONSE, agent_id="a1", **inside),
    )
    rows.memory("m", "Asked: backoff with jitter in `MAX_RETRIES` of app/worker.py.", -40, topics=[])
    rows.memory("n", "Asked: sign the header.", -40, topics=["header"])
    rows.session("old", "Found: rounding of the ledger.", -30)
    return world


ITEMS = (
    "active:evt_jit",
    "found:evt_doc",
    "memory:mem_m",
    "memory:mem_n",
    "session:ses_old",
    "found:evt_gone",
)


def answered(world: Any, minute: float = 3, text: str = "jitter and backoff it is", **more: Any) -> None:
    """Add the answer to the prompt, or another event."""
    world.add(world.event(f"end{minute}", text, minute, **{"kind": Kind.RESPONSE, "turn_id": "t1", **more}))


def test_items_are_judged_when_their_turn_is_over(turn: Any) -> None:
    """Until the answer comes nothing is judged, a sub-agent's does not end the turn; then each has its outcome."""
    items = [told(item, 0.001) for item in ITEMS]
    assert judged(turn.stores, items) == []
    answered(turn)
    done = judged(turn.stores, items)
    assert {one.item: (one.used, one.terms, one.files) for one in done} == {
        "active:evt_jit": (True, 2, 0),  # backoff, jitter
        "found:evt_doc": (False, 0, 0),
        "memory:mem_m": (
            True,
            5,
            1,
        ),  # backoff, jitter, max_retries with max, worker; not retry: the prompt says it
        "memory:mem_n": (False, 0, 0),
        "session:ses_old": (True, 2, 0),  # ledger, rounding: of the sub-agent; `Found` is a label
    }
    assert {one.turn for one in done} == {"evt_ask"}


def test_judging_again_gives_the_same_and_later_turns_change_nothing(turn: Any) -> None:
    """The next turn is not this one's, what comes later makes no term common; a start is judged by its first turn."""
    answered(turn)
    items = [told(item, 0.001) for item in ITEMS]
    first = judged(turn.stores, items)
    turn.add(turn.event("next", "header please", 10, turn_id="t2"))
    for minute in range(11, 31):
        answered(turn, minute, "header, sign, jitter", turn_id="t2")
    assert judged(turn.stores, items) == first
    start = [replace(one, is_start=True, at=at(-1)) for one in items]
    again = judged(turn.stores, start)
    assert [(one.item, one.used, one.turn) for one in again] == [
        (one.item, one.used, one.turn) for one in first
    ]


def test_what_the_project_is_about_is_no_use(turn: Any) -> None:
    """A term that more than TOLD_RARE_EVENTS earlier events name is told by nobody in particular."""
    past = {"session_id": "s0", "kind": Kind.RESPONSE}
    turn.add(*(turn.event(f"p{n}", "jitter", -30 + n, **past) for n in range(limits.TOLD_RARE_EVENTS)))
    answered(turn)
    (one,) = judged(turn.stores, [told("active:evt_jit", 0.001)])
    assert (one.used, one.terms) == (False, 1)


def test_only_some_turns_events_and_characters_are_looked_at(
    turn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most TOLD_TURNS turns at once, TOLD_LOOK events before a turn, TOLD_CHARS of a text."""
    answered(turn)
    turn.add(turn.event("next", "and then", 10, turn_id="t2"))
    answered(turn, 11, "jitter and backoff again", turn_id="t2")
    items = [told("active:evt_jit", 10.001), told("active:evt_jit", 0.001)]
    assert [one.used for one in judged(turn.stores, items)] == [True, True]
    monkeypatch.setattr(limits, "TOLD_TURNS", 1)
    assert judged(turn.stores, items) == judged(turn.stores, items[1:])  # the oldest turn first
    monkeypatch.setattr(limits, "TOLD_RARE_EVENTS", 0)  # now each event that names a term makes it common
    assert [one.terms for one in judged(turn.stores, items[1:])] == [0]
    monkeypatch.setattr(limits, "TOLD_LOOK", 1)  # the event before the prompt does not name it
    assert [one.terms for one in judged(turn.stores, items[1:])] == [2]
    monkeypatch.setattr(limits, "TOLD_CHARS", len("jitter"))
    assert [one.terms for one in judged(turn.stores, items[1:])] == [0]


def test_a_session_that_ended_or_went_on_has_a_turn_that_is_over(turn: Any) -> None:
    """Without an answer of the main agent, the end of the session or its next prompt ends the turn."""
    items = [told("session:ses_old", 0.001), told("session:ses_old", 0.001, project="/p/two")]
    answered(turn, text="", kind=Kind.SESSION_END, turn_id=None)
    assert [(one.project, one.used) for one in judged(turn.stores, items)] == [("/p/one", True)]
