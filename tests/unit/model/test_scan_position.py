"""Where the next claim starts."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.scan_position import Lane, ScanPosition


class _Place(NamedTuple):
    queue: str
    priority: int
    ready_at: int
    seq: int


def test_nothing_known() -> None:
    """A new worker has no lanes and may look at once."""
    position = ScanPosition()
    assert position.lanes == []
    assert position.may_look_back(0.0)


def test_advance_moves_past_the_last_job_of_each_lane() -> None:
    """The lane starts behind the last job claimed in it; lanes come in claim order."""
    position = ScanPosition()
    position.advance([_Place("b", 5, 10, 1), _Place("a", 0, 10, 2), _Place("b", 5, 20, 3)])
    assert position.lanes == [Lane("a", 0, 10, 2), Lane("b", 5, 20, 3)]
    position.advance([_Place("a", 0, 11, 9)])
    assert position.lanes == [Lane("a", 0, 11, 9), Lane("b", 5, 20, 3)]


def test_look_back_starts_before_the_first_job() -> None:
    """The job that was found is claimed next, so the lane starts just before it."""
    position = ScanPosition()
    position.advance([_Place("a", 0, 50, 9)])
    position.look_back([_Place("a", 0, 10, 4)], 0, 0)
    assert position.lanes == [Lane("a", 0, 10, 3)]


def test_look_back_keeps_empty_lanes() -> None:
    """A lane without jobs keeps its place: what comes later is found without looking back."""
    position = ScanPosition()
    position.advance([_Place("a", 0, 50, 9)])
    position.look_back([_Place("b", 1, 10, 4)], 0, 0)
    assert position.lanes == [Lane("a", 0, 50, 9), Lane("b", 1, 10, 3)]


def test_too_many_lanes_are_forgotten() -> None:
    """Priorities used once do not make every claim longer for ever."""
    position = ScanPosition()
    position.advance([_Place("a", priority, 1, priority) for priority in range(100)])
    position.look_back([_Place("a", 3, 1, 3)], 0, 0)
    assert position.lanes == [Lane("a", 3, 1, 2)]


def test_looking_back_costs_at_most_a_twentieth() -> None:
    """A look of 10 ms earns 190 ms without one."""
    position = ScanPosition()
    position.look_back([], 100.0, 100.01)
    assert not position.may_look_back(100.01 + 0.189)
    assert abs(position.seconds_until_look_back(100.01) - 0.19) < 1e-6
    assert position.may_look_back(100.01 + 0.1901)
    assert position.seconds_until_look_back(200.0) == 0.0


def test_budget_over_time() -> None:
    """However often it is asked, looking takes no more than 5 % of the time."""
    position = ScanPosition()
    now = looked = 0.0
    while now < 100:
        if position.may_look_back(now):
            position.look_back([], now, now + 0.3)
            now += 0.3
            looked += 0.3
        else:
            now += 0.01
    assert looked / now <= 0.051


def _steady(position: ScanPosition, now: float, until: float, *, is_worth_it: bool) -> float:
    """A busy worker whose looks take 2 ms; returns how long it looked."""
    looked, seq = 0.0, 1000
    while now < until:
        if position.may_look_back(now, is_busy=True):
            position.look_back([_Place("a", 0, 5, seq - 500)], now, now + 0.002)
            position.advance([_Place("a", 0, 5, seq - 400 if is_worth_it else seq + 1)])
            looked += 0.002
        seq += 500
        position.advance([_Place("a", 0, 5, seq)])
        now += 0.01
    return looked


def test_a_busy_worker_that_finds_nothing_looks_less() -> None:
    """Jobs that somebody has just locked are seen, but not to be had: after a while a hundredth is spent on looks."""
    position = ScanPosition()
    _steady(position, 0.0, 10.0, is_worth_it=False)
    assert 0.05 < _steady(position, 10.0, 20.0, is_worth_it=False) <= 0.101


def test_a_busy_worker_that_finds_something_looks_again() -> None:
    """As soon as jobs come in behind it, or in a new lane, it is a twentieth again."""
    position = ScanPosition()
    _steady(position, 0.0, 10.0, is_worth_it=False)
    _steady(position, 10.0, 11.0, is_worth_it=True)
    assert 0.35 < _steady(position, 11.0, 20.0, is_worth_it=True) <= 0.451


def test_a_busy_worker_finds_a_new_lane() -> None:
    """A lane that is new is a find in itself, whatever is claimed first."""
    position = ScanPosition()
    _steady(position, 0.0, 10.0, is_worth_it=False)
    position.look_back([_Place("urgent", -1, 5, 1)], 20.0, 20.002)
    position.look_back([_Place("urgent", -1, 5, 2)], 30.0, 30.002)
    assert position.may_look_back(30.002 + 0.0381, is_busy=True)


def test_a_busy_worker_looks_twice_a_second() -> None:
    """Even if its looks take long: what comes in behind it, or with a better priority, does not wait for that."""
    position = ScanPosition()
    for second in range(10):
        position.look_back([], second, second + 0.02)
    assert not position.may_look_back(9.51, is_busy=True)
    assert position.may_look_back(9.53, is_busy=True)


def test_an_idle_worker_looks_as_before() -> None:
    """It has nothing else to do, and may wait for a job that comes with no hint."""
    position = ScanPosition()
    _steady(position, 0.0, 10.0, is_worth_it=False)
    position.look_back([], 20.0, 20.002)
    assert position.may_look_back(20.002 + 0.0381)
    assert not position.may_look_back(20.002 + 0.0381, is_busy=True)
