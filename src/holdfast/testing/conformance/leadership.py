"""acquire_leadership, renew_leadership, resign_leadership: one leader at a time, each in a term of its own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

from holdfast.operations.leadership import acquire_leadership, renew_leadership, resign_leadership
from holdfast.operations.worker_life import WorkerIdentity, heartbeat
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, Harness

CASES = Cases("leadership")

_LEASE = timedelta(seconds=15)
_INSTANT = timedelta(milliseconds=1)


async def _acquire(h: Harness, worker: str = "w1") -> int | None:
    return await h.run(lambda: acquire_leadership(worker, _LEASE))


async def _renew(h: Harness, term: int, worker: str = "w1") -> bool:
    return await h.run(lambda: renew_leadership(worker, term, _LEASE))


async def _resign(h: Harness, term: int | None, worker: str = "w1") -> bool:
    return await h.run(lambda: resign_leadership(worker, term))


async def _sees_a_leader(h: Harness, worker: str = "w2") -> bool:
    identity = WorkerIdentity(id=worker, version="1.2.3", queues=["default"])
    return (await h.run(lambda: heartbeat(identity, DEAD_AFTER, is_draining=False))).has_leader


@CASES
async def the_first_leads(h: Harness) -> None:
    """Where nobody led before, the first to ask does; the second is refused, and so is the first if it asks again."""
    assert await _acquire(h) == 1
    assert await _acquire(h, "w2") is None
    assert await _acquire(h) is None


@CASES
async def a_lease_that_ran_out_is_taken(h: Harness) -> None:
    """At its end, and not a moment before, another leads in the next term."""
    await _acquire(h)
    h.clock.advance(_LEASE - _INSTANT)
    assert await _acquire(h, "w2") is None
    h.clock.advance(_INSTANT)
    assert await _acquire(h, "w2") == 2


@CASES
async def renewal_keeps_the_lead(h: Harness) -> None:
    """For as long as it is renewed in time nobody else leads, and the term stays the same."""
    assert await _acquire(h) == 1
    for _ in range(5):
        h.clock.advance(_LEASE * 0.9)
        assert await _renew(h, 1)
        assert await _acquire(h, "w2") is None


@CASES
async def what_ran_out_is_not_renewed(h: Harness) -> None:
    """Even if nobody has taken it: whoever was away for so long stands for election again, and gets a new term."""
    await _acquire(h)
    h.clock.advance(_LEASE)
    assert not await _renew(h, 1)
    assert await _acquire(h) == 2


@CASES
async def an_old_term_is_fenced(h: Harness) -> None:
    """A former leader neither renews nor ends the term of its successor, nor a later one of its own."""
    await _acquire(h)
    h.clock.advance(_LEASE)
    assert await _acquire(h, "w2") == 2
    assert not await _renew(h, 1)
    assert not await _renew(h, 2)
    assert not await _resign(h, 1)
    assert not await _resign(h, None)
    assert await _renew(h, 2, "w2")
    h.clock.advance(_LEASE)
    assert await _acquire(h) == 3
    assert not await _renew(h, 1)
    assert not await _resign(h, 1)
    assert await _acquire(h, "w2") is None


@CASES
async def resignation_leaves_it_to_others(h: Harness) -> None:
    """At once, in a new term; resigning again changes nothing."""
    await _acquire(h)
    assert await _resign(h, 1)
    assert not await _resign(h, 1)
    assert await _acquire(h, "w2") == 2
    assert not await _resign(h, 1)


@CASES
async def resignation_without_knowing_the_term(h: Harness) -> None:
    """The answer to an election was lost: the worker gives up what it may have."""
    await _acquire(h)
    assert await _resign(h, None)
    assert await _acquire(h, "w2") == 2


@CASES
async def heartbeats_see_whether_anybody_leads(h: Harness) -> None:
    """Nobody yet, somebody, nobody after the end of the lease, nobody after a resignation."""
    await h.register("w2")
    assert not await _sees_a_leader(h)
    await _acquire(h)
    assert await _sees_a_leader(h)
    h.clock.advance(_LEASE)
    assert not await _sees_a_leader(h)
    term = await _acquire(h)
    assert await _sees_a_leader(h)
    await _resign(h, term)
    assert not await _sees_a_leader(h)


@CASES
async def racing_candidates(h: Harness) -> None:
    """Race: of many that stand at the same moment one is elected, in every round; terms have no gaps."""
    stores = h.neighbours(6)
    for round_ in range(1, 11):
        asked = (store.run(partial(acquire_leadership, f"w{number}", _LEASE)) for number, store in enumerate(stores))
        answers = await asyncio.gather(*asked)
        assert [term for term in answers if term is not None] == [round_]
        h.clock.advance(_LEASE)


@CASES
async def renewal_against_election(h: Harness) -> None:
    """Race: at the end of a lease either its holder renews it or another takes it, never both."""
    (neighbour,) = h.neighbours(1)
    term, holder = await _acquire(h), "w1"
    for number in range(10):
        assert term is not None
        h.clock.advance(_LEASE - _INSTANT if number % 2 else _LEASE)
        challenger = f"challenger-{number}"
        renewed, taken = await asyncio.gather(
            _renew(h, term, holder),
            neighbour.run(partial(acquire_leadership, challenger, _LEASE)),
        )
        assert renewed == (taken is None) == bool(number % 2)
        if taken is not None:
            term, holder = taken, challenger
