from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas import clock

ZONES = st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
EARLIEST = datetime(1700, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # hypothesis adds the zone
LATEST = datetime(9998, 1, 1, tzinfo=UTC).replace(tzinfo=None)
MOMENTS = st.datetimes(EARLIEST, LATEST, timezones=ZONES)


@given(MOMENTS)
def test_nanoseconds_are_exact(at: datetime) -> None:
    """A time goes to nanoseconds and back without losing a microsecond, whatever its zone."""
    assert clock.from_ns(clock.to_ns(at)) == at
    assert clock.to_us(at) * clock.NS_PER_US == clock.to_ns(at)


@given(st.integers(-(10**18), 10**19))
def test_nanoseconds_are_cut(at_ns: int) -> None:
    """Nanoseconds below a microsecond are cut, never rounded up into the future."""
    assert 0 <= at_ns - clock.to_ns(clock.from_ns(at_ns)) < clock.NS_PER_US


@given(MOMENTS, MOMENTS)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    """Written times sort as the times do, and read back as they were."""
    assert (clock.iso(one) < clock.iso(other)) == (one < other)
    assert clock.parse_iso(clock.iso(one)) == one


def test_iso_has_a_fixed_width() -> None:
    """Microseconds and four digits of the year are always written."""
    assert clock.iso(datetime(2026, 11, 30, 3, 5, 4, tzinfo=UTC)) == "2026-11-30T03:05:04.000000Z"
    assert clock.iso(datetime(7, 1, 1, tzinfo=UTC)) == "0007-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("text", ["2026-03-23T15:50:20", "2026-03-23T15:50:20Z", "2026-03-24T00:50:20+09:00"])
def test_zones_are_read(text: str) -> None:
    """A text without a zone is UTC; another zone is the same instant."""
    at = clock.parse_iso(text)
    assert at == datetime(2026, 3, 23, 15, 50, 20, tzinfo=UTC)
    assert at.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:00-05:00"]
)
def test_no_time_is_a_value_error(text: str) -> None:
    """What is no time, or none that UTC can hold, is a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        clock.parse_iso(text)


def test_fake_clock_moves_only_when_told() -> None:
    """A fake clock stands still, and sleeping moves both of its hands."""
    fake = clock.FakeClock()
    start = fake.now()
    assert fake.now() == start
    fake.sleep(1.5)
    fake.move(0.5)
    assert fake.now() - start == timedelta(seconds=2)
    assert fake.monotonic_s() == 2.0


def test_system_clock_is_aware() -> None:
    """The machine's clock tells UTC, and its two forms agree."""
    before = clock.from_ns(clock.now_ns())
    now = clock.SYSTEM.now()
    assert now.utcoffset() == timedelta(0)
    assert before <= now
    first = clock.SYSTEM.monotonic_s()
    clock.SYSTEM.sleep(0)
    assert clock.SYSTEM.monotonic_s() >= first
    assert clock.local(now) == now
