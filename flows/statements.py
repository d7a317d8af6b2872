"""Statements: what a turn said, and which of two turns reverses the other. Lexical, for four languages.

Only a person reverses a decision: a prompt that drops something by name ("forget", "no longer", 취소, 廃止, 作废 and
the like) which an older turn had taken up, or that gives another value of the same measure about the same subject. It
is meant to be right rather than complete: a wrong mark hides a true memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.features import stem, text_features

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# a sentence ends at its sign before a space (or at CJK signs), at a line, or at a fence; not at the dot of a file name
_SENTENCE = re.compile(r"(?<=[.!?;:])(?<!\s\d\.)(?<!^\d\.)\s+(?=\S)|(?<=[。！？；])|\n+|```[\w+-]*")
_CLAUSE = re.compile(
    r"(?<=[.!?;:,])\s+|(?<=[。！？；、，])|\n+|(?<=고)\s+"
)  # what a dropping word can refer to
_LIST_MARK = re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")
# a number with what it counts: 72 h, 20MB, 16개, 10,000 件, 50条; versions, dates and code are not measures
_MEASURE = re.compile(
    r"(?<![\w.,/#:-])~?(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s?(%|[A-Za-z]{1,12}(?![\w(])|[\uac00-\ud7a3\u3040-\u30ff\u4e00-\u9fff]{1,2})"
)
_UNITS = {
    unit: (kind, factor)
    for kind, factor, units in (
        ("time", 0.001, "ms"),
        ("time", 1.0, "s sec second 초 秒"),
        ("time", 60.0, "m min minute 분 分"),
        ("time", 3600.0, "h hr hour 시간 時間 小时"),
        ("time", 86_400.0, "d day 일 日 天"),
        ("size", 0.001, "k kb kib"),
        ("size", 1.0, "mb mib 메가 兆"),
        ("size", 1000.0, "gb gib 기가"),
    )
    for unit in units.split()
}
_MEASURED = frozenset({"%", "test", "row", "rps"})  # what is observed, not decided
_NOT_UNITS = frozenset(
    [
        "and",
        "or",
        "of",
        "to",
        "in",
        "the",
        "a",
        "an",
        "is",
        "at",
        "on",
        "for",
        "with",
        "from",
        "by",
        "x",
        "per",
        "vs",
        "if",
    ]
)
_DROPS = re.compile(
    r"\b(?:forget|drop(?:s|ped)?|no longer|instead of|rather than|replac(?:es|ed|ing)|gone|removed?|get rid of|"
    r"wrong call|"
    r"abandon(?:ed)?|scrap(?:ped)?|not? .{1,20} any ?more|revert(?:ed)?|rip out|ditch(?:ed)?|out with)\b"
    r"|버리|버림|버려|폐기|취소|빼고|빼자|빼$|끄고|꺼|없애|대신|그만|철회|안 ?쓰|지우고|지워"
    r"|廃止|やめ|止め|外し|外す|外そ|不採用|捨て|取り消|撤回|不要|代わり|削除"
    r"|消し|消す|なしに|なしで|却下|じゃなく|ではなく|没に|使わない"
    r"|作废|废弃|去掉|弃用|不用|放弃|换掉|取消|扔掉|砍掉|不再|不要了|不要用|别用|撤掉|删了|删除|淘汰|推翻|算了",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:mov(?:e|ed|ing) .{1,40} to|switch(?:ed)? to|chang(?:e|ed) .{0,40}to|rais(?:e|ed)|lower(?:ed)?|now|"
    r"from .{1,30} to|go(?:es)? (?:with|to))\b|\bmake .{1,30}\d"
    r"|바꾸|바꿔|바꿨|변경|옮기|전환|늘리|늘려|줄이|줄여|올리|올려|내리|에서 .{1,20}로|로 가자|로 하자|로 정하"
    r"|変更|変え|切り替え|移行|置き換え|上げ|下げ|増や|減ら|伸ば|移し|移す"
    r"|から.{1,20}に|にして|にする|にしよう|でいこう|で行こう"
    r"|改为|改成|换成|改用|提到|调到|改到|提高|降到|加到|减到|调成|缩短|延长|放宽|换|从.{1,20}到",
    re.IGNORECASE,
)
_TERSE_NAMES = 6  # of a prompt: one with more tells what happened, unless it says what to change
_QUESTION = re.compile(
    r"[?？]\s*$|^(?:should|shall|could|can|what|why|how|where|when|which|is|are|does|do we|did)\b"
    r"|(?:나|까|더라|뭐지|는지)$|(?:か|かな|っけ)$|[吗呢]$|怎么|为什么",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a turn said: the prompt and its answer, kept as text; the rest follows from them.

    `event_id` is the prompt's. `names` are stems of all that is named, `asked_names` of what the prompt names.
    """

    event_id: str
    asked: str
    answered: str
    names: frozenset[str]
    asked_names: frozenset[str]
    dropped: frozenset[str]
    values: tuple[tuple[str, float], ...]
    asked_values: tuple[tuple[str, float], ...]
    changes: bool

    def plain(self) -> list[Any]:
        """Return what is kept of a statement, as plain data."""
        return [self.event_id, self.asked, self.answered]


@dataclass(frozen=True, slots=True)
class Reversal:
    """An older statement and the newer one that reverses it, what was dropped or measured, and how sure that is."""

    old: Statement
    new: Statement
    shared: tuple[str, ...]
    strength: float


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, without list marks and empty ones; code in fences stays as lines.

    A colon or a full stop inside of `code` ends nothing: parts are put together again up to its closing mark.
    """
    found: list[str] = []
    for part in _SENTENCE.split(text):
        if not part or not part.strip():
            continue
        is_open = bool(found) and found[-1].count("`") % 2 == 1
        if is_open and "`" in part and len(found[-1]) < limits.CODE_SPAN_CHARS:
            found[-1] = f"{found[-1]} {part.strip()}"
        else:
            found.append(part.strip())
    return [part for part in (_LIST_MARK.sub("", part) for part in found) if part]


def statement(event_id: str, asked: str, answered: str) -> Statement:
    """Return what a turn said."""
    asked_names = _names(asked)
    dropped: set[str] = set()
    is_question = True
    for clause in _CLAUSE.split(asked):
        if not clause.strip():
            continue
        is_question = _QUESTION.search(clause) is not None
        if not is_question and _DROPS.search(clause):
            dropped |= _names(_DROPS.sub(" ", clause))
    return Statement(
        event_id,
        asked,
        answered,
        asked_names | _names(answered),
        asked_names,
        frozenset(dropped),
        tuple(dict.fromkeys((*values(asked), *values(answered)))),
        () if is_question else values(asked),
        changes=_CHANGES.search(asked) is not None,
    )


@lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    features = text_features(text)
    return frozenset(
        {stem(topic) for topic in features.topics} | {name.lower() for name in features.entities}
    )


@lru_cache(maxsize=4096)
def values(text: str) -> tuple[tuple[str, float], ...]:
    """Return the measures of a text as (what is measured, number): times in seconds, sizes in megabytes."""
    found: dict[tuple[str, float], None] = {}
    for digits, unit in _MEASURE.findall(text):
        low = unit.lower()
        if low in _NOT_UNITS:
            continue
        name = low if low.isascii() else next((u for u in (low, low[:1]) if u in _UNITS), low[:1])
        name = name.removesuffix("s") if name not in _UNITS and name.removesuffix("s") in _UNITS else name
        kind, factor = _UNITS.get(name, (stem(name), 1.0))
        found[kind, float(digits.replace(",", "")) * factor] = None
    return tuple(found)


def reversals(
    older: Sequence[Statement],
    new: Statement,
    rarity: Mapping[str, float],
    *,
    away: Collection[str] = (),
    penalty: float = 0.0,
) -> list[Reversal]:
    """Return the older statements that a newer one may reverse: one for what it drops, one for what it measures.

    `rarity` weighs the names, in [0, 1]; statements `away` (of other threads) are weaker by `penalty`. Of equally
    strong ones it is the oldest, where the decision was made.
    """
    found: dict[str, Reversal] = {}
    for dropped in (True, False):
        if not (new.dropped if dropped else new.asked_values):
            continue
        best: Reversal | None = None
        for old in older:
            made = _dropped(old, new, rarity) if dropped else _other_value(old, new, rarity)
            if made is not None and old.event_id in away:
                made = replace(made, strength=made.strength - penalty)
            if made is not None and (best is None or made.strength > best.strength):
                best = made
        if best is not None:
            held = found.get(best.old.event_id)
            if held is None or best.strength > held.strength:
                found[best.old.event_id] = best
    return list(found.values())


def _dropped(old: Statement, new: Statement, rarity: Mapping[str, float]) -> Reversal | None:
    shared = sorted((new.dropped & old.names) - old.dropped)
    if not shared:
        return None
    by_person = [name for name in shared if name in old.asked_names]
    strength = 1.0 + min(2.0, sum(rarity.get(name, 1.0) for name in shared)) * 0.5
    return Reversal(old, new, tuple(shared), strength + 0.5 * bool(by_person))


def _other_value(old: Statement, new: Statement, rarity: Mapping[str, float]) -> Reversal | None:
    asked = {kind for kind, number in new.asked_values}
    changed = sorted(
        kind
        for kind, number in old.values
        if kind in asked and kind not in _MEASURED and (kind, number) not in new.asked_values
    )
    shared = sorted(old.names & new.names) if changed else []
    if not shared:
        return None
    by_person = any(kind in changed for kind, _ in old.asked_values)
    subject = min(2.0, sum(rarity.get(name, 1.0) for name in shared))
    strength = 0.5 + 0.5 * subject + 0.5 * by_person
    if new.changes:
        strength += 0.25
    elif len(new.asked_names) > _TERSE_NAMES:
        strength -= 0.5  # a story told, not an order given
    return Reversal(old, new, (*changed, *shared), strength)
