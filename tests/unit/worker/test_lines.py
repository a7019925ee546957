"""Runs of a worker: one of each key at a time, in order, and nothing is remembered of what has gone."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease
from holdfast.worker.lines import Lines


def job(name: str, *, key: str | None = "k", place: int = 0, queue: str = "default") -> ClaimedJob:
    fields: dict[str, Any] = dict.fromkeys(ClaimedJob._fields)
    standing = None if key is None else ("follows" if place else "first")
    in_key = {"partition_key": key, "partition_seq": place, "standing": standing}
    return ClaimedJob(**fields | {"id": name, "lease_generation": 1, "queue": queue} | in_key)


def lease(name: str) -> Lease:
    return Lease(name, 1)


def names(jobs: list[ClaimedJob]) -> list[str]:
    return [each.id for each in jobs]


def a_run(*members: str) -> Lines:
    """Entered; the first of it may be started."""
    lines = Lines(100)
    assert names(lines.enter([job(member, place=place) for place, member in enumerate(members)])) == [members[0]]
    return lines


def test_one_of_each_key_may_be_started() -> None:
    lines = Lines(100)
    claimed = [
        job("a2", key="a", place=2),
        job("plain", key=None),
        job("b5", key="b", place=5),
        job("a1", key="a", place=1),
        job("a3", key="a", place=3),
        job("elsewhere", key="a", place=4, queue="mail"),
    ]
    assert sorted(names(lines.enter(claimed))) == ["a1", "b5", "elsewhere", "plain"]
    assert (names(list(lines)), len(lines)) == (["a2", "a3"], 2)


def test_the_next_is_started_when_the_one_before_it_has_ended() -> None:
    lines = a_run("a", "b", "c")
    assert lines.next(lease("b")) is None  # it has not had its turn
    assert lines.peek(lease("a")) == job("b", place=1)
    assert lines.next(lease("a")) == job("b", place=1)
    assert lines.peek(lease("a")) is lines.next(lease("a")) is None  # it has had its turn
    assert lines.next(lease("b")) == job("c", place=2)
    assert lines.next(lease("c")) is None
    assert len(lines) == 0


def test_places_are_counted_from_the_front() -> None:
    lines = a_run("a", "b")
    lines.enter([job("x", key="other", place=7), job("y", key="other", place=8)])
    (first, second), (third, fourth) = ([lines.place(lease(name)) for name in pair] for pair in ("ab", "xy"))
    assert first is not None
    assert third is not None
    assert second == (first[0], 1)
    assert fourth == (third[0], 1)
    assert first[1] == third[1] == 0
    assert first[0] != third[0]
    assert lines.place(lease("alone")) is None


def test_those_behind_one_that_failed_go_back() -> None:
    lines = a_run("a", "b", "c")
    lines.next(lease("a"))
    assert names(lines.break_off(lease("b"))) == ["c"]
    assert lines.break_off(lease("b")) == lines.break_off(lease("unknown")) == []
    assert lines.next(lease("b")) is None


@pytest.mark.parametrize(
    ("lost", "back", "left"),
    [("a", ["b", "c", "d"], []), ("c", ["d"], ["b"]), ("d", [], ["b", "c"]), ("unknown", [], ["b", "c", "d"])],
)
def test_those_behind_one_that_is_lost_go_back(lost: str, back: list[str], left: list[str]) -> None:
    """Whoever has it now runs it, and they come after it."""
    lines = a_run("a", "b", "c", "d")
    assert names(lines.drop({lease(lost)})) == back
    assert names(list(lines)) == left


def test_one_that_is_lost_after_its_turn_strands_nobody() -> None:
    lines = a_run("a", "b", "c")
    lines.next(lease("a"))
    assert lines.drop({lease("a")}) == []
    assert names(list(lines)) == ["c"]


def test_everything_that_waits_can_be_taken_out() -> None:
    lines = a_run("a", "b", "c")
    assert names(lines.clear()) == ["b", "c"]
    assert len(lines) == 0
    assert lines.next(lease("a")) is None


@pytest.mark.parametrize("end", ["left", "cleared", "broken off", "lost"])
def test_nothing_is_remembered_of_what_has_gone(end: str) -> None:
    lines = a_run("a", "b", "c")
    match end:
        case "left":
            lines.leave(lease("b"))
            lines.leave(lease("c"))
        case "cleared":
            lines.clear()
        case "broken off":
            lines.break_off(lease("a"))
            lines.leave(lease("b"))
            lines.leave(lease("c"))
        case _:
            lines.drop({lease("a"), lease("b")})
    lines.leave(lease("a"))
    assert [lines.place(lease(name)) for name in "abc"] == [None] * 3


def test_long_jobs_make_short_runs() -> None:
    lines = Lines(100)
    assert lines.run == 10  # until it is known
    for _ in range(50):
        lines.learn(0.2)
    assert lines.run == 0
    for _ in range(100):
        lines.learn(0.0001)
    assert lines.run == 100
    lines.learn(0.0)
    assert lines.run == 100


def quick_lines() -> Lines:
    """Whose jobs take no time, so that runs may be long."""
    lines = Lines(500)
    for _ in range(100):
        lines.learn(0.0)
    return lines


def test_a_claim_that_has_room_for_no_more_is_followed_by_one_of_fewer_keys() -> None:
    """Half as many each time, down to runs of 50: what is left over is for the claims that come meanwhile."""
    lines = quick_lines()
    widths = []
    for _ in range(5):
        keys = lines.width(100)
        widths.append(keys)
        lines.learn_width(keys, 500 // keys * keys, 500)
    assert widths == [100, 50, 25, 12, 10]


def test_a_claim_with_room_to_spare_is_followed_by_one_of_more_keys() -> None:
    lines = quick_lines()
    for _ in range(3):
        lines.learn_width(lines.width(100), 500, 500)
    widths = []
    for _ in range(6):
        widths.append(lines.width(500))
        lines.learn_width(lines.width(500), lines.width(500), 500)
    assert widths == [12, 24, 48, 96, 192, 384]
    assert lines.width(500) == 500
    # Where there were fewer than asked for, more would not be found either.
    lines.learn_width(100, 500, 500)
    lines.learn_width(49, 49, 500)
    assert lines.width(500) == 50


@pytest.mark.parametrize(
    ("seconds", "keys", "jobs"),
    [(0.0, 500, 500), (0.0, 100, 390), (0.01, 100, 500)],
    ids=["jobs without keys", "keys with few jobs", "runs that would take too long"],
)
def test_otherwise_there_are_as_many_keys_as_there_is_room(seconds: float, keys: int, jobs: int) -> None:
    lines = Lines(500)
    for _ in range(100):
        lines.learn(seconds)
    lines.learn_width(keys, jobs, 500)
    assert lines.width(500) == 500
