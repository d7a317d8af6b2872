from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.query.summary import first_sentence, preview, query_terms, summary
from headwater.schemas import limits

LONG = "It began well. " + "Nothing of note happened here. " * 20


@pytest.mark.parametrize(
    ("content", "query", "wanted"),
    [
        ("Short text", "", "Short text"),
        (LONG + "The cache expires too early. " + LONG, "cache expiry", "The cache expires too early."),
        (
            "긴 이야기입니다. " * 20 + "캐시가 너무 빨리 만료된다. 끝.",
            "캐시 만료",
            "캐시가 너무 빨리 만료된다.",
        ),
        ("長い話です。" * 30 + "キャッシュの期限が短い。終わり。", "キャッシュ", "キャッシュの期限が短い。"),
        ("很长的故事。" * 30 + "缓存过期太早。结束。", "缓存过期", "缓存过期太早。"),
        ("Do this:\n```python\nx = 1\n```\nthen stop", "", "Do this: [python code] then stop"),
        ("```\nx\n```", "", "[code]"),
        ("Open:\n```ts\nnever closed", "", "Open: [ts code]"),
        ("Look:\n```python\nimport os\nretry_count = 3\n```", "retry_count", "retry_count = 3"),
        ("version 1.5 of a.b is out", "1.5", "version 1.5 of a.b is out"),
        ("a\x00b\u2028c\td", "", "a\ufffdb c d"),
    ],
)
def test_summary_says_what_matched(content: str, query: str, wanted: str) -> None:
    """The matching sentence stands for the text, its beginning when there is no query, code abbreviated around it."""
    assert summary(content, query) == wanted


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("Edit src/core/event-store.ts first. Then run it.", "Edit src/core/event-store.ts first."),
        ("Upgrade to v1.2 of a.b now. Then stop.", "Upgrade to v1.2 of a.b now."),
        ("Use a retry, e.g. five times. Then stop.", "Use a retry, e.g. five times."),
        ('He said "stop." Then left.', 'He said "stop."'),
        ("재시도를 다섯 번으로 늘렸다. 그리고 끝.", "재시도를 다섯 번으로 늘렸다."),
        ("「期限が短い。」と言った。終わり。", "「期限が短い。」"),
        ("缓存过期太早。结束。", "缓存过期太早。"),
        ("本当に？！はい。", "本当に？！"),
        ("No stop at all", "No stop at all"),
        ("x" * 150, "x" * 99 + "…"),
        ("```python\nx = 1.\n```\nis wrong. So.", "[python code] is wrong."),
        ("```\nx\n```", "[code]"),
        ("", "[tool Bash]"),
        (" \n", "[tool Bash]"),
    ],
)
def test_first_sentence(content: str, wanted: str) -> None:
    """The first sentence of each language, whole: no stop inside a name or a number ends it, and it is never empty."""
    assert first_sentence(content, label="[tool Bash]") == wanted
    assert len(wanted) <= limits.SUMMARY_CHARS


def test_long_sentence_is_shown_around_its_match() -> None:
    """A sentence longer than the line is cut on both sides of what matched."""
    text = "word " * 60 + "needle " + "word " * 60
    line = summary(text, "needle")
    assert "needle" in line
    assert line.startswith("…")
    assert line.endswith("…")
    assert len(line) <= limits.SUMMARY_CHARS


def test_whole_sentences_when_they_fit() -> None:
    """The beginning ends at a sentence when that fills enough of the line, else at a word."""
    assert (
        summary("A first sentence that is quite long already. " + "word " * 50)
        == "A first sentence that is quite long already."
    )
    assert summary("Oh. " + "word " * 50).endswith("word…")


@pytest.mark.parametrize(
    ("sentence", "others"),
    [
        (
            "The refund test fails since the clock is mocked twice in v1.2 of event-store.ts. " * 2,
            "word " * 50,
        ),
        ("재시도를 다섯 번으로 늘리고 대기 시간을 두 배로 했다. " * 6, "단어 " * 50),
        ("再試行を五回に増やして待ち時間を二倍にした。" * 7, "言葉" * 90),
        ("重试次数增加到五次，等待时间加倍。" * 9, "词语" * 90),
    ],
)
def test_preview_ends_with_a_sentence(sentence: str, others: str) -> None:
    """A preview ends with a whole sentence of each language when that fills most of it."""
    assert preview(sentence.strip() + " " + others) == sentence.strip()
    assert preview("Oh. " + others * 2).endswith("…")


def test_empty_text_has_its_label() -> None:
    """What has no text is named by what it is."""
    assert summary("", "query", label="tool Bash") == "[tool Bash]"
    assert summary(" \n\t") == "[empty]"
    assert preview("", label="session start") == "[session start]"


@pytest.mark.parametrize(
    "grapheme",
    ["e\u0301", "👩\u200d👩\u200d👧", "❤\ufe0f", "👍\U0001f3fd", "🇩🇪", "\u1112\u1161\u11ab", "1\ufe0f\u20e3"],
)
def test_graphemes_stay_whole(grapheme: str) -> None:
    """A cut never leaves half of what is seen as one sign."""
    for start in range(12):
        for line in (summary("x" * start + grapheme * 200), preview("x" * start + grapheme * 200)):
            body = line.rstrip("…").lstrip("x")
            assert body == grapheme * (len(body) // len(grapheme))


@given(st.text(max_size=400), st.text(max_size=40))
def test_any_text_gives_one_line(content: str, query: str) -> None:
    """Whatever the text and the query: one line, not empty, not too long, valid Unicode."""
    for line, most in (
        (summary(content, query), limits.SUMMARY_CHARS),
        (preview(content), limits.PREVIEW_CHARS),
        (first_sentence(content, label="[empty]"), limits.SUMMARY_CHARS),
    ):
        assert 0 < len(line) <= most
        assert len(line.splitlines()) == 1
        line.encode()


def test_terms_of_a_long_query_are_bounded() -> None:
    """A pasted page does not become a thousand terms."""
    assert len(query_terms("word_a " + " ".join(f"word{n}" for n in range(5_000)))) <= limits.SUMMARY_TERMS
