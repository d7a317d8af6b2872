"""What a query says beside its subject: ids of items, that somebody wants details, days. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from headwater.query.when import days_named
from headwater.schemas import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_ID = re.compile(r"(?<![A-Za-z0-9_])(?:evt|mem|ses)_[A-Za-z0-9_]+")
_DETAIL = re.compile(
    r"\bin (?:more |full |great |greater )?detail\b|\bmore details?\b|\btell me more\b|\belaborate\b|\bword for word\b"
    r"|\bverbatim\b|\bfull text\b|\b(?:show|give|tell)(?: me| us)?(?: all| the)* (?:full|whole|details?)\b"
    r"|자세히|자세하게|상세히|상세하게|구체적으로|전문을|전체 내용"
    r"|詳しく|くわしく|詳細[をにはも]|全文"
    r"|(?:详细|詳細)(?:地|说|說|讲|講|介绍|介紹|解释|解釋|描述|内容|内容|点|一点|看看|告诉)|(?:查看|看|显示|展示)详情|详细$|具体说|具体讲",
    re.IGNORECASE,
)

_DAYS_AGO = {
    "today": 0, "오늘": 0, "今日": 0, "きょう": 0, "今天": 0,
    "yesterday": 1, "어제": 1, "昨日": 1, "きのう": 1, "昨天": 1,
    "day before yesterday": 2, "그저께": 2, "그제": 2, "엊그제": 2, "一昨日": 2, "おととい": 2, "前天": 2,
}  # fmt: skip
_WEEKDAYS = {
    name: n
    for n, names in enumerate(
        (
            "monday 월 月 一",
            "tuesday 화 火 二",
            "wednesday 수 水 三",
            "thursday 목 木 四",
            "friday 금 金 五",
            "saturday 토 土 六",
            "sunday 일 日 日 天",
        )
    )
    for name in names.split()
}
_NOT_CODE = r"(?<![\w.])(?:{})(?![\w(])"  # `date.today()` names no day
_WORDS = re.compile(
    _NOT_CODE.format("day before yesterday|yesterday|today")
    + "|"
    + "|".join(sorted((word for word in _DAYS_AGO if not word.isascii()), key=len, reverse=True)),
    re.IGNORECASE,
)
_AGO = re.compile(r"(?<![\w.])(\d{1,3}) ?(?:days? ago|일 ?전|日前|天前)", re.IGNORECASE)
_LAST_WEEKDAY = re.compile(
    r"\b(?:last|on|this past) (monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b"
    r"|지난 ([월화수목금토일])요일|(?:この前|前)の([月火水木金土日])曜日?",
    re.IGNORECASE,
)
_WEEK_BEFORE = re.compile(
    r"지난 ?주 ([월화수목금토일])요일|先週の?([月火水木金土日])曜日?|上(?:周|星期|个星期|礼拜)([一二三四五六日天])"
)
_LAST_WEEK = re.compile(r"\blast week\b|지난 ?주|先週|上周|上星期|上个星期", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Days:
    """Whole local days as times in UTC: since inclusive, until exclusive."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query says beside its subject: ids in their order, whether details are wanted, the days it names.

    `subject` is the query without the words that ask for detail: they are not what is looked for.
    """

    subject: str
    ids: tuple[str, ...] = ()
    wants_details: bool = False
    days: Days | None = None


def read(query: str, today: datetime) -> Asked:
    """Return what a query says; `today` is the present, aware, in the zone of the person who asks. Never raises."""
    text = query[: limits.QUERY_CHARS]
    ids = tuple(dict.fromkeys(_ID.findall(text)))[: limits.EXPAND_MAX]
    subject = _DETAIL.sub(" ", text).strip()
    return Asked(subject or text, ids, _DETAIL.search(text) is not None, _days(text, today))


def whole_days(first: date, last: date, zone: datetime) -> Days:
    """Return the local days from first to last in the zone of the person whose present `zone` is."""
    return Days(_midnight(first, zone), _midnight(last + timedelta(days=1), zone))


def _midnight(day: date, zone: datetime) -> datetime:
    """Return when a day begins; by the rules of this machine's zone for that day, not by today's offset."""
    if zone.tzinfo is UTC:
        return datetime.combine(day, time(), UTC)
    return datetime.combine(day, time()).astimezone(UTC)


def _days(text: str, today: datetime) -> Days | None:
    """Return the first days that a text names, of the exactest way to name some; days that are none are passed over."""
    for reader in (_dated, _worded, _weekday, _week):
        for first, last in reader(text, today.date()):
            try:
                return whole_days(first, last, today)
            except (OverflowError, ValueError, OSError):
                continue  # the first or last day that there is
    return None


def _dated(text: str, today: date) -> Iterator[tuple[date, date]]:
    """Yield the days that stand there with their date; without a year, the last such day that is not to come."""
    for year, month, day in days_named(text, slashed=False):
        for near in (today.year, today.year - 1) if year is None else (year,):
            try:
                found = date(near, month, day)
            except ValueError:
                continue  # 29 February
            if year is not None or found <= today:
                yield found, found
                break


def _worded(text: str, today: date) -> Iterator[tuple[date, date]]:
    for found in _WORDS.finditer(text):
        yield from _ago(today, _DAYS_AGO[found[0].lower()])
    for found in _AGO.finditer(text):
        yield from _ago(today, int(found[1]))


def _ago(today: date, days: int) -> Iterator[tuple[date, date]]:
    day = today - timedelta(days=days)
    yield day, day


def _weekday(text: str, today: date) -> Iterator[tuple[date, date]]:
    for found in _WEEK_BEFORE.finditer(text):
        day = _monday(today) - timedelta(days=7) + timedelta(days=_weekday_of(found))
        yield day, day
    for found in _LAST_WEEKDAY.finditer(text):
        yield from _ago(today, (today.weekday() - _weekday_of(found) - 1) % 7 + 1)


def _weekday_of(found: re.Match[str]) -> int:
    return _WEEKDAYS[next(part for part in found.groups() if part is not None).lower()]


def _week(text: str, today: date) -> Iterator[tuple[date, date]]:
    if _LAST_WEEK.search(text):
        first = _monday(today) - timedelta(days=7)
        yield first, first + timedelta(days=6)


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
