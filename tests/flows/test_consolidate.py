from __future__ import annotations

import json
import math
from datetime import timedelta

import pytest
from project_events import AT, event, turn

from headwater.flows.consolidate import (
    Consolidated,
    ConsolidationConfig,
    ConsolidationLogic,
    ConsolidationState,
    confidence,
    make_memory,
    memory_from_plain,
    memory_to_plain,
)
from headwater.flows.windows import Piece, Trigger, Window, piece
from headwater.schemas import limits
from headwater.schemas.events import Event, Kind

CONFIG = ConsolidationConfig()


def window(events: list[Event], thread: str = "thr_1") -> Window:
    """Return a closed window of these events."""
    pieces = tuple(piece(one) for one in events)
    return Window(thread, "/p", pieces, Trigger.IDLE, pieces[-1].at + timedelta(seconds=1800))


def run(*windows: Window) -> tuple[ConsolidationLogic, list[Consolidated]]:
    """Return the logic and what each window made."""
    logic = ConsolidationLogic(CONFIG, ConsolidationState())
    return logic, [logic.on_window(one) for one in windows]


def pieces(*topics: tuple[str, ...], gap_s: float = 0.0) -> list[Piece]:
    """Return pieces with these topics, equally far apart."""
    return [
        Piece(f"e{n}", Kind.PROMPT, AT + timedelta(seconds=n * gap_s), "s", "", (), one)
        for n, one in enumerate(topics)
    ]


def test_the_confidence_formula() -> None:
    """The mean of count, time proximity and coherence, exactly."""
    found = confidence(pieces(("a", "b"), ("a",), ("c",), gap_s=3600))
    coherence = (0.5 + 0.0 + 0.0) / 3
    assert found == pytest.approx((3 / 10 + math.exp(-1) + coherence) / 3)


def test_many_unrelated_events_are_not_certain() -> None:
    """Number alone does not make a memory sure: what hangs together counts."""
    loose = confidence(pieces(*[(f"word{n}",) for n in range(30)]))
    close = confidence(pieces(*[("word",) for _ in range(30)]))
    assert loose == pytest.approx(2 / 3)
    assert close == pytest.approx(1.0)


def test_the_seeds_confidence() -> None:
    """Without coherence it is the mean of two parts."""
    found = confidence(pieces(("a",), ("b",)), coherence_weight=0.0)
    assert found == pytest.approx((0.2 + 1.0) / 2)
    assert confidence([]) == pytest.approx(0.0)


def test_the_same_window_gives_the_same_memory() -> None:
    """Its id comes from project, thread, first event and rule version; another version is another memory."""
    one = window(turn("a", "retry webhooks", "done with jitter"))
    assert make_memory(one, CONFIG) == make_memory(one, CONFIG)
    assert make_memory(one, CONFIG).id != make_memory(one, ConsolidationConfig(rule_version="2")).id


def test_a_near_duplicate_raises_the_count_of_the_older() -> None:
    """The same said again makes no second memory: its events become sources of the first."""
    asked, answered = "what purges the webhook table", "The nightly job purges webhook_deliveries."
    _, (first, second) = run(
        window(turn("a", asked, answered)), window(turn("b", asked, answered, at_s=90_000))
    )
    (memory,) = second.memories
    assert memory.id == first.memories[0].id
    assert memory.count == 2
    assert memory.source_events == ("a-p", "a-t", "a-r", "b-p", "b-t", "b-r")


def test_another_value_is_not_a_duplicate_but_a_reversal() -> None:
    """Nearly the same words with another number mark the older memory superseded, and say by which."""
    _, (first, second) = run(
        window(
            turn("a", "webhook delivery retries: 5 attempts", "Webhook delivery retries have 5 attempts.")
        ),
        window(
            turn(
                "b",
                "webhook delivery retries: 8 attempts",
                "Webhook delivery retries have 8 attempts.",
                at_s=9,
            )
        ),
    )
    newer, older = second.memories
    assert older.id == first.memories[0].id
    assert older.superseded_by == newer.id
    assert newer.superseded_by is None
    assert [(mark.old_event, mark.new_event) for mark in second.marks] == [("a-p", "b-p")]


def test_a_decision_is_reversed_once() -> None:
    """Saying again that something is dropped marks nothing more."""
    _, made = run(
        window(turn("a", "use alpine for the docker image", "alpine image")),
        window(turn("b", "forget alpine, take slim for the docker image", "slim image", at_s=9000)),
        window(turn("c", "as I said forget alpine", "yes, slim", at_s=90_000)),
    )
    assert [len(one.marks) for one in made] == [0, 1, 0]


def test_other_threads_are_not_merged() -> None:
    """The same words in another thread are another memory."""
    asked, answered = "what purges the webhook table", "The nightly job purges webhook_deliveries."
    _, (first, second) = run(
        window(turn("a", asked, answered)), window(turn("b", asked, answered, at_s=9), "thr_2")
    )
    assert first.memories[0].id != second.memories[0].id


def test_a_snapshot_goes_on_where_it_was() -> None:
    """State is plain data, through JSON, and makes the same of what comes next; an unknown version is none."""
    windows = [
        window(turn("a", "use alpine for the docker image", "alpine image")),
        window(turn("b", "forget alpine, take slim for the docker image", "slim image", at_s=9000)),
        window(turn("c", "forget alpine, really", "slim image", at_s=90_000)),
    ]
    logic, _ = run(*windows[:2])
    again = ConsolidationLogic(
        CONFIG, ConsolidationState.from_plain(json.loads(json.dumps(logic.snapshot())))
    )
    assert again.snapshot() == logic.snapshot()
    assert again.on_window(windows[2]) == logic.on_window(windows[2])
    assert ConsolidationState.from_plain({"v": 9}).kept == []


def test_a_memory_is_plain_data() -> None:
    """It comes back from its plain form as it was."""
    memory = make_memory(window(turn("a", "retry webhooks", "done with jitter")), CONFIG)
    assert memory_from_plain(json.loads(json.dumps(memory_to_plain(memory)))) == memory


def test_what_is_compared_is_bounded() -> None:
    """Only so many memories are kept for comparing, the newest."""
    logic = ConsolidationLogic(CONFIG, ConsolidationState())
    for n in range(limits.MEMORIES_COMPARED + 5):
        word = "".join(chr(97 + int(digit)) for digit in f"{n:03d}")
        logic.on_window(window([event(f"p{n}", content=f"{word}x {word}y {word}z", at_s=n)]))
    assert len(logic.snapshot()["kept"]) == limits.MEMORIES_COMPARED
