"""look_at_chains: what somebody who waits for chains is told; and how he lets it be known that he waits."""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.model.ids import new_id
from holdfast.operations.announce_waiters import announce_waiters, withdraw_waiters
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.control import Orders
from holdfast.operations.look_at_chains import Sight, look_at_chain, look_at_chains
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.continue_jobs import go_on
from holdfast.testing.conformance.harness import Harness

CASES = Cases("look_at_chains")


async def look(h: Harness, *chain_ids: str) -> dict[str, Sight]:
    sights = await h.run(lambda: look_at_chains(chain_ids), read_only=True)
    return {sight.chain_id: sight for sight in sights}


@CASES
async def every_state(h: Harness) -> None:
    """One answer for each chain: its status, and only of ended ones what came of them."""
    completed, dead, running = await h.put_and_claim(3)
    await h.complete(completed, output='{"total": 3}')
    await h.fail(dead, is_final=True)
    pending, cancelled = await h.put(2)
    await h.run(lambda: cancel_jobs([cancelled], Orders(), "enough"))
    unknown = new_id()
    sights = await look(h, completed.id, dead.id, running.id, pending, cancelled, unknown)
    assert {chain_id: sight.status for chain_id, sight in sights.items()} == {
        completed.id: "completed",
        dead.id: "dead_letter",
        running.id: "running",
        pending: "pending",
        cancelled: "cancelled",
        unknown: None,
    }
    assert sights[completed.id][2:6] == (completed.id, "sum", "sum", '{"total": 3}')
    assert "no such order" in (sights[dead.id].error or "")
    assert "enough" in (sights[cancelled].error or "")
    assert sights[running.id][2:] == sights[pending][2:] == sights[unknown][2:] == (None,) * 5
    assert [chain_id for chain_id, sight in sights.items() if sight.is_over] == [
        chain_id for chain_id in sights if chain_id not in (running.id, pending)
    ]


@CASES
async def a_chain_is_its_last_job(h: Harness) -> None:
    """However long it is; the id of a later job is no chain's."""
    (lease,) = await h.put_and_claim()
    chain_id = lease.id
    for _ in range(3):
        await go_on(h, lease)
        assert (await h.run(lambda: look_at_chain(chain_id))).status == "pending"
        lease = await h.claim_one()
    assert (await h.run(lambda: look_at_chain(chain_id))).status == "running"
    await h.complete(lease, output="7")
    sight = await h.run(lambda: look_at_chain(chain_id))
    assert sight == Sight(chain_id, "completed", lease.id, "next", "sum", "7", None)
    assert (await h.run(lambda: look_at_chain(lease.id))).status is None


@CASES
async def asked_twice_answered_once(h: Harness) -> None:
    """An id given twice is one; none at all is no error."""
    job_id = await h.put_one()
    assert len(await h.run(lambda: look_at_chains([job_id, job_id]))) == 1
    assert await h.run(lambda: look_at_chains([])) == []


@CASES
async def many(h: Harness) -> None:
    """One statement for 500 who wait."""
    leases = await h.put_and_claim(500)
    await h.complete(*leases[:250], output="true")
    sights = await look(h, *(lease.id for lease in leases))
    assert [sights[lease.id].is_over for lease in leases] == [True] * 250 + [False] * 250


@CASES
async def never_between_two_jobs(h: Harness) -> None:
    """Race: while a chain goes on, whoever looks sees it pending, running or at its end, and never gone or over."""
    (store,) = h.neighbours(1)
    for _ in range(10):
        (lease,) = await h.put_and_claim()
        chain_id = lease.id
        going = asyncio.ensure_future(go_on(h, lease))
        looks = [store.run(partial(look_at_chain, chain_id), read_only=True) for _ in range(5)]
        sights = await asyncio.gather(*looks)
        await going
        assert {sight.status for sight in sights} <= {"running", "pending"}
        await h.complete(await h.claim_one())


@CASES.on_postgres
async def announced_and_withdrawn(h: Harness) -> None:
    """Each channel for itself; announcing again keeps a row alive, and what nobody keeps alive goes after an hour."""
    first, second = await h.put(2)

    def rows() -> list[tuple[str, str]]:
        return sorted((str(chain), channel) for chain, channel in h.sql("SELECT chain_id, channel FROM {waiter}"))

    await h.run(lambda: announce_waiters("a", [first, second]))
    await h.run(lambda: announce_waiters("b", [first]))
    assert rows() == sorted([(first, "a"), (second, "a"), (first, "b")])
    await h.run(lambda: withdraw_waiters("a", [first]))
    assert rows() == sorted([(second, "a"), (first, "b")])
    h.clock.advance(3_000)
    await h.run(lambda: announce_waiters("b", [first]))
    h.clock.advance(3_000)
    await h.run(lambda: announce_waiters("c", [second]))
    assert rows() == sorted([(first, "b"), (second, "c")])
