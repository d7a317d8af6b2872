from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_answers import answer_of

from headwater.query.answer_budget import AnswerBudget, nearest_first
from headwater.query.budget import Estimator, estimate_tokens
from headwater.query.formatter import ContextFormatter, Style
from headwater.schemas import limits
from headwater.schemas.config import TokenBudgetConfig

COUNTS = Path(__file__).resolve().parents[1] / "data" / "answer_counts.jsonl.gz"
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=600), max_size=12)
STYLES: tuple[Style, ...] = ("terminal", "markdown", "json")
ESTIMATORS: tuple[Estimator, ...] = ("script", "spec")
WORDS = "The refund test fails since the clock is mocked twice. " * 12


def fitted(answer: Any, budget_tokens: int, style: Style = "terminal", **config: Any) -> Any:
    """Return the answer within a budget."""
    return AnswerBudget(ContextFormatter(style), TokenBudgetConfig(**config), budget_tokens).fit(answer)


@given(
    TEXTS,
    st.integers(100, 2500),
    st.sampled_from(STYLES[:2]),
    st.sampled_from(ESTIMATORS),
    st.text(max_size=300),
)
@settings(max_examples=60)
def test_budget_is_never_exceeded(
    texts: list[str], budget_tokens: int, style: Style, estimator: Estimator, session: str
) -> None:
    """For any texts and any budget from 100 on the estimate of the formatted answer is within it."""
    whole = answer_of(texts, session=session)
    found = fitted(whole, budget_tokens, style, estimator=estimator)
    size = estimate_tokens(ContextFormatter(style).answer(found), estimator)
    assert size <= budget_tokens
    assert size <= found.meta.estimated_tokens + 3  # what it says of itself, within a digit
    assert found.meta.estimated_tokens <= budget_tokens
    assert found.index == whole.index[: len(found.index)]
    assert set(found.timeline or ()) <= set(whole.timeline or ())
    assert set(found.details or ()) <= set(whole.details or ())
    assert found.meta.expanded_count == len(found.details or ())


def test_all_of_it_when_there_is_room() -> None:
    """An answer that fits is handed out as it is, and says how large it is."""
    whole = answer_of(["Short.", "Another."])
    found = fitted(whole, 2000)
    assert (found.index, found.timeline, found.details) == (whole.index, whole.timeline, whole.details)
    assert (found.meta.left_out, found.meta.left_out_more) == ((), 0)
    text = ContextFormatter().answer(found)
    assert found.meta.estimated_tokens == estimate_tokens(text)
    assert f"about {found.meta.estimated_tokens} tokens" in text


def test_order_of_filling() -> None:
    """The index comes before the timeline, the timeline before whole items; what is left out is named with its id."""
    whole = answer_of([WORDS * 5, WORDS * 5, "Short."])
    rows = fitted(whole, 230)
    assert [item.id[-1] for item in rows.index] == ["0", "1", "2"]
    assert rows.details is None
    assert set(rows.meta.left_out) <= {item.id for item in whole.index}
    assert "Left out, for want of room: evt_" in ContextFormatter().answer(rows)
    silent = replace(whole, meta=replace(whole.meta, hint=""))
    assert fitted(silent, 260).meta.hint == 'Use "show ID" to see details'  # nothing whole found room
    assert fitted(silent, 700).meta.hint == ""
    most = fitted(whole, 700)
    assert most.timeline == whole.timeline
    assert [item.id[-1] for item in most.details or ()] == [
        "2"
    ]  # the long ones found no room, the short one did
    assert most.meta.left_out == ("evt_000000000000", "evt_000000000001")


def test_as_many_are_named_as_there_is_room_for() -> None:
    """LEFT_OUT_NAMED ids at most, the others are counted; with no room for a name they are counted alone."""
    whole = replace(answer_of([WORDS] * 12, details=0), timeline=None)
    some = fitted(whole, 400)
    assert len(some.meta.left_out) == limits.LEFT_OUT_NAMED
    assert len(some.index) + len(some.meta.left_out) + some.meta.left_out_more == 12
    least = fitted(answer_of([WORDS] * 12), 100)
    assert len(least.index) + len(least.meta.left_out) + least.meta.left_out_more >= 12
    assert estimate_tokens(ContextFormatter().answer(least)) <= 100


def test_a_long_timeline_loses_what_is_farthest_from_its_targets() -> None:
    """Targets stay, then their neighbours; the order in time is kept."""
    whole = replace(answer_of([WORDS] * 9, details=0), index=())
    found = fitted(whole, 350)
    kept = [int(item.id[-1]) for item in found.timeline or ()]
    assert 4 in kept
    assert 1 < len(kept) < 9
    assert kept == sorted(kept) == list(range(kept[0], kept[-1] + 1))
    assert nearest_first(answer_of(["x"] * 5).timeline or ()) == [2, 1, 3, 0, 4]


def test_fixed_costs_of_the_spec_estimator() -> None:
    """With `spec` each row counts 50, each place of a timeline 40, each whole item 500 or its characters / 4."""
    whole = answer_of(["Short."] * 4, details=2)
    budget = AnswerBudget(ContextFormatter(), TokenBudgetConfig(estimator="spec"), 5000)
    assert budget.tokens(whole) == 4 * 50 + 4 * 40 + 2 * 500
    long = answer_of(["x" * 8000], details=1)
    assert budget.tokens(replace(long, index=(), timeline=None)) >= 2000
    config = {"layer1_per_item": 1, "layer2_per_item": 2, "layer3_per_item": 3000}
    budget = AnswerBudget(ContextFormatter(), TokenBudgetConfig(estimator="spec", **config), 5000)
    assert budget.tokens(whole) == 4 * 1 + 4 * 2 + 2 * 3000
    assert fitted(whole, 1000, estimator="spec").details is not None
    assert fitted(whole, 700, estimator="spec").details is None


@pytest.mark.parametrize("kind", ["en", "ko", "ja", "zh", "code"])
def test_real_tokenizers_count_no_more_than_the_budget(kind: str) -> None:
    """What cl100k and the tokenizer of multilingual-e5 counted of whole answers is within their budgets."""
    with gzip.open(COUNTS, "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["kind"] == kind]
    assert len(rows) >= 12
    for row in rows:
        assert estimate_tokens(row["text"]) <= row["budget"]
        assert max(row["cl100k"], row["e5"]) <= row["budget"]
    assert sum(row["cl100k"] for row in rows) > 0.5 * sum(
        row["budget"] for row in rows
    )  # and not by wasting it
