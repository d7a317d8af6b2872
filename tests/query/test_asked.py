from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.query.asked import read
from headwater.schemas import limits

TODAY = datetime(2026, 3, 26, 10, 0, tzinfo=UTC)  # a Thursday


def days(query: str) -> str:
    """Return the days that a query names, `first..last`, "" for none."""
    found = read(query, TODAY).days
    return "" if found is None else f"{found.since:%m-%d}..{found.until:%m-%d}"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("what did we decide on 2026-03-24?", "03-24..03-25"),
        ("2026/3/24 refund", "03-24..03-25"),
        ("2026년 3월 24일 환불", "03-24..03-25"),
        ("2026年3月24日の返金", "03-24..03-25"),
        ("3월 24일에 뭐 했지", "03-24..03-25"),
        ("3月24日做了什么", "03-24..03-25"),
        ("March 24 refund", "03-24..03-25"),
        ("March 24th, 2026", "03-24..03-25"),
        ("24 March", "03-24..03-25"),
        ("the 24th of March 2026", "03-24..03-25"),
        ("what happened today", "03-26..03-27"),
        ("yesterday's deadlock", "03-25..03-26"),
        ("the day before yesterday", "03-24..03-25"),
        ("어제 고친 버그", "03-25..03-26"),
        ("오늘 아침", "03-26..03-27"),
        ("그저께 결정", "03-24..03-25"),
        ("昨日の変更", "03-25..03-26"),
        ("一昨日の変更", "03-24..03-25"),
        ("今日やったこと", "03-26..03-27"),
        ("昨天改了什么", "03-25..03-26"),
        ("前天的错误", "03-24..03-25"),
        ("今天的测试", "03-26..03-27"),
        ("3 days ago", "03-23..03-24"),
        ("3일 전 배포", "03-23..03-24"),
        ("3日前の障害", "03-23..03-24"),
        ("3天前的部署", "03-23..03-24"),
        ("what broke last Tuesday", "03-24..03-25"),
        ("last Thursday", "03-19..03-20"),  # not today
        ("지난 화요일 배포", "03-24..03-25"),
        ("지난주 화요일", "03-17..03-18"),
        ("先週の火曜日", "03-17..03-18"),
        ("上周二的部署", "03-17..03-18"),
        ("last week", "03-16..03-23"),
        ("지난주 회의", "03-16..03-23"),
        ("先週の変更", "03-16..03-23"),
        ("上周的部署", "03-16..03-23"),
        ("December 1", "12-01..12-02"),  # of the year before: it is not yet December
        ("refund retries", ""),
        ("date.today() fails", ""),
        ("today() returns UTC", ""),
        ("version 2026.13.45", ""),
        ("2026-02-30 is no day", ""),
        ("9999-12-31", ""),
        ("may I ask", ""),
    ],
)
def test_days_of_a_query(query: str, wanted: str) -> None:
    """A date or plain words of four languages name whole days; what only looks like one names none."""
    assert days(query) == wanted


def test_december_is_of_the_year_before() -> None:
    """A day without a year is the last one that is not to come."""
    found = read("December 1", TODAY).days
    assert found is not None
    assert found.since == datetime(2025, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("show evt_0ab1c2 and mem_x1", ("evt_0ab1c2", "mem_x1")),
        ("mem_1 보여줘", ("mem_1",)),
        ("mem_1을 자세히", ("mem_1",)),
        ("ses_9 を表示 ses_9", ("ses_9",)),
        ("the item_id of event_store", ()),
        ("my_evt_loop", ()),
        (" ".join(f"evt_{n}" for n in range(99)), tuple(f"evt_{n}" for n in range(limits.EXPAND_MAX))),
    ],
)
def test_ids_of_a_query(query: str, wanted: tuple[str, ...]) -> None:
    """Ids are found in any sentence, each once, EXPAND_MAX at most; parts of other names are none."""
    assert read(query, TODAY).ids == wanted


@pytest.mark.parametrize(
    "query",
    [
        "explain the refund in detail",
        "more details on the webhook",
        "show me the full answer",
        "Tell me more about it",
        "환불 자세히 알려줘",
        "구체적으로 설명해줘",
        "返金を詳しく教えて",
        "詳細を見せて",
        "请详细说明退款",
        "查看详情",
    ],
)
def test_words_that_ask_for_detail(query: str) -> None:
    """Plain words of four languages ask for the whole."""
    assert read(query, TODAY).wants_details


@pytest.mark.parametrize(
    "query",
    ["detail page is slow", "OrderDetail", "詳細画面のバグ", "商品详细页", "상품 상세 페이지", "full index"],
)
def test_words_that_only_name_a_detail(query: str) -> None:
    """A page of details is a subject, not a wish."""
    assert not read(query, TODAY).wants_details


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("explain the refund in detail", "explain the refund"),
        ("explain the refund in great detail", "explain the refund"),
        ("스키마를 자세히", "스키마를"),
        ("スキーマを詳しく", "スキーマを"),
        ("tell me more", "tell me more"),
        ("refund", "refund"),
    ],
)
def test_subject_of_a_query(query: str, wanted: str) -> None:
    """Words that ask for detail are not looked for, unless there are no others."""
    assert read(query, TODAY).subject == wanted


@given(st.text(max_size=200))
def test_no_text_raises(query: str) -> None:
    """Whatever is typed is read."""
    read(query, TODAY)
