"""What the clocks of a zone show, and when they are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

#: two changes of one zone are never as close as this
_STEP: Final = timedelta(hours=1)
_SECOND: Final = timedelta(seconds=1)


def instant_of(local: datetime, zone: tzinfo) -> datetime:
    """When the clocks of a zone show a time, in UTC.

    Of a time that they show twice the first; of one that they leave out, the moment in which they go forward.
    """
    moment = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None, fold=0) == local:
        return moment
    # Of a time left out, fold 0 goes by the clocks before the change, and so lands behind it; fold 1 the other way.
    earlier = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return first_change(zone, earlier, moment) or moment


def first_change(zone: tzinfo, start: datetime, end: datetime) -> datetime | None:
    """The first moment later than `start` and not later than `end` at which the clocks of a zone are changed."""
    offset = start.astimezone(zone).utcoffset()
    before = start
    while before < end:
        after = min(before + _STEP, end)
        if after.astimezone(zone).utcoffset() != offset:
            return _change_between(zone, before, after)
        before = after
    return None


def _change_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    offset = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0) if middle.replace(microsecond=0) > before else middle
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
