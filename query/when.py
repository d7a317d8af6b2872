"""Days that a query names: `2025-06-05`, `14 March`, `March 14`, `3월 9일`, `4月8日`, `6/9`."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

Day = tuple[int | None, int, int]
"""Year, None when it is not named, month and day."""

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_YEAR = r"(?:,?\s+(20\d\d))?"
_ISO = re.compile(r"(?<![\d.])(20\d\d)([-/.])(\d\d?)\2(\d\d?)(?!\d)")
_DAY_FIRST = re.compile(rf"(?<!\w)(\d\d?)(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH}\b{_YEAR}", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b{_MONTH}\s+(\d\d?)(?:st|nd|rd|th)?(?!\w){_YEAR}", re.IGNORECASE)
_EAST = re.compile(r"(?:(20\d\d)\s*[年년]\s*)?(?<!\d)(\d\d?)\s*[月월]\s*(\d\d?)\s*[日日일号號]")
_SLASH = re.compile(r"(?<![\w/.])(\d\d?)/(\d\d?)(?![\w/])")
_ZONES = timedelta(hours=14)  # how far the day of some place is from that of UTC, at most
_TIME = re.compile(r"(?<![\d:])(\d\d?):([0-5]\d)(?!\d)")
_TIME_NEAR_MIN = 60.0  # minutes off a time of day where nothing speaks for a row any more
_NEAR = 0.5  # of a time that is on the day somewhere on Earth, not by UTC


def days_named(query: str, *, slashed: bool = True) -> list[Day]:
    """Return (year, month, day) of each day that a query names, each once; the year is None when it names none.

    `slashed`: 6/9 is a day as well, and no share of something.
    """
    found: list[Day] = [(int(y), int(m), int(d)) for y, _, m, d in _ISO.findall(query)]
    found += [(_year(y), _month(m), int(d)) for d, m, y in _DAY_FIRST.findall(query)]
    found += [(_year(y), _month(m), int(d)) for m, d, y in _MONTH_FIRST.findall(query)]
    found += [(_year(y), int(m), int(d)) for y, m, d in _EAST.findall(query)]
    found += [(None, int(m), int(d)) for m, d in _SLASH.findall(query) if slashed]
    return [one for one in dict.fromkeys(found) if _is_day(*one)]


def times_named(query: str) -> list[int]:
    """Return the times of day that a query names (`21:36`), in minutes from midnight."""
    return [int(hour) * 60 + int(minute) for hour, minute in _TIME.findall(query) if int(hour) < 24]


def on_days(at: pl.Expr, days: list[Day]) -> pl.Expr:
    """Return the filter of times on one of the days by UTC."""
    one_of = pl.lit(value=False)
    for year, month, day in days:
        same = (at.dt.month() == month) & (at.dt.day() == day)
        one_of |= same if year is None else same & (at.dt.year() == year)
    return one_of


def day_shares(at: pl.Series, days: list[Day], times: Sequence[int] = ()) -> pl.Series:
    """Return for each time 1.0 when it is on one of the days by UTC, 0.5 when somewhere on Earth, else 0.0.

    Where times of day are named as well, a time on the day counts from a half to whole, the nearer to one of them.
    """

    def share(moment: datetime) -> float:
        on_day = _on_day(moment)
        if on_day < 1.0 or not times:
            return on_day
        off = min(abs(moment.hour * 60 + moment.minute - one) for one in times)
        return _NEAR + (1.0 - _NEAR) * max(0.0, 1.0 - off / _TIME_NEAR_MIN)

    def _on_day(moment: datetime) -> float:
        spans = [_start(moment, *day) for day in days]
        one_day = timedelta(days=1)
        if any(start <= moment < start + one_day for start in spans):
            return 1.0
        near = any(start - _ZONES <= moment < start + one_day + _ZONES for start in spans)
        return _NEAR if near else 0.0

    return pl.Series([share(moment) for moment in at.to_list()], dtype=pl.Float64)


def _start(moment: datetime, year: int | None, month: int, day: int) -> datetime:
    """Return the day's start by UTC; without a year, the day nearest to the moment."""
    if year is not None:
        return datetime(year, month, day, tzinfo=UTC)
    starts = [
        datetime(near, month, day, tzinfo=UTC)
        for near in range(moment.year - 4, moment.year + 5)
        if MINYEAR <= near <= MAXYEAR and _is_day(near, month, day)
    ]
    return min(starts, key=lambda start: abs(start - moment))


def _is_day(year: int | None, month: int, day: int) -> bool:
    try:
        date(2000 if year is None else year, month, day)  # a leap year: 29 February is a day
    except ValueError:
        return False
    return True


def _year(text: str) -> int | None:
    return int(text) if text else None


def _month(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1
