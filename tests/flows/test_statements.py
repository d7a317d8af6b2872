from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flows.statements import reversals, sentences, statement, values
from headwater.schemas import limits


def strengths(old: tuple[str, str], new: tuple[str, str]) -> list[float]:
    """Return how strongly one turn reverses another."""
    return [one.strength for one in reversals([statement("old", *old)], statement("new", *new), {})]


def test_sentences_do_not_end_inside_names() -> None:
    """A dot in a file name, a version or a number ends nothing; lines, CJK signs and list marks do."""
    text = "In `src/ui/app.tsx` at v1.2 it takes 6.1 s. Then two:\n- first one\n2. second。third"
    assert sentences(text) == [
        "In `src/ui/app.tsx` at v1.2 it takes 6.1 s.", "Then two:", "first one", "second。", "third",
    ]  # fmt: skip


def test_code_stays_in_its_sentence() -> None:
    """A colon inside of code ends nothing; a mark that is never closed joins no more than CODE_SPAN_CHARS."""
    assert sentences("a replay carries `Replayed: true`. Five pass.") == [
        "a replay carries `Replayed: true`.", "Five pass.",
    ]  # fmt: skip
    stray = "an ` alone " + "x" * limits.CODE_SPAN_CHARS + ". Then `b`."
    assert len(sentences(stray)) == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("keep it 72 h", [("time", 259_200.0)]),
        ("60초로 가자", [("time", 60.0)]),
        ("5분으로", [("time", 300.0)]),
        ("上限は 512 MiB", [("size", 512.0)]),
        ("3小时", [("time", 10_800.0)]),
        ("5 attempts ok", [("attempt", 5.0)]),
        ("10,000 rows", [("row", 10_000.0)]),
        ("see app/x2.py, v1.2, 0043", []),
        ("8 of them", []),
    ],
)
def test_measures(text: str, wanted: list[tuple[str, float]]) -> None:
    """Times come in seconds and sizes in megabytes; numbers in names, and bare ones, measure nothing."""
    assert list(values(text)) == wanted


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("try alpine for the image", "slim then, forget alpine"),
        ("방마다 redis INCR로 가자", "B로 가자. redis INCR은 버림"),
        ("musl で静的リンクにする", "musl はやめて glibc にする"),
        ("离线缓存用bbolt", "bbolt作废，换成SQLite"),
        ("webhook delivery: 5 attempts", "8 attempts for the webhook delivery"),
        ("재연결 토큰은 60초로 가자", "재연결 토큰은 5분으로 바꾸자"),
    ],
)
def test_reversals_in_four_languages(old: str, new: str) -> None:
    """A person drops what was decided by name, or gives another value of the same measure."""
    assert max(strengths((old, ""), (new, "")), default=0.0) >= 1.4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("try alpine", ""), ("should we forget alpine?", "")),
        (("musl で静的リンク", ""), ("musl やめる？ jemalloc 入れる？", "")),
        (("use redis", ""), ("go on", "redis is no longer needed here")),
        (("webhook: 5 attempts", ""), ("webhook: 5 attempts again", "")),
        (("webhook: 5 attempts", ""), ("image: 8 layers", "")),
        (("forget alpine", ""), ("forget alpine", "")),
    ],
)
def test_what_reverses_nothing(old: tuple[str, str], new: tuple[str, str]) -> None:
    """A question, an agent's remark, the same value, another subject, and what was dropped already."""
    assert not strengths(old, new)


def test_the_decision_itself_is_found() -> None:
    """Of equally strong statements it is the oldest: where the decision was made; another thread's is weaker."""
    older = [statement("a", "use alpine", ""), statement("b", "use alpine", "")]
    (one,) = reversals(older, statement("c", "forget alpine", ""), {})
    assert one.old.event_id == "a"
    (one,) = reversals(older, statement("c", "forget alpine", ""), {}, away={"a"}, penalty=0.5)
    assert one.old.event_id == "b"


def test_a_statement_follows_from_its_texts() -> None:
    """What a snapshot keeps makes the same statement again."""
    one = statement("e", "forget alpine, use slim with 5 workers", "done in 3 s")
    assert statement(*one.plain()) == one


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_no_text_raises(one: str, two: str, three: str) -> None:
    """Whatever was said, comparing it gives strengths that are numbers."""
    found = reversals([statement("a", one, two)], statement("b", three, two), {})
    assert all(item.strength > -10 for item in found)


@pytest.mark.parametrize(
    "text", ["a " * 400, "from " * 160, "에서 " * 260, "1" * 800, "not " * 200, "から" * 400]
)
def test_odd_texts_do_not_stall(text: str) -> None:
    """Patterns with gaps stay fast on texts made of their beginnings."""
    assert statement("a", text, text).event_id == "a"
