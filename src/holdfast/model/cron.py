"""Cron expressions: what they say, and when they come next in a time zone."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.errors import InvalidCron, InvalidOption
from holdfast.model.local_time import first_change, instant_of

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: place for place, name in enumerate(_MONTH_NAMES, 1)}
_WEEKDAYS = {name: place for place, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_SUNDAY_TOO: Final = 7

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_PART = re.compile(r"(?:(?P<star>\*)|(?P<first>[0-9]+|[a-z]+)(?:-(?P<last>[0-9]+|[a-z]+))?)(?:/(?P<step>[0-9]+))?")
_LONGEST_EXPRESSION: Final = 500
#: 29 February on a given weekday comes again after 40 years at most, in a century without a leap day
_YEARS_TO_SEARCH: Final = 60
_SECOND: Final = timedelta(seconds=1)
#: how far ahead a change of the clocks is looked for before a tick is believed
_NEAR: Final = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class _Range:
    """What may stand in a field."""

    name: str
    low: int
    high: int
    names: dict[str, int]


_SECONDS = _Range("second", 0, 59, {})
_MINUTES = _Range("minute", 0, 59, {})
_HOURS = _Range("hour", 0, 23, {})
_DAYS = _Range("day of month", 1, 31, {})
_MONTHS_RANGE = _Range("month", 1, 12, _MONTHS)
_WEEKDAYS_RANGE = _Range("day of week", 0, _SUNDAY_TOO, _WEEKDAYS)
_FIVE = (_MINUTES, _HOURS, _DAYS, _MONTHS_RANGE, _WEEKDAYS_RANGE)


class Cron:
    """A checked expression of five fields, or of six with the seconds first.

    Where both days are given, either will do, as in every cron. A day that begins with `*` is not given.
    """

    def __init__(self, expression: object) -> None:
        if not isinstance(expression, str):
            raise InvalidCron(expression, "must be text such as '0 7 * * mon-fri'")
        if len(expression) > _LONGEST_EXPRESSION:
            raise InvalidCron(expression, f"must not be longer than {_LONGEST_EXPRESSION} characters")
        self.expression = expression
        fields = self._fields(expression)
        ranges = _FIVE if len(fields) == len(_FIVE) else (_SECONDS, *_FIVE)
        values = [self._values(text, allowed) for text, allowed in zip(fields, ranges, strict=True)]
        seconds = [0] if len(fields) == len(_FIVE) else values.pop(0)
        self._seconds = seconds
        self._minutes, self._hours, self._days, self._months, weekdays = values
        self._weekdays = {day % _SUNDAY_TOO for day in weekdays}
        hour_text, day_text, _, weekday_text = fields[-4:]
        self._takes_either_day = not day_text.startswith("*") and not weekday_text.startswith("*")
        #: every hour, or every n-th: it goes by the clock on the wall, minute after minute, whatever that shows
        self.follows_real_time = hour_text.startswith("*") or len(self._hours) == 24  # noqa: PLR2004 - hours of a day
        if self._next_day(date(2000, 1, 1)) is None:
            self._refuse("day of month", day_text, "never comes in the month given")

    def next_after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """The first tick later than a moment, in UTC; None if there is none before the end of the calendar.

        An entry with fixed hours runs once a day for each of its times: one that the clocks leave out comes when they
        have gone forward, one that they show twice comes the first time. Any other follows the clock.
        """
        try:
            return self._by_the_clock(moment, zone) if self.follows_real_time else self._by_the_day(moment, zone)
        except OverflowError:
            return None

    def following(self, local: datetime) -> datetime | None:
        """The first time on a calendar without a zone that fits and is not earlier."""
        if local.microsecond:
            local = local.replace(microsecond=0) + _SECOND
        day: date | None = local.date()
        fitting = self._time_from(local.time()) if self._is_day(local.date()) else None
        if fitting is None:
            day, fitting = self._next_day(local.date() + timedelta(days=1)), self._time_from(time())
        return None if day is None or fitting is None else datetime.combine(day, fitting)

    def _by_the_day(self, moment: datetime, zone: tzinfo) -> datetime | None:
        found = self.following(moment.astimezone(zone).replace(tzinfo=None, fold=0))
        while found is not None:
            tick = instant_of(found, zone)
            if tick > moment:
                return tick
            found = self.following(found + _SECOND)  # this very tick, or one shown for the second time
        return None

    def _by_the_clock(self, moment: datetime, zone: tzinfo) -> datetime | None:
        start = moment.astimezone(UTC).replace(microsecond=0) + _SECOND
        while True:
            local = start.astimezone(zone).replace(tzinfo=None, fold=0)
            found = self.following(local)
            if found is None:
                return None
            tick = start + (found - local)  # if the clocks are not changed before
            change = first_change(zone, start, min(tick, start + _NEAR))
            if change is not None:
                start = change
            elif tick <= start + _NEAR:
                return tick
            else:
                # Nothing fits in between, not even to a clock that is put back: it goes back by less than has passed.
                start = max(start + _NEAR, tick - _NEAR)

    def _time_from(self, at: time) -> time | None:
        """The first time of day that fits and is not earlier."""
        for hour in self._hours[bisect_left(self._hours, at.hour) :]:
            if hour > at.hour:
                return time(hour, self._minutes[0], self._seconds[0])
            for minute in self._minutes[bisect_left(self._minutes, at.minute) :]:
                if minute > at.minute:
                    return time(hour, minute, self._seconds[0])
                place = bisect_left(self._seconds, at.second)
                if place < len(self._seconds):
                    return time(hour, minute, self._seconds[place])
        return None

    def _next_day(self, day: date) -> date | None:
        last_year = day.year + _YEARS_TO_SEARCH
        while day.year <= last_year:
            if day.month not in self._months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            elif self._is_day(day):
                return day
            else:
                day += timedelta(days=1)
        return None

    def _is_day(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        is_day, is_weekday = day.day in self._days, day.isoweekday() % _SUNDAY_TOO in self._weekdays
        return is_day or is_weekday if self._takes_either_day else is_day and is_weekday

    # --- reading ------------------------------------------------------------------------------------------------------

    def _fields(self, expression: str) -> list[str]:
        text = expression.strip().lower()
        if text.startswith("@"):
            if text not in _NICKNAMES:
                raise InvalidCron(expression, f"is not one of {', '.join(_NICKNAMES)}")
            text = _NICKNAMES[text]
        fields = text.split()
        if len(fields) not in (5, 6):
            raise InvalidCron(
                expression,
                f"has {len(fields)} fields; give five (minute, hour, day of month, month, day of week), or six with "
                f"the second first",
            )
        return fields

    def _values(self, text: str, allowed: _Range) -> list[int]:
        found: set[int] = set()
        for part in text.split(","):
            found |= set(self._part(part, text, allowed))
        return sorted(found)

    def _part(self, part: str, text: str, allowed: _Range) -> range:
        match = _PART.fullmatch(part)
        if match is None:
            self._refuse(
                allowed.name, text, f"{part!r} is not a number, a name, a range or *; L, W, # and ? are not known here"
            )
        step = 1 if match["step"] is None else int(match["step"])
        if step == 0:
            self._refuse(allowed.name, text, "a step must be at least 1")
        if match["star"]:
            # Sunday is 0 there, and would be counted again as 7.
            high = allowed.high - 1 if allowed is _WEEKDAYS_RANGE else allowed.high
            return range(allowed.low, high + 1, step)
        first = self._value(match["first"], text, allowed)
        if match["last"] is None:
            if match["step"] is not None:
                self._refuse(allowed.name, text, f"a step needs a range; write {match['first']}-{allowed.high}/{step}")
            return range(first, first + 1)
        last = self._value(match["last"], text, allowed)
        if allowed is _WEEKDAYS_RANGE and last == 0:
            last = _SUNDAY_TOO if first > 0 else 0
        if first > last:
            self._refuse(allowed.name, text, f"{part!r} ends before it begins; give two ranges, with a comma")
        return range(first, last + 1, step)

    def _value(self, word: str, text: str, allowed: _Range) -> int:
        if word in allowed.names:
            return allowed.names[word]
        if not word.isdecimal() or not allowed.low <= int(word) <= allowed.high:
            names = f", or one of {', '.join(allowed.names)}" if allowed.names else ""
            self._refuse(allowed.name, text, f"{word!r} is not a number from {allowed.low} to {allowed.high}{names}")
        return int(word)

    def _refuse(self, field: str, text: str, hint: str) -> NoReturn:
        raise InvalidCron(self.expression, f"{field} {text!r}: {hint}", field=field)


@lru_cache(maxsize=1000)
def parsed(expression: str) -> Cron:
    """The same one for the same text."""
    return Cron(expression)


def checked_zone(name: object) -> ZoneInfo:
    """A time zone by its name."""
    hint = "is not a time zone that this machine knows; give one such as 'Europe/Vienna' or 'UTC'"
    if not isinstance(name, str):
        raise InvalidOption("timezone", name, "must be the name of a time zone, such as 'Europe/Vienna'")
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        raise InvalidOption("timezone", name, f"{hint}; on a system without them, install tzdata") from None
    except (ValueError, OSError):  # paths, directories, what is no file name
        raise InvalidOption("timezone", name, hint) from None
