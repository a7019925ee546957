"""The retry policy."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidOption
from holdfast.model.clock import LONGEST
from holdfast.model.retry import Retry, checked_max_attempts

_policies = st.builds(
    Retry,
    initial=st.floats(0, 1e9),
    factor=st.floats(1, 1e6),
    maximum=st.floats(0, 1e9),
    jitter=st.floats(0, 1),
)
_draws = st.floats(0, 1, exclude_max=True)


def test_defaults_grow_to_an_hour() -> None:
    """One second, doubled each time, at most an hour; five attempts."""
    policy = Retry(jitter=0)
    seconds = [policy.delay(attempt).total_seconds() for attempt in range(1, 15)]
    assert seconds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]
    assert policy.max_attempts == 5


@given(_policies, st.integers(1, 10_000), _draws)
def test_bounds(policy: Retry, attempt: int, draw: float) -> None:
    """Within the jitter's share of the nominal wait; never negative, never beyond what a database holds."""
    nominal = Retry(initial=policy.initial, factor=policy.factor, maximum=policy.maximum, jitter=0).delay(attempt)
    wait = policy.delay(attempt, draw)
    slack = timedelta(microseconds=2)
    assert timedelta() <= wait <= LONGEST
    assert nominal * (1 - policy.jitter) - slack <= wait <= nominal * (1 + policy.jitter) + slack


@given(_policies, st.integers(1, 9_999))
def test_never_shorter_next_time(policy: Retry, attempt: int) -> None:
    """Apart from jitter, each wait is at least as long as the one before."""
    calm = Retry(initial=policy.initial, factor=policy.factor, maximum=policy.maximum, jitter=0)
    assert calm.delay(attempt) <= calm.delay(attempt + 1)


def test_no_overflow() -> None:
    """The ten-thousandth attempt waits the maximum."""
    assert Retry(factor=1e300, jitter=0, maximum=60).delay(10_000) == timedelta(seconds=60)
    assert Retry(jitter=0).delay(32_767) == timedelta(hours=1)
    assert Retry(initial=0, factor=1e308, jitter=0).delay(10_000) == timedelta()


def test_jitter_spreads() -> None:
    """Failures of one cause do not return as one wave."""
    policy = Retry(initial=100, jitter=0.1)
    assert policy.delay(1, 0.0) == timedelta(seconds=90)
    assert policy.delay(1, 0.5) == timedelta(seconds=100)
    waits = {policy.delay(1) for _ in range(50)}
    assert len(waits) > 40


def test_attempt_below_one_counts_as_the_first() -> None:
    """A refunded attempt may be number 0."""
    assert Retry(jitter=0).delay(0) == timedelta(seconds=1)


def test_durations_as_timedelta() -> None:
    """As everywhere, seconds or timedelta."""
    policy = Retry(initial=timedelta(minutes=1), maximum=timedelta(minutes=3), jitter=0)
    assert [policy.delay(attempt).total_seconds() for attempt in (1, 2, 3)] == [60, 120, 180]


def test_which_errors_are_repeated() -> None:
    """`on` allows, `never` forbids, and never wins; a single class is as good as a tuple."""
    policy = Retry(on=(OSError,), never=FileNotFoundError)  # type: ignore[arg-type]  # a tuple is made of it
    assert policy.repeats(ConnectionError())
    assert not policy.repeats(FileNotFoundError())
    assert not policy.repeats(ValueError())
    assert Retry().repeats(ValueError())
    assert Retry().repeats(SystemExit())
    assert not Retry(on=(Exception,)).repeats(SystemExit())


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 40_000},
        {"max_attempts": True},
        {"max_attempts": 2.0},
        {"initial": -1},
        {"initial": math.nan},
        {"maximum": "1h"},
        {"factor": 0.5},
        {"factor": math.inf},
        {"factor": math.nan},
        {"factor": "2"},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": math.nan},
        {"jitter": None},
        {"on": "ValueError"},
        {"on": (ValueError, 3)},
        {"never": int},
    ],
)
def test_bad_values(wrong: dict[str, Any]) -> None:
    """Each is refused when the policy is made, and named."""
    with pytest.raises(InvalidOption) as caught:
        Retry(**wrong)
    assert caught.value.option == next(iter(wrong))


def test_max_attempts_range() -> None:
    """What the column can hold."""
    assert [checked_max_attempts(value) for value in (1, 32_767)] == [1, 32_767]
