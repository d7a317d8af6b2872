from __future__ import annotations

from datetime import timedelta

from project_events import AT, event, turn

from headwater.flows.threads import Assigned, ThreadConfig, ThreadLogic, ThreadState
from headwater.flows.turns import turn_key
from headwater.schemas.events import Event, Kind

WEBHOOK = "the webhook worker must retry each delivery with exponential backoff and jitter"
IMAGE = "the docker image is too large, build it on the slim base without musl wheels"


def run(events: list[Event], config: ThreadConfig | None = None) -> list[Assigned]:
    """Return what events in order are assigned to, with half a day of silence behind them."""
    logic = ThreadLogic(config or ThreadConfig(), ThreadState())
    found = [one for event in events for one in logic.on_event(event)]
    return found + logic.on_time(events[-1].at + timedelta(hours=12))


def threads(events: list[Event], config: ThreadConfig | None = None) -> list[str]:
    """Return the thread of each turn."""
    return [one.thread_id for one in run(events, config) if one.turn is not None]


def test_another_subject_is_another_thread_and_the_first_is_found_again() -> None:
    """A turn joins the thread that it fits, also in a new session days later."""
    found = threads(
        [
            *turn("a", WEBHOOK, "webhook worker retries each delivery with backoff"),
            *turn("b", IMAGE, "docker image is slim now, no musl wheels", at_s=600),
            *turn(
                "c",
                "webhook delivery: jitter of the retry worker is too large",
                "ok",
                at_s=90_000,
                session="s2",
            ),
        ]
    )
    assert found[0] == found[2] != found[1]


def test_a_prompt_that_says_little_inherits() -> None:
    """A "go on" belongs to what was before it, in its session or, at the start of one, in the project."""
    found = threads(
        [
            *turn("a", WEBHOOK, "proposal: five tries"),
            *turn("b", "go on", "docker image slim base musl wheels", at_s=300),
            *turn("c", "계속", "done", at_s=9000, session="s2"),
        ]
    )
    assert len(set(found)) == 1


def test_a_turn_is_decided_by_its_answer_and_late_events_inherit() -> None:
    """The answer decides; a sub-agent's late tool goes to the same thread, alone, without another decision."""
    late = event("late", Kind.TOOL, "Read docker image slim", at_s=300, turn="a", agent_id="sub")
    found = run([*turn("a", WEBHOOK, "done"), late])
    assert [len(one.events) for one in found] == [3, 1]
    assert found[0].thread_id == found[1].thread_id
    assert found[1].turn is None


def test_an_event_finds_its_turn_though_it_lets_others_be_decided() -> None:
    """Deciding another turn may forget the one it comes to two days later: it has its thread all the same."""
    hours = [("s1", "s1-1", 0), ("s1", "s1-2", 0), ("s2", None, 0), ("s1", "s1-3", 25), ("s1", "s1-4", 50)]
    events = [
        event(f"e{n}", content=WEBHOOK, at_s=hour * 3600, session=session, turn=name, seq=n)
        for n, (session, name, hour) in enumerate([*hours, ("s2", "s2-2", 50), ("s2", None, 50)])
    ]
    found = run(events)
    by_event = {one.id: item for item in found for one in item.events}
    assert sorted(one.id for item in found for one in item.events) == [one.id for one in events]
    assert by_event["e6"].thread_id == by_event["e2"].thread_id
    assert by_event["e6"].turn is None


def test_a_turn_without_an_answer_is_decided() -> None:
    """By the next prompt, by the session's end, or after half an hour of silence."""
    prompt = event("p1", content=WEBHOOK)
    for then in (
        event("p2", content=IMAGE, at_s=10, turn="t2"),
        event("end", Kind.SESSION_END, at_s=10, turn=None),
        event("x", content=IMAGE, at_s=1800, turn="t9", session="s9"),
    ):
        logic = ThreadLogic(ThreadConfig(), ThreadState())
        assert logic.on_event(prompt) == []
        assert [one.events for one in logic.on_event(then)] == [(prompt,)]


def test_events_without_a_turn_are_one_turn_of_their_session() -> None:
    """Tools of an agent that names no turn stay together; session borders belong to none."""
    tools = [event(f"x{n}", Kind.TOOL, "ls", at_s=n, turn=None) for n in range(3)]
    start = event("start", Kind.SESSION_START, turn=None)
    (one,) = run([start, *tools])
    assert [e.id for e in one.events] == ["x0", "x1", "x2"]
    assert turn_key(tools[0]).endswith(":")


def test_an_old_thread_is_over() -> None:
    """After 14 days without a turn the same subject is a new thread; a day before, it is the old one."""
    for days, same in ((13, True), (15, False)):
        found = threads(
            [
                *turn("a", WEBHOOK, "done"),
                *turn("b", WEBHOOK, "done", at_s=days * 86_400, session="s2"),
            ]
        )
        assert (found[0] == found[1]) is same


def test_open_threads_are_bounded() -> None:
    """Beyond the limit the thread silent for longest is closed; the state does not grow for ever."""
    config = ThreadConfig(open_max=3)
    logic = ThreadLogic(config, ThreadState())
    for n in range(10):
        word = f"subject{chr(97 + n) * 4}"
        for one in turn(f"t{n}", " ".join(f"{word}{chr(97 + i) * 3}" for i in range(8)), word, at_s=n * 600):
            logic.on_event(one)
    assert len(logic.snapshot()["threads"]["threads"]) == 3


def test_a_thread_keeps_its_newest_terms() -> None:
    """The oldest terms leave, and with them their counts: what is left adds up."""
    logic = ThreadLogic(ThreadConfig(terms_max=5), ThreadState())
    for n in range(4):
        for one in turn(f"t{n}", WEBHOOK, IMAGE, at_s=n * 600):
            logic.on_event(one)
    (thread,) = logic.snapshot()["threads"]["threads"]
    assert len(thread[2]) == 5
    assert logic._total == sum(n for _, n in thread[2])


def test_the_same_id_wherever_it_is_computed() -> None:
    """A thread's id comes from its project and first event, never from chance."""
    assert threads(turn("a", WEBHOOK, "x")) == threads(turn("a", WEBHOOK, "x"))


def test_an_unknown_snapshot_is_no_state() -> None:
    """A snapshot of another version is not guessed at."""
    assert ThreadState.from_plain({"v": 99}).plain() == ThreadState().plain()
    logic = ThreadLogic.from_snapshot(ThreadConfig(), {"v": 99})
    assert logic.due_at() is None
    assert AT.tzinfo is not None
