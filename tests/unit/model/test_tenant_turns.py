"""Whose turn it is, decided without a database."""

from __future__ import annotations

import math
from typing import NamedTuple

from holdfast.model.scan_position import Instant, Lane
from holdfast.model.tenant_turns import WINDOW, FairQueues, Part, TenantLane, TenantTurns


class Job(NamedTuple):
    tenant: str | None
    seq: int
    priority: int = 0
    ready_at: Instant = 1
    queue: str = "q"


def found(*tenants: str, due_in_ms: int = 0, priority: int = 0) -> list[TenantLane]:
    return [TenantLane(place, name, priority, 1, 10, due_in_ms) for place, name in enumerate(tenants, 1)]


def names(turns: TenantTurns) -> list[str | None]:
    return [lane.tenant for lane in turns.lanes]


def take(turns: TenantTurns, limit: int, **waiting: int) -> dict[str | None, int]:
    """What a claim brings where tenants have so many waiting."""
    part = turns.parts([], limit)[-1]
    assert part.most is not None
    taken: list[Job] = []
    for lane in part.lanes:
        count = min(part.most, waiting.get(str(lane.tenant), 0), part.limit - len(taken))
        taken += [Job(lane.tenant, lane.seq + number + 1) for number in range(count)]
    turns.took(part, taken, [], {})
    return {lane.tenant: sum(job.tenant == lane.tenant for job in taken) for lane in part.lanes}


def test_a_claim_is_divided() -> None:
    """Rounded up, so that it may be full; who comes last gets less."""
    turns = TenantTurns("q")
    turns.look(found("a", "b", "c"), has_plain=False)
    assert take(turns, 10, a=100, b=100, c=100) == {"a": 4, "b": 4, "c": 2}
    assert names(turns) == ["a", "b", "c"]


def test_whoever_has_nothing_more_is_left_out() -> None:
    """And the others share what is left, until the next look."""
    turns = TenantTurns("q")
    turns.look(found("a", "b"), has_plain=False)
    assert take(turns, 10, a=100, b=2) == {"a": 5, "b": 2}
    assert take(turns, 10, a=100) == {"a": 10}
    turns.look(found("a", "b"), has_plain=False)
    assert sorted(names(turns), key=str) == ["a", "b"]


def test_after_a_sleep_everybody_is_asked() -> None:
    """Whatever woke the worker may be theirs."""
    turns = TenantTurns("q")
    turns.look(found("a", "b"), has_plain=False)
    take(turns, 10, a=1, b=1)
    assert names(turns) == []
    turns.revive()
    assert [(lane.tenant, lane.seq) for lane in turns.lanes] == [("a", 10), ("b", 10)]


def test_small_claims_go_round() -> None:
    """Also across looks, which see the same ones in the same order."""
    turns = TenantTurns("q")
    served: list[str | None] = []
    for turn in range(9):
        if turn % 2 == 0:
            turns.look(found("a", "b", "c"), has_plain=False)
        served += [name for name, count in take(turns, 1, a=100, b=100, c=100).items() if count]
    assert sorted(served, key=str) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3


def test_the_best_priority_of_a_tenant_comes_first() -> None:
    """The next one when there is nothing more in it."""
    turns = TenantTurns("q")
    turns.look([*found("a", priority=-5), *found("a", priority=3)], has_plain=False)
    assert [lane.priority for lane in turns.lanes] == [-5]
    take(turns, 10, a=2)
    assert [lane.priority for lane in turns.lanes] == [3]


def test_a_claim_goes_on_behind_the_last_one() -> None:
    """Each tenant's lane has its own place."""
    turns = TenantTurns("q")
    turns.look(found("a", "b"), has_plain=False)
    take(turns, 4, a=100, b=100)
    assert [(lane.tenant, lane.seq) for lane in turns.lanes] == [("a", 11), ("b", 11)]


def test_what_was_found_and_not_claimed_counts() -> None:
    """A share of jobs that were all set aside is a full share: there may be more behind them."""
    turns = TenantTurns("q")
    turns.look(found("a"), has_plain=False)
    (part,) = turns.parts([], 5)
    turns.took(part, [], [Job("a", 17)], {"a": 5})
    assert [lane.seq for lane in turns.lanes] == [17]


def test_the_window_moves_on() -> None:
    """When everybody in it has had a turn, if there may be others; the next look begins behind them."""
    queues = FairQueues()
    tenants = [f"t{number:02}" for number in range(WINDOW)]
    queues.look({"q": found(*tenants)}, (), ())
    assert queues.to_walk(0.0) == []
    (part,) = queues.parts(queues.lanes, WINDOW)
    queues.took(part, [Job(name, 20) for name in tenants[:-1]], [], {})
    assert (queues.to_walk(0.0), queues.after("q")) == (["q"], tenants[-1])
    queues.walked({"q": found("u1", "u2")}, 1.0, 1.5)
    assert [lane.tenant for lane in queues.lanes] == ["u1", "u2"]
    assert queues.seconds_until_walk(0.0) == math.inf


def test_somebody_new_is_looked_for_every_few_claims() -> None:
    """Also where everybody who was there is known."""
    turns = TenantTurns("q")
    turns.look(found("a", "b"), has_plain=False)
    for _ in range(3):
        take(turns, 10, a=100, b=100)
        assert not turns.is_over
    take(turns, 10, a=100, b=100)
    assert turns.is_over
    turns.look(found("a", "b", "c"))
    assert (turns.is_over, names(turns)[0]) == (False, "c")


def test_others_are_claimed_when_no_tenant_has_anything() -> None:
    """As soon as a look has shown them."""
    queues = FairQueues()
    queues.look({"q": found("a")}, (), ())
    lanes = [Lane("q", 0, 0, 0)]
    (part,) = queues.parts(lanes, 5)
    queues.took(part, [], [], {})
    assert queues.parts(lanes, 5) == []
    queues.look({}, {"q"}, ["q"])
    assert queues.parts(lanes, 5) == [Part(lanes, 5, None)]


def test_a_walk_takes_no_more_than_half_of_the_time() -> None:
    """Where nobody in a full window has anything due, the walk goes on, after a while."""
    queues = FairQueues()
    tenants = [f"t{number:02}" for number in range(WINDOW)]
    queues.look({"q": found(*tenants, due_in_ms=5)}, (), ())
    assert queues.to_walk(0.0) == ["q"]
    queues.walked({"q": found(*tenants, due_in_ms=5)}, 1.0, 1.5)
    assert (queues.to_walk(1.9), queues.seconds_until_walk(1.9)) == ([], 2.0 - 1.9)
    assert queues.to_walk(2.0) == ["q"]


def test_a_look_begins_behind_those_who_were_served() -> None:
    """Not behind those whom a small claim did not reach."""
    turns = TenantTurns("q")
    tenants = [f"t{number:02}" for number in range(WINDOW)]
    turns.look(found(*tenants), has_plain=False)
    take(turns, 3, **dict.fromkeys(tenants, 9))
    assert (turns.after, turns.is_over) == ("t02", False)


def test_jobs_without_a_tenant_are_one_more() -> None:
    """Over several claims, where one is too small to divide."""
    turns = TenantTurns("q")
    plain = [Lane("q", 0, 0, 0)]
    turns.look(found("a", "b", "c"), has_plain=True)
    limits = [part.limit for _ in range(8) for part in turns.parts(plain, 1) if part.most is None]
    assert sum(limits) == 2
    turns.took_plain(is_more=False)
    assert [part.most for part in turns.parts(plain, 6)] == [2]


def test_other_queues_are_claimed_in_one_go() -> None:
    """As they come."""
    lanes = [Lane("x", 0, 0, 0), Lane("y", 0, 0, 0)]
    assert FairQueues().parts(lanes, 7) == [Part(lanes, 7, None)]


def test_a_queue_that_stays_empty_is_forgotten() -> None:
    """At the second look without anything."""
    queues = FairQueues()
    queues.look({"q": found("a")}, (), ())
    queues.look({}, (), ["q"])
    assert queues.names == {"q"}
    queues.look({}, (), ["q"])
    assert queues.names == frozenset()
