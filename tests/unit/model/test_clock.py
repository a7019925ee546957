"""Points in time and durations."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidOption
from holdfast.model.clock import LONGEST, FakeClock, checked_duration, checked_instant, iso, milliseconds, utc_now

_aware = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.timezones())  # noqa: DTZ001 - hypothesis wants naive bounds


def test_fake_clock_stands_still() -> None:
    """It moves when told, and only forwards."""
    clock = FakeClock(datetime(2026, 5, 1, tzinfo=UTC))
    assert clock() == clock() == datetime(2026, 5, 1, tzinfo=UTC)
    clock.advance(1.5)
    clock.advance(timedelta(minutes=1))
    assert clock() == datetime(2026, 5, 1, 0, 1, 1, 500_000, tzinfo=UTC)
    with pytest.raises(InvalidOption):
        clock.advance(-1)


def test_process_clock_is_aware() -> None:
    """The clock in use says UTC."""
    assert utc_now().utcoffset() == timedelta()


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        (0, timedelta()),
        (1.5, timedelta(seconds=1.5)),
        (timedelta(hours=1), timedelta(hours=1)),
        (timedelta(), timedelta()),
        (LONGEST, LONGEST),
        (LONGEST.total_seconds(), LONGEST),
    ],
)
def test_durations(given_value: object, expected: timedelta) -> None:
    """Seconds or timedelta, from nothing to a century."""
    assert checked_duration("delay", given_value) == expected


@pytest.mark.parametrize(
    "wrong",
    [-1, -0.001, math.nan, math.inf, -math.inf, 1e300, 10**30, -(10**30), True, "1", None, timedelta(seconds=-1),
     timedelta.max, LONGEST + timedelta(microseconds=1), 1j, [1]],
)  # fmt: skip
def test_refused_durations(wrong: object) -> None:
    """Negative, endless, or no number: the error names option and value."""
    with pytest.raises(InvalidOption, match="delay") as caught:
        checked_duration("delay", wrong)
    assert caught.value.option == "delay"


def test_instants_become_utc() -> None:
    """Any zone is fine, and means the same moment."""
    vienna = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Vienna"))
    assert checked_instant("at", vienna) == vienna
    assert checked_instant("at", vienna).utcoffset() == timedelta()


@pytest.mark.parametrize(
    "wrong",
    [
        datetime(2026, 1, 1),  # noqa: DTZ001 - naive on purpose
        "2026-01-01T00:00:00Z",
        1_700_000_000,
        None,
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_refused_instants(wrong: object) -> None:
    """Naive, not a datetime, or beyond what UTC can express: the error names the option."""
    with pytest.raises(InvalidOption) as caught:
        checked_instant("at", wrong)
    assert caught.value.option == "at"


@given(_aware, _aware)
def test_text_sorts_as_time(first: datetime, second: datetime) -> None:
    """Fixed width, so that SQLite's comparison of texts is one of moments."""
    assert (iso(first) < iso(second)) is (first.astimezone(UTC) < second.astimezone(UTC))
    assert len(iso(first)) == len("2026-01-01T00:00:00.000000Z")


@given(_aware)
def test_text_round_trips(moment: datetime) -> None:
    """To the microsecond."""
    assert datetime.fromisoformat(iso(moment)) == moment.astimezone(UTC)


@given(st.timedeltas(min_value=timedelta(), max_value=LONGEST))
def test_milliseconds_round_up(duration: timedelta) -> None:
    """Never less than asked, never a whole millisecond more; only nothing becomes 0."""
    rounded = timedelta(milliseconds=milliseconds(duration))
    assert duration <= rounded < duration + timedelta(milliseconds=1)
    assert (milliseconds(duration) == 0) is (duration == timedelta())
