"""A token bucket alone, and many whose sizes are dealt out anew all the time."""

from __future__ import annotations

import math

import pytest

from holdfast.model.rate import TokenBucket


def bucket(rate: float = 2.0, burst: int = 5) -> TokenBucket:
    made = TokenBucket(0.0)
    made.resize(rate, burst, 0.0)
    return made


def test_begins_empty_and_fills_up_to_its_size() -> None:
    """At its rate, and no further."""
    tokens = bucket()
    assert [tokens.level(now) for now in (0.0, 0.5, 1.0, 2.5, 100.0)] == [0.0, 1.0, 2.0, 5.0, 5.0]


def test_what_is_not_used_comes_back() -> None:
    """Of three taken one was used."""
    tokens = bucket()
    tokens.take(3, 10.0)
    assert tokens.level(10.0) == 2.0
    tokens.settle(1, 10.0)
    assert tokens.level(10.0) == 4.0


def test_more_than_there_is_cannot_be_taken() -> None:
    """Whoever takes asks for the level first."""
    with pytest.raises(ValueError, match="3 tokens"):
        bucket().take(3, 1.0)


def test_what_has_not_started_takes_up_room() -> None:
    """While its claim is under way, and while it waits: it may start at the same moment as what comes in meanwhile."""
    tokens = bucket()
    tokens.take(4, 10.0)
    assert tokens.level(12.0) == 1.0
    tokens.settle(3, 12.0)
    assert tokens.reserved == 3
    assert tokens.level(14.0) == 2.0
    tokens.started(1, 14.0)
    assert tokens.level(14.0) == 2.0
    assert tokens.level(14.5) == 3.0
    assert tokens.level(16.0) == 4.0


def test_what_will_not_start_is_put_back() -> None:
    """And no more than was reserved; what comes in finds no more room than before."""
    tokens = bucket()
    tokens.take(4, 10.0)
    tokens.settle(4, 10.0)
    tokens.put_back(3, 10.0)
    assert tokens.reserved == 1
    assert tokens.level(10.0) == 4.0
    tokens.put_back(3, 10.0)
    assert tokens.level(10.0) == 5.0


def test_what_was_never_reserved_takes_up_none() -> None:
    """Jobs that were claimed before there was a rate."""
    tokens = bucket()
    tokens.started(3, 10.0)
    assert tokens.level(10.0) == 5.0


def test_a_smaller_one_with_what_has_not_started() -> None:
    """Whoever lets that happen has given away more than it has: nothing comes in until it has started."""
    tokens = bucket()
    tokens.take(4, 10.0)
    tokens.settle(4, 10.0)
    tokens.resize(2.0, 3, 10.0)
    assert tokens.level(20.0) == 0.0
    tokens.started(2, 20.0)
    assert tokens.level(20.5) == 1.0
    assert tokens.level(30.0) == 1.0


def test_nothing_comes_in_while_it_is_frozen() -> None:
    """Nor for that time afterwards."""
    tokens = bucket()
    tokens.freeze(1.0)
    assert tokens.level(50.0) == 2.0
    tokens.thaw(60.0)
    assert tokens.level(60.5) == 3.0


def test_a_smaller_one_loses_what_is_too_much() -> None:
    """And a larger one gets nothing at once."""
    tokens = bucket()
    tokens.resize(1.0, 2, 10.0)
    assert tokens.level(10.0) == 2.0
    tokens.resize(1.0, 9, 10.0)
    assert tokens.level(10.0) == 2.0
    assert tokens.level(12.0) == 4.0


def test_what_comes_back_does_not_fit_into_a_smaller_one() -> None:
    """Its share has gone to somebody else."""
    tokens = bucket()
    tokens.take(5, 10.0)
    tokens.resize(0.0, 1, 10.0)
    tokens.settle(0, 10.0)
    assert tokens.level(10.0) == 1.0


def test_time_that_goes_back_takes_nothing() -> None:
    """The clock is monotonic; its readings may be handed in late."""
    tokens = bucket()
    assert tokens.level(2.0) == 4.0
    assert tokens.level(1.0) == 4.0
    assert tokens.level(2.5) == 5.0


def test_how_long_until_the_next() -> None:
    """Exactly; never, where nothing comes in."""
    tokens = bucket()
    assert tokens.seconds_until_one(0.0) == 0.5
    assert tokens.seconds_until_one(0.25) == 0.25
    assert tokens.seconds_until_one(3.0) == 0.0
    assert bucket(rate=0.0).seconds_until_one(1.0) == math.inf
    assert bucket(burst=0).seconds_until_one(1.0) == math.inf
