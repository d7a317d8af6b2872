from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.query.budget import Block, Estimator, estimate_tokens, fill
from headwater.schemas import limits

COUNTS = Path(__file__).resolve().parents[1] / "data" / "token_counts.jsonl.gz"
KINDS = ("en", "ko", "ja", "zh", "tool", "code")
TEXTS = st.text(st.characters(exclude_categories=()), max_size=400)
ESTIMATORS: tuple[Estimator, ...] = ("script", "spec")


def counted(kind: str) -> list[dict[str, Any]]:
    """Return texts of a kind with what real tokenizers counted: cl100k, o200k, multilingual-e5."""
    with gzip.open(COUNTS, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if row["kind"] == kind]


def most(row: dict[str, Any]) -> int:
    """Return the highest of the real counts."""
    return max(int(row[name]) for name in ("cl100k", "o200k", "e5"))


@pytest.mark.parametrize("kind", KINDS)
def test_estimate_lies_above_real_tokenizers(kind: str) -> None:
    """At least 95 % of texts are not underestimated, those of a hundred tokens never by more than 3 %, none by 10 %."""
    ratios = [(estimate_tokens(row["text"]) / most(row), most(row)) for row in counted(kind)]
    assert len(ratios) >= 50
    assert sum(ratio < 1 for ratio, _ in ratios) <= 0.05 * len(ratios)
    assert min(ratio for ratio, _ in ratios) > 0.9
    assert min((ratio for ratio, tokens in ratios if tokens >= 100), default=1.0) > 0.97


@pytest.mark.parametrize("kind", KINDS)
def test_estimate_is_tight(kind: str) -> None:
    """On average the estimate is at most 30 % above the highest of the real counts."""
    ratios = [estimate_tokens(row["text"]) / most(row) for row in counted(kind)]
    assert sum(ratios) / len(ratios) < 1.3


def test_a_token_for_four_characters_counts_korean_too_low() -> None:
    """The `spec` estimator is ceil(characters / 4); for Korean that is less than half of what cl100k counts."""
    assert [estimate_tokens(text, "spec") for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
    rows = counted("ko")
    spec = sum(estimate_tokens(row["text"], "spec") for row in rows)
    assert spec < sum(row["cl100k"] for row in rows) / 2


def test_any_script_costs_something() -> None:
    """Texts of any script are estimated at no less than a token for three characters; no text at none."""
    assert estimate_tokens("") == 0
    for text in (
        "Привет, как дела",
        "مرحبا بالعالم",
        "สวัสดีชาวโลก",
        "🎉🚀✅",
        "naïve façade",
        "x" * 99,
        "\ud800" * 9,
    ):
        assert estimate_tokens(text) * 3 >= len(text) / 1.4


@given(
    st.lists(TEXTS, max_size=12),
    st.tuples(TEXTS, TEXTS),
    st.integers(100, 600),
    st.integers(10, 2000),
    st.sampled_from(ESTIMATORS),
)
def test_budget_is_never_exceeded(
    texts: list[str], ends: tuple[str, str], budget_tokens: int, chars_max: int, estimator: Estimator
) -> None:
    """Whatever the texts are, what is put together keeps within tokens and characters, and names each block once."""
    blocks = [Block(f"b{n}", text) for n, text in enumerate(texts)]
    head, tail = ends
    filled = fill(blocks, budget_tokens, head=head, tail=tail, estimator=estimator, chars_max=chars_max)
    assert estimate_tokens(filled.text, estimator) == filled.tokens <= budget_tokens
    assert len(filled.text) <= chars_max
    assert sorted((*filled.taken, *filled.left_out)) == sorted(block.id for block in blocks)
    assert bool(filled.taken) == bool(filled.text)


def test_a_block_too_many_makes_room_for_a_shorter_one() -> None:
    """Blocks stand in their order; one that does not fit is left out, a later one that fits is taken."""
    blocks = [Block("a", "alpha"), Block("b", "word " * 500), Block("c", "gamma")]
    filled = fill(blocks, 100, head="H", tail="T")
    assert filled.text == "H\nalpha\ngamma\nT"
    assert (filled.taken, filled.left_out) == (("a", "c"), ("b",))


def test_a_block_loses_its_last_lines() -> None:
    """Of a block with several lines as many whole ones as fit are kept."""
    filled = fill([Block("a", "first line\n" + "word " * 500)], 100)
    assert (filled.text, filled.taken) == ("first line", ("a",))


def test_head_and_tail_that_do_not_fit_leave_nothing() -> None:
    """Without room for head and tail, and without any block, the text is empty."""
    assert fill([Block("a", "alpha")], 100, head="word " * 500).text == ""
    assert fill([], 100, head="H").text == ""


def test_fifty_huge_items_keep_within_the_characters_of_an_agent() -> None:
    """Fifty items of 64 KiB give at most the characters that agents take, however large the budget is."""
    blocks = [Block(str(n), "\n".join(["retry the delivery five times " * 3] * 700)) for n in range(50)]
    filled = fill(blocks, limits.INJECT_TOKENS_MAX)
    assert 0 < len(filled.text) <= limits.INJECT_CHARS
    assert filled.tokens <= limits.INJECT_TOKENS_MAX
