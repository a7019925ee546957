"""Cron expressions: what they say, and every tick of them around the days on which clocks are changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidCron, InvalidOption
from holdfast.model.cron import Cron, checked_zone

MINUTE = timedelta(minutes=1)
DAYS = 4

#: zones, with the first day of a window in which their clocks are changed: by an hour, half of one, at midnight, by a
#: whole day, in either direction, and not at all
CHANGES = [
    ("Europe/Vienna", datetime(2026, 3, 27, tzinfo=UTC)),
    ("Europe/Vienna", datetime(2026, 10, 23, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 6, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 30, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 2, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 2, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2019, 2, 15, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 13, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 28, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2026, 3, 27, tzinfo=UTC)),
]


@dataclass(frozen=True)
class Field:
    """A field and, found another way, the values that it stands for."""

    text: str
    values: frozenset[int]


def fields(low: int, high: int, *, most: int = 4) -> st.SearchStrategy[Field]:
    numbers = st.integers(low, high)
    every = st.just(Field("*", frozenset(range(low, high + 1))))
    stepped = st.integers(1, high).map(
        lambda step: Field(f"*/{step}", frozenset(n for n in range(low, high + 1) if (n - low) % step == 0))
    )
    lists = st.sets(numbers, min_size=1, max_size=most).map(
        lambda chosen: Field(",".join(map(str, sorted(chosen))), frozenset(chosen))
    )
    ranges = st.tuples(numbers, numbers, st.integers(1, 5)).map(lambda drawn: _range(*drawn))
    return st.one_of(every, stepped, lists, ranges)


def _range(one: int, other: int, step: int) -> Field:
    first, last = sorted((one, other))
    return Field(f"{first}-{last}/{step}", frozenset(n for n in range(first, last + 1) if (n - first) % step == 0))


ANY_DAY = Field("*", frozenset(range(1, 32)))
ANY_WEEKDAY = Field("*", frozenset(range(7)))


@dataclass(frozen=True)
class Entry:
    minute: Field
    hour: Field
    day: Field
    weekday: Field

    @property
    def text(self) -> str:
        return f"{self.minute.text} {self.hour.text} {self.day.text} * {self.weekday.text}"

    @property
    def has_fixed_hours(self) -> bool:
        return not self.hour.text.startswith("*") and len(self.hour.values) < 24

    def fits(self, local: datetime) -> bool:
        is_day, is_weekday = local.day in self.day.values, local.isoweekday() % 7 in self.weekday.values
        both_given = not self.day.text.startswith("*") and not self.weekday.text.startswith("*")
        is_this_day = is_day or is_weekday if both_given else is_day and is_weekday
        return is_this_day and local.hour in self.hour.values and local.minute in self.minute.values


entries = st.builds(Entry, fields(0, 59), fields(0, 23), fields(1, 31, most=20), fields(0, 6, most=7))


@lru_cache
def minutes(zone: str, start: datetime) -> list[tuple[datetime, datetime]]:
    """Every minute of the window, and what the clocks show then."""
    moments = [start + n * MINUTE for n in range(DAYS * 24 * 60)]
    return [(moment, moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)) for moment in moments]


def brute_force(entry: Entry, zone: str, start: datetime) -> list[datetime]:
    """Minute by minute, without arithmetic on zones."""
    shown = minutes(zone, start)
    if not entry.has_fixed_hours:
        return [moment for moment, local in shown if entry.fits(local)]
    ticks: set[datetime] = set()
    latest = shown[0][1] - MINUTE
    for moment, local in shown:
        # Whatever the clocks leave out between the latest time they have shown and this one comes now.
        while latest < local:
            latest += MINUTE
            if entry.fits(latest):
                ticks.add(moment)
    return sorted(ticks)


def ticks_from(cron: Cron, zone: str, start: datetime, end: datetime) -> list[datetime]:
    found: list[datetime] = []
    tick = cron.next_after(start - timedelta.resolution, ZoneInfo(zone))
    while tick is not None and tick < end:
        found.append(tick)
        tick = cron.next_after(tick, ZoneInfo(zone))
    return found


@pytest.mark.parametrize(("zone", "start"), CHANGES)
@given(entry=entries)
@example(
    entry=Entry(
        _range(30, 30, 1), _range(2, 2, 1), Field("*", frozenset(range(1, 32))), Field("*", frozenset(range(7)))
    )
)
@settings(max_examples=60, deadline=None)
def test_every_tick_around_a_change_of_the_clocks(zone: str, start: datetime, entry: Entry) -> None:
    """As brute force has it: none missing, none twice, none beside."""
    assert ticks_from(Cron(entry.text), zone, start, start + timedelta(days=DAYS)) == brute_force(entry, zone, start)


@given(entry=entries, seconds=st.integers(0, DAYS * 86_400 - 1), change=st.sampled_from(CHANGES))
@settings(max_examples=200, deadline=None)
def test_from_any_moment_the_same_ticks(entry: Entry, seconds: int, change: tuple[str, datetime]) -> None:
    """The next tick does not depend on from where it is asked for."""
    zone, start = change
    moment = start + timedelta(seconds=seconds)
    later = [tick for tick in brute_force(entry, zone, start) if tick > moment]
    found = Cron(entry.text).next_after(moment, ZoneInfo(zone))
    if later:
        assert found == later[0]
    else:
        assert found is None or found >= start + timedelta(days=DAYS)


def local_ticks(expression: str, zone: str, start: str, count: int) -> list[str]:
    cron, moment, found = Cron(expression), datetime.fromisoformat(start), list[str]()
    for _ in range(count):
        tick = cron.next_after(moment, ZoneInfo(zone))
        assert tick is not None
        moment = tick
        found.append(tick.astimezone(ZoneInfo(zone)).isoformat())
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@hourly", ["2026-01-01T01:00:00", "2026-01-01T02:00:00"]),
        ("@daily", ["2026-01-02T00:00:00", "2026-01-03T00:00:00"]),
        ("@midnight", ["2026-01-02T00:00:00", "2026-01-03T00:00:00"]),
        ("@weekly", ["2026-01-04T00:00:00", "2026-01-11T00:00:00"]),
        ("@monthly", ["2026-02-01T00:00:00", "2026-03-01T00:00:00"]),
        ("@yearly", ["2027-01-01T00:00:00", "2028-01-01T00:00:00"]),
        ("@ANNUALLY", ["2027-01-01T00:00:00", "2028-01-01T00:00:00"]),
        ("0 7 * * mon-fri", ["2026-01-01T07:00:00", "2026-01-02T07:00:00", "2026-01-05T07:00:00"]),
        ("0 7 * * SAT,sun", ["2026-01-03T07:00:00", "2026-01-04T07:00:00"]),
        ("0 7 * * 7", ["2026-01-04T07:00:00", "2026-01-11T07:00:00"]),
        ("0 7 * * sat-sun", ["2026-01-03T07:00:00", "2026-01-04T07:00:00", "2026-01-10T07:00:00"]),
        ("0 0 1 feb,MAR *", ["2026-02-01T00:00:00", "2026-03-01T00:00:00"]),
        ("5-59/20 0 * * *", ["2026-01-01T00:05:00", "2026-01-01T00:25:00", "2026-01-01T00:45:00"]),
        ("*/25 * * * *", ["2026-01-01T00:25:00", "2026-01-01T00:50:00", "2026-01-01T01:00:00"]),
        ("*/20 * * * * *", ["2026-01-01T00:00:20", "2026-01-01T00:00:40", "2026-01-01T00:01:00"]),
        ("15,45 30 6 * * *", ["2026-01-01T06:30:15", "2026-01-01T06:30:45", "2026-01-02T06:30:15"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
        ("0 0 31 * *", ["2026-01-31T00:00:00", "2026-03-31T00:00:00"]),
        # Both days given: either will do. One that begins with * is not given.
        ("0 0 13 * fri", ["2026-01-02T00:00:00", "2026-01-09T00:00:00", "2026-01-13T00:00:00"]),
        ("0 0 */2 * fri", ["2026-01-09T00:00:00", "2026-01-23T00:00:00"]),
    ],
)
def test_fields(expression: str, expected: list[str]) -> None:
    """Numbers, names, lists, ranges, steps, seconds and nicknames, from the beginning of 2026."""
    found = local_ticks(expression, "UTC", "2026-01-01T00:00:00+00:00", len(expected))
    assert [tick.removesuffix("+00:00") for tick in found] == expected


def test_fixed_hours_on_the_days_of_change() -> None:
    """A time left out comes when the clocks have gone forward, one shown twice comes the first time."""
    assert local_ticks("30 2 * * *", "Europe/Vienna", "2026-03-28T12:00:00+00:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert local_ticks("30 2 * * *", "Europe/Vienna", "2026-10-24T12:00:00+00:00", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


def test_every_hour_on_the_days_of_change() -> None:
    """Real time goes on: an hour after the other, whatever they are called."""
    assert local_ticks("30 * * * *", "Europe/Vienna", "2026-03-28T23:45:00+00:00", 3) == [
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T03:30:00+02:00",
        "2026-03-29T04:30:00+02:00",
    ]
    assert local_ticks("30 * * * *", "Europe/Vienna", "2026-10-24T23:45:00+00:00", 3) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:30:00+01:00",
    ]


def test_every_second_while_the_clocks_are_put_back() -> None:
    """7,200 seconds are 7,200 ticks for an entry that follows real time, and 3,600 for one with a fixed hour."""
    start = datetime(2026, 10, 25, 0, tzinfo=UTC)
    count: Callable[[str], int] = lambda text: len(  # noqa: E731 - two of a kind
        ticks_from(Cron(text), "Europe/Vienna", start, start + timedelta(hours=2))
    )
    assert (count("* * * * * *"), count("* * 2 * * *")) == (7200, 3600)


def test_the_end_of_the_calendar() -> None:
    """Nothing comes after the year 9999, and nothing fails."""
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert Cron("0 * * * *").next_after(last, UTC) is None
    assert Cron("0 7 * * *").next_after(last, UTC) is None


@pytest.mark.parametrize(
    ("expression", "field", "words"),
    [
        ("60 * * * *", "minute", "'60' is not a number from 0 to 59"),
        ("-1 * * * *", "minute", "'-1'"),
        ("* 24 * * *", "hour", "0 to 23"),
        ("* * 0 * *", "day of month", "1 to 31"),
        ("* * * 13 *", "month", "1 to 12, or one of jan"),
        ("* * * foo *", "month", "'foo'"),
        ("* * * * 8", "day of week", "0 to 7"),
        ("61 * * * * *", "second", "0 to 59"),
        ("*/0 * * * *", "minute", "at least 1"),
        ("5/15 * * * *", "minute", "write 5-59/15"),
        ("30-10 * * * *", "minute", "ends before it begins"),
        ("* * * * fri-mon", "day of week", "ends before it begins"),
        ("* * L * *", "day of month", "'l'"),
        ("* * * * 5#2", "day of week", "'5#2'"),
        ("1,,2 * * * *", "minute", "''"),
        ("* * 31 2 *", "day of month", "never comes"),
        ("* * 31 4,6,9,11 *", "day of month", "never comes"),
        ("* * * *", None, "4 fields"),
        ("* * * * * * *", None, "7 fields"),
        ("", None, "0 fields"),
        ("@reboot", None, "@daily"),
        ("0 7 * * * " + "0" * 500, None, "500 characters"),
        (None, None, "text"),
        (7, None, "text"),
        ("٣ * * * *", "minute", "'٣'"),
    ],
)
def test_bad_expressions_name_what_is_wrong(expression: object, field: str | None, words: str) -> None:
    """The field, the value, and what would be right."""
    with pytest.raises(InvalidCron) as caught:
        Cron(expression)
    assert caught.value.field == field
    assert caught.value.value == expression
    assert words in str(caught.value)
    if field is not None:
        assert f": {field} '" in str(caught.value)


@pytest.mark.parametrize("name", ["Europe/Wien", "", "../../etc/passwd", "Europe", "/etc/localtime", "a\x00b", None, 5])
def test_unknown_zones(name: object) -> None:
    with pytest.raises(InvalidOption, match="time zone") as caught:
        checked_zone(name)
    assert (caught.value.option, caught.value.value) == ("timezone", name)
