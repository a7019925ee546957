"""A soak fails when something grows, and only then."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from bench.soak.__main__ import exit_code
from bench.soak.judgement import Sample, Verdict, judge
from bench.soak.samples import MEMORY, TABLES, WAL

#: every five seconds for a quarter of an hour
TIMES = [5.0 * number for number in range(1, 181)]


def verdict(figure: Callable[[float], float], name: str = TABLES) -> Verdict:
    """Of a figure that is so much after so many seconds."""
    (found,) = judge([Sample(seconds, {name: figure(seconds)}) for seconds in TIMES], [TABLES, MEMORY, WAL], 1.0)
    return found


def test_history_that_is_not_pruned_is_growth() -> None:
    """A hundred jobs a second for as long as it lasts: each third is as long as the one before."""
    found = verdict(lambda seconds: 1 + 0.05 * seconds)
    assert found.is_exceeded
    assert found.percent_per_minute == pytest.approx(10, abs=1)


def test_what_fills_up_first_and_then_stays_is_none() -> None:
    """With retention: it grows in the first third only."""
    found = verdict(lambda seconds: min(seconds, 250.0))
    assert not found.is_exceeded
    assert found.percent_per_minute == pytest.approx(0)


def test_what_goes_up_and_down_is_none() -> None:
    """Between two vacuums by a fifth; the line through all of it is level."""
    assert not verdict(lambda seconds: 100 + 20 * math.sin(seconds / 10)).is_exceeded


@pytest.mark.parametrize(("percent", "is_exceeded"), [(0.8, False), (1.3, True), (-5.0, False)])
def test_the_limit(percent: float, is_exceeded: bool) -> None:
    """By the minute, of what it is in the middle of the time."""
    middle = TIMES[-1] * 2 / 3
    assert verdict(lambda seconds: 100 + percent * (seconds - middle) / 60).is_exceeded is is_exceeded


def test_what_is_only_shown_fails_nothing() -> None:
    assert not verdict(lambda seconds: seconds, name="dead tuples").is_exceeded


def test_a_few_samples_say_nothing() -> None:
    """Silence is not a good sign."""
    with pytest.raises(ValueError, match="too few"):
        judge([Sample(1.0, {TABLES: 1.0})], [TABLES], 1.0)


def test_one_that_grows_is_enough_to_fail() -> None:
    good = Verdict(TABLES, 1.0, 1.0, 0.0, 1.0)
    bad = Verdict(MEMORY, 1.0, 2.0, 5.0, 1.0)
    assert exit_code([[good], [good]]) == 0
    assert exit_code([[good], [good, bad]]) == 1
