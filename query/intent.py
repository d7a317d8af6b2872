"""What kind of answer a query wants, by its words: a number, what was asked, the first or the last."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(
    r"\bhow (?:many|much|long|big|large|often|fast|old|high|far|late)\b"
    r"|\bwhat (?:number|percentage|share|size|amount|limit|time|age|version|port|value)\b|\bwhen\b"
    r"|몇|얼마|언제|いくつ|いくら|いつ|どのくらい|どれくらい|何[件個回日月年分秒人本倍行%]|几|多少|多大|多久|多长|什么时候|何时",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"\b(?:did|do|have|had) i (?:ask|request|want|say|tell)|\b(?:was|were|been) (?:asked|requested)\b"
    r"|\b(?:ask|asked|request|requested) for\b|\bmy (?:request|question|prompt)s?\b"
    r"|요청|부탁|물어|시켰|頼|依頼|お願い|聞いた|質問|让你|要求|问了|问过",
    re.IGNORECASE,
)
_LAST = re.compile(
    r"\b(?:last|final|finally|the end)\b|마지막|끝에|最後|最終|終わり|最后|末尾", re.IGNORECASE
)
_FIRST = re.compile(
    r"\b(?:first|initial|initially|at the start|the beginning)\b|처음|최초|最初|初め|始め|最早|开头|首先|第一",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Intent:
    """`number`: the answer holds one; `asked`: a person wrote it; `edge`: the last (1), the first (-1), any (0)."""

    number: bool
    asked: bool
    edge: int


def intent_of(query: str) -> Intent:
    """Return what kind of answer a query wants. A query that says first and last wants neither."""
    last, first = bool(_LAST.search(query)), bool(_FIRST.search(query))
    return Intent(bool(_NUMBER.search(query)), bool(_ASKED.search(query)), int(last) - int(first))
