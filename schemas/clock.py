"""The only module that knows the clock.

Inside, time is an aware UTC `datetime`; stored, it is an int with its unit in the name (`received_at_ns`) or an Arrow
timestamp[us, UTC]. Steps take the time as an argument; a test hands them a `FakeClock`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_US = 1_000
UTC_MIN = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Wall time and a monotonic one; everything that waits or stamps takes one of these."""

    def now(self) -> datetime:
        """Return the wall time, aware, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never goes back; only differences mean anything."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Wait for so many seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the wall time, aware, UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Wait for so many seconds."""
        time.sleep(duration_s)


@dataclass
class FakeClock:
    """A clock that moves only when told; `sleep` moves it."""

    at: datetime = field(default=datetime(2026, 1, 5, 9, 0, tzinfo=UTC))
    elapsed_s: float = 0.0

    def now(self) -> datetime:
        """Return the time it was moved to."""
        return self.at

    def monotonic_s(self) -> float:
        """Return the seconds it was moved by in all."""
        return self.elapsed_s

    def sleep(self, duration_s: float) -> None:
        """Move instead of waiting."""
        self.move(duration_s)

    def move(self, duration_s: float) -> None:
        """Go on by so many seconds."""
        self.at += timedelta(seconds=duration_s)
        self.elapsed_s += duration_s


SYSTEM = SystemClock()


def now_ns() -> int:
    """Return wall time as integer nanoseconds since the epoch, UTC."""
    return time.time_ns()


def from_ns(at_ns: int) -> datetime:
    """Return the aware UTC time of so many nanoseconds since the epoch, cut (not rounded) to microseconds."""
    seconds, rest_ns = divmod(at_ns, NS_PER_S)
    return UTC_MIN + timedelta(seconds=seconds, microseconds=rest_ns // NS_PER_US)


def to_ns(at: datetime) -> int:
    """Return nanoseconds since the epoch of an aware time; exact, for no float is involved."""
    delta = at - UTC_MIN
    return ((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds) * NS_PER_US


def to_us(at: datetime) -> int:
    """Return microseconds since the epoch of an aware time."""
    return to_ns(at) // NS_PER_US


def iso(at: datetime) -> str:
    """Return `2026-11-30T03:05:04.123456Z`: UTC, always with microseconds, so that text order is time order."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_iso(text: str) -> datetime:
    """Return the aware UTC time of an ISO 8601 text; a text without a zone is taken as UTC.

    Raises ValueError when it is no time.
    """
    at = datetime.fromisoformat(text)
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:  # the first or last day of all, in a zone on the other side of it
        raise ValueError(f"wanted a time of the years 1 to 9999 in UTC, got {text!r}") from error


def local(at: datetime) -> datetime:
    """Return the same instant in the zone of the person at this machine."""
    return at.astimezone()
