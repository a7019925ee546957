"""Values as they are typed on a command line: durations and points in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")


def parse_duration(text: str) -> timedelta | None:
    """`5`, `500ms`, `5s`, `10m`, `2h`, `7d`; None for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    try:
        return timedelta(seconds=float(match[1]) * _UNITS[match[2] or "s"])
    except OverflowError:
        return None


class DurationType(click.ParamType):
    """A span of time."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        duration = parse_duration(str(value))
        if duration is None:
            self.fail(f"{value!r} is not a duration; write seconds, or a number with ms, s, m, h or d", param, ctx)
        return duration


class InstantType(click.ParamType):
    """A point in time: ISO 8601 with a time zone, or how long ago."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = str(value)
        if (ago := parse_duration(text)) is not None and not text.strip().isdigit():
            return datetime.now(UTC) - ago
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is not a time; write 2026-05-01T12:00Z, or how long ago: 90s, 30m, 2h, 7d", param, ctx)
        if moment.utcoffset() is None:
            self.fail(f"{text!r} has no time zone; write {text}{'' if 'T' in text else 'T00:00'}Z for UTC", param, ctx)
        return moment


DURATION = DurationType()
INSTANT = InstantType()


def shown_duration(duration: timedelta) -> str:
    """The shortest way to write it that `DURATION` reads back."""
    seconds = duration.total_seconds()
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"
