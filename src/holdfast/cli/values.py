"""Values as they are typed on a command line: durations, points in time, sizes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")


_SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmg])i?|([kmg]b)|([kmg])ib|b?)", re.IGNORECASE)


def size(text: str) -> int:
    """A number of bytes: `1048576`, `512M`, `512MiB`, `1.5G`, `500MB`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is not a size; write bytes, or a number with K, M, G, MiB, MB …")
    unit = (match[2] or match[3] or match[4] or "").lower()
    return int(float(match[1]) * _SIZES[unit])


def duration(text: str) -> timedelta:
    """A span of time: `5`, `500ms`, `5s`, `10m`, `2h`, `7d`."""
    span = _read_duration(text)
    if span is None:
        raise click.BadParameter(f"{text!r} is not a duration; write seconds, or a number with ms, s, m, h or d")
    return span


def instant(text: str) -> datetime:
    """A point in time: ISO 8601 with a time zone, or how long ago."""
    ago = _read_duration(text)
    if ago is not None and not text.strip().isdigit():
        return datetime.now(UTC) - ago
    return _read_instant(text, "how long ago: 90s, 30m, 2h, 7d")


def point_in_time(text: str) -> datetime:
    """A point in time: ISO 8601 with a time zone, or now."""
    return datetime.now(UTC) if text.strip() == "now" else _read_instant(text, "now")


def _read_instant(text: str, instead: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time; write 2026-05-01T12:00Z, or {instead}") from None
    if moment.utcoffset() is None:
        midnight = "" if "T" in text else "T00:00"
        raise click.BadParameter(f"{text!r} has no time zone; write {text}{midnight}Z for UTC")
    return moment


def shown_duration(span: timedelta) -> str:
    """The shortest way to write it that `duration` reads back."""
    seconds = span.total_seconds()
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"


def _read_duration(text: str) -> timedelta | None:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    try:
        return timedelta(seconds=float(match[1]) * _UNITS[match[2] or "s"])
    except OverflowError:
        return None
