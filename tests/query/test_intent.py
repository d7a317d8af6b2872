from __future__ import annotations

import pytest

from headwater.query.intent import Intent, intent_of


@pytest.mark.parametrize(
    "query",
    [
        "How many retries are there?",
        "When did it break",
        "What port is it on",
        "몇 분 동안 살아 있나",
        "何日に直した",
        "每秒多少条",
    ],
)
def test_wants_a_number(query: str) -> None:
    """How many, how long, when and which day are answered with a number, in four languages."""
    assert intent_of(query).number


@pytest.mark.parametrize(
    "query",
    [
        "What did I ask for on Monday?",
        "which change was requested",
        "무엇을 요청했지",
        "頼んだ作業は",
        "我问过什么",
    ],
)
def test_wants_what_was_asked(query: str) -> None:
    """What a person asked for stands in what the person wrote."""
    assert intent_of(query).asked


@pytest.mark.parametrize(
    ("query", "edge"),
    [
        ("What was done last on March 19?", 1),
        ("最初のセッションで作ったもの", -1),
        ("그날 마지막 작업", 1),
        ("at the start and at the end", 0),
        ("What broke on March 19?", 0),
    ],
)
def test_first_or_last(query: str, edge: int) -> None:
    """The last and the first of a day; both is neither."""
    assert intent_of(query).edge == edge


def test_a_plain_question_wants_nothing_of_it() -> None:
    """A question about a subject alone has no such wish."""
    assert intent_of("Why is the lock taken before the read?") == Intent(number=False, asked=False, edge=0)
