"""Points in time and durations, as callers give them and as the databases keep them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from holdfast.errors import InvalidOption

Clock = Callable[[], datetime]
Duration = timedelta | float

#: far beyond any sensible delay, and still inside what both databases and datetime can hold
LONGEST = timedelta(days=366 * 100)


def utc_now() -> datetime:
    """The process clock."""
    return datetime.now(UTC)


class FakeClock:
    """A clock that stands still until it is told to move."""

    def __init__(self, start: datetime | None = None) -> None:
        self.now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, duration: Duration) -> None:
        self.now += checked_duration("advance", duration)


def checked_duration(option: str, value: object) -> timedelta:
    """A duration given as timedelta or seconds; refuses what is negative, endless or not a number."""
    if isinstance(value, timedelta):
        duration = value
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        duration = timedelta(seconds=max(-1, min(value, LONGEST.total_seconds() + 1)))
    else:
        raise InvalidOption(option, value, "must be a timedelta or a finite number of seconds")
    if not timedelta() <= duration <= LONGEST:
        raise InvalidOption(option, value, f"must be between 0 and {LONGEST.days} days")
    return duration


def checked_instant(option: str, value: object) -> datetime:
    """An aware datetime, in UTC."""
    if not isinstance(value, datetime):
        raise InvalidOption(option, value, "must be a datetime with a time zone")
    if value.utcoffset() is None:
        raise InvalidOption(option, value, "has no time zone; use datetime.now(UTC) or .replace(tzinfo=ZoneInfo(…))")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidOption(option, value, "is outside the years 1 to 9999 in UTC") from None


def iso(moment: datetime) -> str:
    """Fixed-width UTC text: sorts as time does, in SQLite as in Python."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def milliseconds(duration: timedelta) -> int:
    """Whole milliseconds, rounded up so that a short timeout never becomes none."""
    return -(-duration // timedelta(milliseconds=1))


monotonic = time.monotonic
