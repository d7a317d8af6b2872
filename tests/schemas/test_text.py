from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.text import (
    boundary,
    cjk_runs,
    clean_text,
    code_words,
    cut,
    has_code,
    one_line,
    other_script_share,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain words; and more.", False),
        ("Use `x` here", False),
        ("```\nx\n```", True),
        ("def f(x):\n    return (x)\n", True),
        ("const a = 1;\nlet b = 2;", True),
        ("Import the file.\nReturn it to me.", False),
    ],
)
def test_code_is_seen(text: str, wanted: bool) -> None:
    """A fence, or two lines that look like code, are code; a sentence with a code word is not."""
    assert has_code(text) is wanted


@given(st.text(max_size=300), st.integers(1, 60))
def test_cut_keeps_to_its_length(text: str, most: int) -> None:
    """Whatever the text, the line is not longer than asked, and a short one is left alone."""
    line = one_line(text, most)
    assert len(line) <= most
    assert len(cut(text, most)) <= most
    assert cut(text, len(text) + 1) == text


def test_boundary_of_flags() -> None:
    """Flags are pairs: a cut falls between two of them."""
    assert [boundary("🇩🇪🇫🇷", n) for n in range(5)] == [0, 0, 2, 2, 4]


def test_columns_of_a_text() -> None:
    """Identifiers and runs of CJK are taken out, each once; what no store takes is replaced."""
    assert code_words("see src/a.py, fooBar and fooBar, not words") == "src/a.py fooBar"
    assert cjk_runs("로그 and 로그, 検索") == "로그 検索"
    assert clean_text("a\x00\ud800b") == "a\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("call std::vector in HTTPServer.run", "std::vector HTTPServer.run"),
        ("parse_json와 retry_count를 고쳤다", "parse_json retry_count"),
        ("`useState`を呼び出すと src/画面/a.ts で utf8 の error", "useState a.ts utf8"),
        ("修改 config.yaml 里的 max_tokens 和 --no-cache", "config.yaml max_tokens no-cache"),
        ("a plain sentence, with a name: Anna. ____ $ -- :: _", ""),
        ("see https://example.org/x, pkg@1.2.3 and src\\a.c", "example.org/x pkg@1.2.3 src\\a.c"),
        ("IOError, x86 and 3rd", "IOError x86 3rd"),
    ],
)
def test_code_words_in_all_languages(text: str, wanted: str) -> None:
    """Identifiers, paths and dotted names are found in prose of any language, plain words are not."""
    found = code_words(text).split()
    assert found == wanted.split()


@pytest.mark.parametrize("piece", ["a", "aA", "a1", "_", "a.", "a::", ":", "$", "0", "-"])
def test_code_words_take_linear_time(piece: str) -> None:
    """A text that is one endless word, as in a dump, is looked at once: the full size of a text returns."""
    assert isinstance(code_words(piece * (65_536 // len(piece))), str)


def test_has_code_takes_linear_time() -> None:
    """Blank lines of any length, and signs in a row, cost nothing much."""
    assert not has_code(" " * 65_536)
    assert not has_code("\t" * 65_536 + "x")
    assert isinstance(has_code("; " * 32_768 + "x"), bool)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("佐々木さんの検索", "佐々木さんの検索"),
        ("ｶﾞｲﾄﾞ and ガイド", "ガイド"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
        ("か\u3099き", "がき"),
        ("中文abc中文，中文", "中文"),
        ("한국어 검색과 日本語 and 中文", "한국어 검색과 日本語 中文"),
        ("nothing here, ¿verdad? Привет", ""),
        ("𠮷野家", "𠮷野家"),
    ],
)
def test_cjk_runs_are_composed(text: str, wanted: str) -> None:
    """Runs stay whole with their iteration marks; half-width and decomposed writing equals the usual one."""
    assert cjk_runs(text) == wanted


@given(st.text(max_size=200))
def test_text_columns_can_be_stored(text: str) -> None:
    """Whatever comes in, cleaned text and its columns are valid Unicode without NUL."""
    clean = clean_text(text)
    for column in (clean, cjk_runs(clean), code_words(clean), one_line(clean, 40)):
        column.encode("utf-8")
        assert "\x00" not in column
    assert clean_text(clean) == clean


@given(st.text(st.sampled_from("ab \n\r\t\u2028\x85e\u0301👩\u200d💻🇩🇪한"), max_size=60), st.integers(1, 20))
def test_one_line_is_one_line(text: str, most: int) -> None:
    """No line break of any kind is left, and the cut never leaves a mark or joiner at its end."""
    line = one_line(text, most)
    assert len(line.splitlines()) <= 1
    assert len(line) <= most
    if line.endswith("…") and len(line) > 1:
        assert line[-2] != "\u200d"


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        ([], 0.0),
        (["", "123 _ !?"], 0.0),
        (["plain English", "naïve café Ǆ ﬁ Ａ"], 0.0),
        (["결제", "재시도"], 1.0),
        (["ab 冪等", "キー cd"], 0.5),
        (["кот", "abc"], 0.5),
    ],
)
def test_share_of_other_scripts(texts: list[str], share: float) -> None:
    """Letters are counted, not words or signs; full width and accented ones are Latin."""
    assert other_script_share(texts) == pytest.approx(share)
