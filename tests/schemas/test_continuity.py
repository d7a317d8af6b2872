from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.continuity import (
    NEVER,
    Context,
    ContinuityConfig,
    TransitionType,
    compare,
    mean_score,
    overlap,
    time_proximity,
    type_by_score,
    type_by_thread,
)
from headwater.schemas.features import Features

AT = datetime(2026, 1, 5, 18, 0, tzinfo=UTC)
names = st.lists(st.sampled_from("abcdefgh"), max_size=6).map(tuple)
contexts = st.builds(
    Context, names, names, names, st.integers(0, 10**6).map(lambda s: AT + timedelta(seconds=s))
)


def test_overlap_is_a_share_not_a_count() -> None:
    """|A∩B| / max(|A|, |B|): four shared topics of five give 0.8, repeats do not count, empty gives 0."""
    assert overlap("abcde", "abcd") == pytest.approx(0.8)
    assert overlap(["a", "a", "a"], ["a"]) == pytest.approx(1.0)
    assert overlap([], ["a"]) == pytest.approx(0.0)


def test_time_never_counts_more_than_one() -> None:
    """exp(-gap / 48 h); a gap below zero, from a late event, counts as none."""
    assert time_proximity(48 * 3600) == pytest.approx(math.exp(-1))
    assert time_proximity(-10_000) == pytest.approx(1.0)


def test_the_formula() -> None:
    """Topics 0.3, files 0.2, time 0.3, entities 0.2, exactly."""
    before = Context(("a", "b"), ("f",), ("E", "F"), AT)
    after = Context(("a", "c"), ("f",), ("G",), AT + timedelta(hours=48))
    found = compare(before, after)
    assert found.score == pytest.approx(0.3 * 0.5 + 0.2 * 1.0 + 0.3 * math.exp(-1) + 0.2 * 0.0)
    assert (found.topics, found.files, found.entities) == (0.5, 1.0, 0.0)


def test_identical_work_next_morning_is_seamless() -> None:
    """15 hours later with the same topics, files and entities the score is above 0.7, exactly as the formula says."""
    before = Context(("a",), ("f",), ("E",), AT)
    found = compare(before, Context(("a",), ("f",), ("E",), AT + timedelta(hours=15)))
    assert found.score == pytest.approx(0.7 + 0.3 * math.exp(-15 / 48))
    assert type_by_score(found.score) is TransitionType.SEAMLESS


def test_a_chat_without_files_can_be_seamless() -> None:
    """A group that is empty on either side is left out and the weights are rescaled."""
    found = compare(Context(("a",), at=AT), Context(("a",), at=AT + timedelta(minutes=5)))
    assert found.files is None
    assert found.entities is None
    assert found.score == pytest.approx((0.3 + 0.3 * math.exp(-300 / (48 * 3600))) / 0.6)
    assert type_by_score(found.score) is TransitionType.SEAMLESS


def test_unrelated_work_next_day_is_a_break() -> None:
    """Nothing in common and a day between: below 0.4 by the score, and a break by thread and pause."""
    before = Context(("a",), ("f",), ("E",), AT)
    found = compare(before, Context(("b",), ("g",), ("F",), AT + timedelta(hours=24)))
    assert found.score == pytest.approx(0.3 * math.exp(-0.5))
    assert type_by_score(found.score) is TransitionType.BREAK
    assert type_by_thread("t1", "t2", 86_400) is TransitionType.BREAK


def test_the_seeds_way_back() -> None:
    """`empty_groups` "zero" counts an empty group as no overlap: the same chat then reaches 0.6 at most."""
    config = ContinuityConfig(empty_groups="zero")
    found = compare(Context(("a",), at=AT), Context(("a",), at=AT), config)
    assert found.score == pytest.approx(0.6)
    assert found.files == pytest.approx(0.0)


def test_type_by_thread_and_pause() -> None:
    """The same thread is seamless however long the pause; another one is a shift below two hours, else a break."""
    assert type_by_thread("t", "t", 10**6) is TransitionType.SEAMLESS
    assert type_by_thread("t", "u", 7199.9) is TransitionType.TOPIC_SHIFT
    assert type_by_thread("t", "u", 7200) is TransitionType.BREAK


def test_thresholds_belong_to_the_better_type() -> None:
    """0.7 is seamless, 0.4 a topic shift, and 0.5 never a break."""
    assert type_by_score(0.7) is TransitionType.SEAMLESS
    assert type_by_score(0.5) is TransitionType.TOPIC_SHIFT
    assert type_by_score(0.4) is TransitionType.TOPIC_SHIFT
    assert type_by_score(0.3999) is TransitionType.BREAK


def test_without_a_log_the_score_is_unknown() -> None:
    """No rows give None, never an invented 0.5."""
    assert mean_score([]) is None
    assert mean_score([0.2, 0.4]) == pytest.approx(0.3)


def test_a_context_keeps_the_newest() -> None:
    """What is named again is new again, what is oldest leaves; the time never goes back."""
    context = (
        Context().then(Features(("a", "b", "c")), AT, items=3).then(Features(("d", "a")), NEVER, items=3)
    )
    assert context.topics == ("d", "a", "b")
    assert context.at == AT


@given(contexts, contexts, st.sampled_from(["left_out", "zero"]))
def test_a_score_is_a_share(before: Context, after: Context, empty_groups: str) -> None:
    """Whatever the contexts, the score lies in [0, 1] and is the same again."""
    config = ContinuityConfig(empty_groups="zero" if empty_groups == "zero" else "left_out")
    found = compare(before, after, config)
    assert 0.0 <= found.score <= 1.0
    assert found == compare(before, after, config)


@given(contexts)
def test_the_same_context_is_one(context: Context) -> None:
    """Nothing is more continuous than what did not change."""
    assert compare(context, context).score == pytest.approx(1.0)
