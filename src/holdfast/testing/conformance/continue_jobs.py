"""continue_jobs: a chain goes on at most once, with the completion of the job before."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.errors import BlockerCycle
from holdfast.model.call import Extras
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.control import Orders
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, refused
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases

CASES = Cases("continue_jobs")


async def go_on(h: Harness, lease: Lease, worker: str = "w1", type_name: str = "next", **fields: Any) -> Settlement:
    """Continue with a job of type `next`."""
    continuation = Continuation(lease.id, lease.lease_generation, document(type_name=type_name, **fields))
    return await h.run(lambda: continue_jobs(worker, [continuation]))


@CASES
async def next_job_of_the_chain(h: Harness) -> None:
    """The chain's id, the next index, its own id and type; the parent is completed without an output."""
    (lease,) = await h.put_and_claim(tenant="acme", headers=None)
    h.clock.advance(timedelta(milliseconds=40))
    next_id = new_id()
    settlement = await go_on(h, lease, id=next_id, input={"n": 2}, queue="default", priority=3)
    assert (settlement.lost, settlement.locked, settlement.woken) == (set(), set(), {"default"})
    parent, job = await h.job(lease.id), await h.job(next_id)
    assert (parent.status, parent.output, parent.completed_by, parent.duration_ms) == (Status.COMPLETED, None, "w1", 40)
    assert (job.chain_id, job.chain_index, job.type_name, job.chain_type_name) == (lease.id, 1, "next", "sum")
    assert (job.status, job.input, job.priority, job.tenant, job.attempt) == (Status.PENDING, {"n": 2}, 3, "acme", 0)
    assert (job.created_at, job.ready_at) == (h.now, h.now)
    tails = h.sql("SELECT id FROM {job} WHERE is_tail")
    assert [str(row[0]) for row in tails] == [next_id]


@CASES
async def inherits_and_overrides(h: Harness) -> None:
    """Tenant comes from the parent unless the call says otherwise; the time is the call's own."""
    (lease,) = await h.put_and_claim(tenant="acme")
    own = new_id()
    await go_on(h, lease, id=own, tenant="other", delay_ms=60_000, max_attempts=2)
    job = await h.job(own)
    assert (job.tenant, job.max_attempts, job.scheduled_at) == ("other", 2, h.now + timedelta(minutes=1))
    assert await h.claim() == []


@CASES
async def loops(h: Harness) -> None:
    """Any type may follow any other, for as long as it likes."""
    (lease,) = await h.put_and_claim()
    first = lease.id
    for index in range(1, 6):
        await go_on(h, lease, type_name="sum" if index % 2 else "next")
        (claimed,) = await h.claim()
        assert (claimed.chain_id, claimed.chain_index) == (first, index)
        lease = Lease(claimed.id, claimed.lease_generation)
    await h.complete(lease, output="5")
    assert (await h.job(lease.id)).output == 5


@CASES
async def twice_is_once(h: Harness) -> None:
    """The same continuation again, after an answer that was lost, is a success and adds nothing."""
    (lease,) = await h.put_and_claim()
    continuation = Continuation(lease.id, lease.lease_generation, document(type_name="next"))
    for _ in range(2):
        settlement = await h.run(lambda: continue_jobs("w1", [continuation]))
        assert (settlement.lost, settlement.locked) == (set(), set())
    assert h.count("job") == 2


@CASES
async def race_of_two_continuations(h: Harness) -> None:
    """Race: one job per place in a chain, whoever comes first."""
    (lease,) = await h.put_and_claim()
    stores = h.neighbours(8)
    nexts = [document(type_name="next") for _ in stores]
    await asyncio.gather(
        *(
            store.run(partial(continue_jobs, "w1", [Continuation(lease.id, lease.lease_generation, following)]))
            for store, following in zip(stores, nexts, strict=True)
        )
    )
    assert h.count("job") == 2


@CASES
async def blocked_continuation(h: Harness) -> None:
    """It waits for its blockers like a first job does."""
    blocker = await h.put_one(queue="elsewhere")
    (lease,) = await h.put_and_claim()
    following = new_id()
    await go_on(h, lease, id=following, more=Extras(blockers=[blocker]))
    assert (await h.job(following)).status is Status.BLOCKED
    (held,) = await h.claim(queues=("elsewhere",))
    settlement = await h.complete(Lease(held.id, held.lease_generation))
    assert settlement.woken == {"default"}
    assert (await h.job(following)).status is Status.PENDING


@CASES
async def cycle_is_refused(h: Harness) -> None:
    """A chain cannot go on behind a chain that waits for it."""
    (lease,) = await h.put_and_claim()
    (waiting,) = await h.run(lambda: enqueue_guarded([document(more=Extras(blockers=[lease.id]))], None))
    error = await refused(BlockerCycle, go_on(h, lease, more=Extras(blockers=[waiting.id])))
    assert error.chain_id == lease.id
    assert (await h.job(lease.id)).status is Status.RUNNING
    assert h.count("job") == 2


@CASES
async def cycle_within_a_batch_is_refused(h: Harness) -> None:
    """Two chains that go on behind each other at once: neither does; one after the other, the second cannot."""
    first, second = await h.put_and_claim(2)
    batch = [
        Continuation(lease.id, lease.lease_generation, document(type_name="next", more=Extras(blockers=[other.id])))
        for lease, other in ((first, second), (second, first))
    ]
    await refused(BlockerCycle, h.run(lambda: continue_jobs("w1", batch)))
    assert (h.count("job"), h.count("job_blocker")) == (2, 0)
    await h.run(lambda: continue_jobs("w1", batch[:1]))
    await refused(BlockerCycle, h.run(lambda: continue_jobs("w1", batch[1:])))


async def _go_on_all(h: Harness, *leases: Lease) -> Settlement:
    jobs = [Continuation(lease.id, lease.lease_generation, document(queue="following")) for lease in leases]
    return await h.run(lambda: continue_jobs("w1", jobs))


def _continued(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE chain_index = 1")[0][0])


add_stale_cases(CASES, go_on, is_repeat=())
add_locked_case(CASES, _go_on_all, _continued)


@CASES
async def of_a_cancelled_chain_is_born_cancelled(h: Harness) -> None:
    """Who cancelled the chain did not mean its next job either; with the reason, and whoever waits is told."""
    (lease,) = await h.put_and_claim()
    waiting = document(more=Extras(blockers=[lease.id], on_blocker_failure="cancel"))
    await h.run(lambda: enqueue_guarded([waiting], None))
    await h.run(lambda: cancel_jobs([lease.id], Orders(actor="ada"), "enough"))
    next_id = new_id()
    settlement = await go_on(h, lease, id=next_id)
    assert (settlement.lost, settlement.woken, settlement.unsettled) == (set(), set(), set())
    job = await h.job(next_id)
    assert ((await h.job(lease.id)).status, job.status, job.finished_at) == (Status.COMPLETED, Status.CANCELLED, h.now)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.message == "enough"
    assert (await h.job(waiting.id)).status is Status.CANCELLED
    again = await go_on(h, lease, id=new_id())
    assert again.lost == set()
    assert h.count("job") == 3


@CASES
async def of_a_cancelled_chain_with_blockers(h: Harness) -> None:
    """It waits for nobody now; retried, it does."""
    (lease,) = await h.put_and_claim()
    blocker = await h.put_one(at=h.now + timedelta(days=1))
    await h.run(lambda: cancel_jobs([lease.id], Orders()))
    next_id = new_id()
    await go_on(h, lease, id=next_id, more=Extras(blockers=[blocker], on_blocker_failure="wait"))
    assert (await h.job(next_id)).status is Status.CANCELLED
    await h.run(lambda: retry_jobs([lease.id], Orders()))
    assert (await h.job(next_id)).status is Status.BLOCKED


@CASES
async def where_only_the_job_was_cancelled(h: Harness) -> None:
    """The chain goes on."""
    (lease,) = await h.put_and_claim()
    await h.run(lambda: cancel_jobs([lease.id], Orders(is_chain=False, is_job_only=True)))
    next_id = new_id()
    assert (await go_on(h, lease, id=next_id)).woken == {"default"}
    assert (await h.job(next_id)).status is Status.PENDING
