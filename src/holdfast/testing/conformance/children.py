"""save_children and await_children: chains that a job has enqueued by itself, and its wait for them."""

from __future__ import annotations

from typing import Literal

from holdfast.errors import BlockerCycle, ChainNeeded, ChainNotFound, LeaseLost
from holdfast.model.call import Extras
from holdfast.model.control import ControlOutcome
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.children import Child, await_children, save_children
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.read_blockers import read_blockers, read_children
from holdfast.operations.suspend_jobs import Suspension, suspend_jobs
from holdfast.operations.sweep_blockers import sweep_blockers
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, ids_of, lease_of, refused
from holdfast.testing.conformance.people import cancel, delete, outcomes, retry, send
from holdfast.testing.conformance.stale_holders import add_stale_cases

CASES = Cases("children")


async def parent(h: Harness) -> Lease:
    (lease,) = await h.put_and_claim(type_name="parent")
    return lease


async def bear(h: Harness, lease: Lease, *ids: str, name: str = "parts") -> bool:
    children = [Child(chain_id, "sum", "pending", "created", place) for place, chain_id in enumerate(ids)]
    return await h.run(lambda: save_children(lease, name, children))


async def expect(h: Harness, lease: Lease, *ids: str, on_failure: Literal["run", "wait"] = "run") -> bool:
    return await h.run(lambda: await_children(lease, lease.id, ids, on_failure))


async def suspend(h: Harness, lease: Lease) -> Settlement:
    return await h.run(lambda: suspend_jobs([Suspension(lease.id, lease.lease_generation, "children")]))


async def wait_for(h: Harness, lease: Lease, *ids: str, on_failure: Literal["run", "wait"] = "run") -> None:
    """As a handler does: note what it waits for, then give back the slot."""
    assert await expect(h, lease, *ids, on_failure=on_failure)
    assert (await suspend(h, lease)).lost == set()


@CASES
async def are_kept_in_their_order(h: Harness) -> None:
    """Under the name of a step; those of a second name come behind; they are no blockers."""
    lease = await parent(h)
    first, second, third = await h.put(3)
    assert await bear(h, lease, second, first)
    assert await bear(h, lease, third, name="more")
    assert await bear(h, lease, new_id(), name="more")  # the answer to the first try may have been lost
    found = await h.run(lambda: read_children(lease.id), read_only=True)
    assert [(child.name, child.chain_id, child.status, child.is_resolved) for child in found] == [
        ("parts", second, Status.PENDING, True),
        ("parts", first, Status.PENDING, True),
        ("more", third, Status.PENDING, True),
    ]
    assert await h.run(lambda: read_blockers(lease.id), read_only=True) == []
    assert (await h.job(lease.id)).waiting_for == 0


@CASES
async def keep_their_parent_waiting(h: Harness) -> None:
    """Blocked until the last of them has ended; then due, with the attempt refunded."""
    lease = await parent(h)
    ids = await h.put(3)
    await bear(h, lease, *ids)
    await wait_for(h, lease, *ids)
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.waiting_for) == (Status.BLOCKED, 0, 3)
    leases = [lease_of(job) for job in await h.claim()]
    await h.complete(*leases[:2])
    assert (await h.job(lease.id)).waiting_for == 1
    h.clock.advance(7)
    settlement = await h.complete(leases[2], output="7")
    assert settlement.woken == {"default"}
    job = await h.job(lease.id)
    assert (job.status, job.ready_at, job.waiting_for) == (Status.PENDING, h.now, 0)
    found = await h.run(lambda: read_children(lease.id), read_only=True)
    assert [bytes(child.output) for child in found] == [b"null", b"null", b"7"]
    (again,) = await h.claim()
    assert (again.id, again.attempt, again.has_blockers) == (lease.id, 1, True)


@CASES
async def only_those_that_are_asked_for(h: Harness) -> None:
    """A job waits for some of its children, and later for others."""
    lease = await parent(h)
    first, second = await h.put(2)
    await bear(h, lease, first, second)
    await wait_for(h, lease, first)
    leases = {job.id: lease_of(job) for job in await h.claim()}
    await h.complete(leases[first])
    (again,) = await h.claim()
    assert again.id == lease.id
    await wait_for(h, lease_of(again), first, second)
    assert (await h.job(lease.id)).waiting_for == 1
    await h.complete(leases[second])
    assert ids_of(await h.claim()) == [lease.id]


@CASES
async def that_end_before_the_slot_is_given_back(h: Harness) -> None:
    """Between the note and the wait: it is no wait at all."""
    lease = await parent(h)
    (child,) = await h.put(1)
    await bear(h, lease, child)
    assert await expect(h, lease, child)
    await h.complete(await h.claim_one())
    assert (await h.job(lease.id)).waiting_for == 0
    await suspend(h, lease)
    assert (await h.job(lease.id)).status is Status.PENDING


@CASES
async def that_have_ended_are_not_waited_for(h: Harness) -> None:
    """Of several only the others."""
    lease = await parent(h)
    ids = await h.put(2)
    await bear(h, lease, *ids)
    done = await h.claim_one()
    await h.complete(done)
    await wait_for(h, lease, *ids)
    assert (await h.job(lease.id)).waiting_for == 1


@CASES
async def that_fail_end_the_wait_or_not(h: Harness) -> None:
    """As asked: "run" goes on, "wait" waits until somebody has retried it and it completes."""
    for on_failure, is_woken in (("run", True), ("wait", False)):
        lease = await parent(h)
        (child,) = await h.put(1)
        await bear(h, lease, child)
        await wait_for(h, lease, child, on_failure=on_failure)  # type: ignore[arg-type]  # one of the two
        await h.fail(await h.claim_one(), is_final=True)
        assert (await h.job(lease.id)).status is (Status.PENDING if is_woken else Status.BLOCKED)
        if not is_woken:
            await retry(h, child)
            await h.complete(await h.claim_one())
        assert ids_of(await h.claim()) == [lease.id]


@CASES
async def that_are_retried_do_not_hold_up_who_has_run(h: Harness) -> None:
    """A job that waits for other children looks at this one again by itself."""
    lease = await parent(h)
    first, second = await h.put(2)
    await bear(h, lease, first, second)
    await wait_for(h, lease, first, second)
    leases = {job.id: lease_of(job) for job in await h.claim()}
    await h.fail(leases[first], is_final=True)
    await retry(h, first)
    assert (await h.job(lease.id)).waiting_for == 1
    await h.complete(leases[second])
    assert (await h.job(lease.id)).status is Status.PENDING


@CASES
async def cannot_be_deleted_before_it_has_ended(h: Harness) -> None:
    """Waited for or not; then they can, and cascade takes them along."""
    lease = await parent(h)
    (child,) = await h.put(1)
    await bear(h, lease, child)
    await h.complete(await h.claim_one())
    error = await refused(ChainNeeded, delete(h, child))
    assert error.needed == {child: [lease.id]}
    await h.complete(lease)
    assert outcomes(await delete(h, lease.id, cascade=True)) == [ControlOutcome.DELETED] * 2
    assert h.count("job") == h.count("job_step") == h.count("job_blocker") == 0


@CASES
async def live_on_when_it_is_cancelled(h: Harness) -> None:
    """And what they end with does no harm; a retry waits for those that have not."""
    lease = await parent(h)
    ids = await h.put(2)
    await bear(h, lease, *ids)
    await wait_for(h, lease, *ids)
    await cancel(h, lease.id)
    assert {(await h.job(child)).status for child in ids} == {Status.PENDING}
    first, second = [lease_of(job) for job in await h.claim()]
    await h.complete(first)
    await retry(h, lease.id)
    assert (await h.job(lease.id)).status is Status.BLOCKED
    await h.complete(second)
    assert ids_of(await h.claim()) == [lease.id]


@CASES
async def that_wait_for_it_are_refused(h: Harness) -> None:
    """No chain may wait for itself, over however many others."""
    lease = await parent(h)
    child = document(id=new_id(), more=Extras(blockers=[lease.id]))
    await send(h, child)
    await bear(h, lease, child.id)
    error = await refused(BlockerCycle, expect(h, lease, child.id))
    assert lease.id in str(error)
    await refused(ChainNotFound, expect(h, lease, new_id()))
    assert (await h.job(lease.id)).waiting_for == 0


@CASES
async def whose_end_nobody_told_are_found(h: Harness) -> None:
    """By the sweep, as with blockers."""
    lease = await parent(h)
    (child,) = await h.put(1)
    await bear(h, lease, child)
    await wait_for(h, lease, child)
    h.sql("UPDATE {job} SET status = 'completed', finished_at = created_at WHERE id = :id", id=child)
    swept = await h.run(lambda: sweep_blockers(None))
    assert swept.settled == 1
    assert (await h.job(lease.id)).status is Status.PENDING


async def _stale_bear(h: Harness, lease: Lease) -> Settlement:
    error = await refused(LeaseLost, bear(h, lease, new_id()))
    assert h.count("job_step") == h.count("job_blocker") == 0
    await refused(LeaseLost, expect(h, lease))
    return Settlement(lost={error.job_id})


add_stale_cases(CASES, _stale_bear, is_repeat=())


@CASES.on_postgres
async def locked_by_somebody_is_told_at_once(h: Harness) -> None:
    """Nobody waits for a user's lock; the caller may try again."""
    lease = await parent(h)
    (child,) = await h.put(1)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=lease.id):
        assert not await bear(h, lease, child)
        assert not await expect(h, lease, child)
    assert await bear(h, lease, child)
    assert await expect(h, lease, child)
