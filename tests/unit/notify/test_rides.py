"""How often a hint rides along with a commit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.notify import postgres
from holdfast.notify.postgres import PostgresNotifier


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(postgres, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def test_rides_take_a_tenth_of_the_time(clock: Clock) -> None:
    """Who enqueues without end waits for other notifying commits a tenth of his time at most, however long that is."""
    notifier = PostgresNotifier("", "holdfast")
    for ride_seconds in (0.001, 0.05):
        ridden, began = 0.0, clock.now
        while clock.now < began + 10:
            if notifier.may_ride_along():
                clock.now += ride_seconds
                ridden += ride_seconds
                notifier.hint((), has_ridden=True)
            else:
                clock.now += 0.0005
        assert ridden / (clock.now - began) == pytest.approx(0.1, rel=0.1)


def test_who_enqueues_seldom_rides_each_time(clock: Clock) -> None:
    """A commit of 1 ms every 12 ms."""
    notifier = PostgresNotifier("", "holdfast")
    for _ in range(10):
        assert notifier.may_ride_along()
        clock.now += 0.001
        notifier.hint((), has_ridden=True)
        clock.now += 0.011


def test_who_was_held_up_by_a_lock_is_not_kept_from_riding(clock: Clock) -> None:
    """A commit that took half a minute was no ride: what it waited for was not the lock of the notifiers."""
    notifier = PostgresNotifier("", "holdfast")
    assert notifier.may_ride_along()
    clock.now += 30
    notifier.hint((), has_ridden=True)
    assert not notifier.may_ride_along()
    clock.now += 2.01
    assert notifier.may_ride_along()


def test_two_do_not_ride_at_once(clock: Clock) -> None:
    """And a ride of which nobody said how it ended, because it failed, is not the last."""
    notifier = PostgresNotifier("", "holdfast")
    assert notifier.may_ride_along()
    assert not notifier.may_ride_along()
    clock.now += 0.2
    assert notifier.may_ride_along()
