"""Durations and points in time as they are typed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from holdfast.cli.values import duration, instant, shown_duration, size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5), ("0.25", 0.25), ("500ms", 0.5), ("5s", 5), ("1.5m", 90), ("2h", 7200), ("7d", 604_800), (" 3 s ", 3)],
)
def test_durations(text: str, seconds: float) -> None:
    """A number is seconds; a unit may follow."""
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "s", "-5", "five", "5y", "1h30m", "9" * 400])
def test_bad_durations_are_named(text: str) -> None:
    """What is no duration is refused with the forms that are."""
    with pytest.raises(click.BadParameter, match="is not a duration; write seconds"):
        duration(text)


@pytest.mark.parametrize("seconds", [0.25, 0.5, 1, 5, 20, 90, 3600])
def test_shown_durations_are_read_back(seconds: float) -> None:
    """Defaults in help texts are what one would type."""
    span = timedelta(seconds=seconds)
    assert duration(shown_duration(span)) == span


def test_instants() -> None:
    """ISO 8601 with a zone, or how long ago."""
    assert instant("2026-05-01T12:00Z") == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert instant("2026-05-01T14:00+02:00") == datetime(2026, 5, 1, 12, tzinfo=UTC)
    then = instant("2h")
    ago = datetime.now(UTC) - then
    assert timedelta(hours=2) <= ago < timedelta(hours=2, seconds=10)


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("2026-05-01", "write 2026-05-01T00:00Z for UTC"),
        ("2026-05-01T12:00", "write 2026-05-01T12:00Z for UTC"),
        ("yesterday", "or how long ago"),
        ("2026-13-01T00:00Z", "or how long ago"),
        ("20", "or how long ago"),
    ],
)
def test_bad_instants_are_named(text: str, way_out: str) -> None:
    """A time without a zone is a question; the message has the answer."""
    with pytest.raises(click.BadParameter, match=way_out):
        instant(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), ("512K", 2**19), ("1.5g", 3 * 2**29), ("512MiB", 2**29), ("500MB", 500_000_000), (" 2 Gi ", 2**31)],
)
def test_sizes(text: str, expected: int) -> None:
    """A number is bytes; a unit may follow."""
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "M", "-5", "5 parsecs", "1e9", "5MM"])
def test_bad_sizes_are_named(text: str) -> None:
    """What is no size is refused with the forms that are."""
    with pytest.raises(click.BadParameter, match="is not a size; write bytes"):
        size(text)
