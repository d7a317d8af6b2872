"""Pure functions on text: what goes into which search column, and one line of a long text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from headwater.schemas import limits

# Hangul, Hiragana, Katakana (full and half width), Han with its extensions, compatibility forms and iteration marks
_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u303b\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
# one word, or words joined by . / : :: @ # \ -; each character is looked at once, whatever the text
_WORD = re.compile(r"[A-Za-z0-9_$]+(?:(?:::|[./:@#\\-])[A-Za-z0-9_$]+)*")
# what makes a word an identifier, path, dotted name or flag: a joint, or a capital or digit inside
_CODE_SIGN = re.compile(
    r"[./:@#\\-]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z][0-9]|[0-9][A-Za-z]|[A-Za-z0-9]_|_[A-Za-z0-9]"
)
_LETTER = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(
    "[A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a]+"
)
_SPACE = re.compile(r"\s+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ZWJ = "\u200d"
_MARKS = frozenset({"Mn", "Mc", "Me"})
_CODE_LINE = re.compile(
    r"^[ \t]*+(?:(?:def|class|import|from|function|const|let|var|return|public|private|async|fn|func|struct|if|for)"
    r"\b.*[:;{(=]"
    r"|.*[;{}][ \t]*$|[$>]{1,3} \S.*|SELECT\b.*|#include\b.*)",
    re.MULTILINE,
)


def cjk_runs(text: str) -> str:
    """Return the distinct runs of Hangul, Kana and Han in order of appearance, joined by a space.

    Composed (NFKC), so that half-width and decomposed writing of a word meet its usual one.
    """
    return " ".join(dict.fromkeys(unicodedata.normalize("NFKC", run) for run in _CJK_RUN.findall(text)))


def other_script_share(texts: Iterable[str]) -> float:
    """Return which share of the letters of some texts, in [0, 1], are of another script than Latin; 0 without any."""
    letters = others = 0
    for text in texts:
        found = "".join(_LETTER.findall(text[: limits.FEATURE_CHARS]))
        letters += len(found)
        others += len(_LATIN.sub("", found))
    return others / letters if letters else 0.0


def code_words(text: str) -> str:
    """Return the distinct identifiers, paths and dotted names in order of appearance, joined by a space."""
    words = dict.fromkeys(_WORD.findall(text))  # each looked at once: words of an output repeat
    return " ".join(word for word in words if (_is_code if len(word) <= _KEPT_CHARS else _has_sign)(word))


def _has_sign(word: str) -> bool:
    return _CODE_SIGN.search(word) is not None


_KEPT_CHARS = 64  # of a word that is kept: longer ones come once, and 32,768 of them would be a gigabyte
_is_code = lru_cache(maxsize=32768)(_has_sign)  # the words of a project come again and again


def one_line(text: str, chars_max: int) -> str:
    """Return the text as one line of at most `chars_max` characters, cut at a word with an ellipsis when longer."""
    return cut(_SPACE.sub(" ", text).strip(), chars_max)


def cut(line: str, chars_max: int) -> str:
    """Return at most `chars_max` characters (at least 1) of a line, cut at a word when near, never in a grapheme."""
    if len(line) <= chars_max:
        return line
    end = boundary(line, chars_max - 1)
    space = line.rfind(" ", 0, end + 1)
    if space > chars_max // 2:
        end = space
    return line[:end].rstrip().rstrip(_ZWJ) + "…"


def boundary(text: str, index: int) -> int:
    """Return the largest place <= `index` where the text can be cut without splitting a grapheme.

    Combining marks, joiners, variation selectors, skin tones, flags and conjoining jamo stay with what they belong to.
    """
    while 0 < index < len(text) and (
        _joins_back(text[index]) or text[index - 1] == _ZWJ or _splits_flag(text, index)
    ):
        index -= 1
    return index


def _joins_back(char: str) -> bool:
    return (
        char == _ZWJ
        or "\u1160" <= char <= "\u11ff"  # vowels and finals of conjoining jamo
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or unicodedata.category(char) in _MARKS  # combining marks, variation selectors, keycaps
    )


def _splits_flag(text: str, index: int) -> bool:
    start = index
    while start > 0 and "\U0001f1e6" <= text[start - 1] <= "\U0001f1ff":
        start -= 1
    return (index - start) % 2 == 1 and "\U0001f1e6" <= text[index] <= "\U0001f1ff"


def has_code(text: str) -> bool:
    """Return whether the text holds code: a fence, or at least two lines that look like it."""
    return "```" in text or sum(1 for _ in zip(_CODE_LINE.finditer(text), range(2), strict=False)) == 2


def clean_text(text: str) -> str:
    """Return the text as valid Unicode without NUL: lone surrogates and NUL become U+FFFD, for no store takes them."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    return _SURROGATE.sub("\ufffd", text)
