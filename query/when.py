"""Days that a query names: `2025-06-05`, `14 March`, `March 14`, `3월 9일`, `4月8日`, `6/9`."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, date
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

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
_EPOCH = date(1970, 1, 1)
_MINUTE_US = 60_000_000
_DAY_MIN = 24 * 60
_DAY_US = _DAY_MIN * _MINUTE_US
_ZONES_US = 14 * 60 * _MINUTE_US  # how far the day of some place is from that of UTC, at most
_TIME = re.compile(r"(?<![\d:])(\d\d?):([0-5]\d)(?!\d)")
_EAST_TIME = re.compile(
    r"(?<!\d)(?:(오후|저녁|밤|午後|夕方|夜|下午|晚上)の?\s*)?(\d\d?)\s*[時时시点點](?![間间간])(?:\s*([0-5]?\d)\s*[分분]|(台|대))?"
)
_HALF_DAY = re.compile(r"(?<![\d:])(1[0-2]|0?[1-9])(?::([0-5]\d))?\s*([ap])\.?m\b", re.IGNORECASE)
_HALF_HOUR_MIN = 30  # "in the sixth hour" is about half past six
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
    """Return the times of day that a query names (`21:36`, `9 pm`, `21時36分`, `6시`), in minutes from midnight."""
    found = [
        int(hour) % 12 * 60 + int(minute or 0) + 720 * (half in "pP")
        for hour, minute, half in _HALF_DAY.findall(query)
    ]
    rest = _HALF_DAY.sub(" ", query)
    found += [int(hour) * 60 + int(minute) for hour, minute in _TIME.findall(rest) if int(hour) < 24]
    for late, hour, minute, within in _EAST_TIME.findall(rest):
        if int(hour) < 24:
            afternoon = 12 if late and int(hour) < 12 else 0
            found.append((int(hour) + afternoon) * 60 + (_HALF_HOUR_MIN if within else int(minute or 0)))
    return list(dict.fromkeys(found))


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
    moments = at.dt.epoch("us").to_numpy()
    years = at.dt.year().to_numpy()
    share = np.zeros(len(moments))
    for day in days:
        start = _starts(moments, years, *day)
        share[(moments >= start - _ZONES_US) & (moments < start + _DAY_US + _ZONES_US) & (share < 1.0)] = (
            _NEAR
        )
        share[(moments >= start) & (moments < start + _DAY_US)] = 1.0
    if times:
        minute = moments // _MINUTE_US % _DAY_MIN
        off = np.min([np.abs(minute - one) for one in times], axis=0)
        share = np.where(
            share < 1.0, share, _NEAR + (1.0 - _NEAR) * np.maximum(0.0, 1.0 - off / _TIME_NEAR_MIN)
        )
    return pl.Series(share, dtype=pl.Float64)


def _starts(moments: Numbers, years: Numbers, year: int | None, month: int, day: int) -> Numbers:
    """Return the day's start by UTC for each moment, in microseconds; without a year, of the day nearest to it."""
    if year is not None:
        return np.full(len(moments), _epoch_us(year, month, day), dtype=np.int64)
    starts = np.zeros(len(moments), dtype=np.int64)
    for one in np.unique(years).tolist():
        near = [
            _epoch_us(other, month, day)
            for other in range(one - 4, one + 5)
            if MINYEAR <= other <= MAXYEAR and _is_day(other, month, day)
        ]
        same = years == one
        off = np.abs(moments[same, None] - np.array(near))
        starts[same] = np.array(near)[off.argmin(axis=1)]
    return starts


def _epoch_us(year: int, month: int, day: int) -> int:
    return (date(year, month, day) - _EPOCH).days * _DAY_US


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
