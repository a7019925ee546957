"""read_blockers: a job reads what it waited for."""

from __future__ import annotations

from holdfast.model.call import Extras
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.read_blockers import Blocker, read_blockers
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import ERROR, Harness, document, lease_of

CASES = Cases("read_blockers")


async def blockers(h: Harness, job_id: str) -> list[Blocker]:
    return await h.run(lambda: read_blockers(job_id), read_only=True)


@CASES
async def in_the_order_given(h: Harness) -> None:
    """Status, output and error of each chain's last job, however they ended."""
    ids = await h.put(4)
    leases = {job.id: lease_of(job) for job in await h.claim()}
    await h.complete(leases[ids[0]], output='{"total": 9}')
    await h.fail(leases[ids[1]], is_final=True)
    parent = leases[ids[2]]
    step = Continuation(parent.id, parent.lease_generation, document(type_name="second"))
    await h.run(lambda: continue_jobs("w1", [step]))
    await h.complete(await h.claim_one(), output='"tail"')
    order = [ids[2], ids[0], ids[3], ids[1]]
    dependant = document(id=new_id(), more=Extras(blockers=order, on_blocker_failure="run"))
    await h.run(lambda: enqueue_guarded([dependant], None))
    found = await blockers(h, dependant.id)
    assert [blocker.chain_id for blocker in found] == order
    assert [(blocker.status, blocker.output, blocker.error) for blocker in found] == [
        (Status.COMPLETED, "tail", None),
        (Status.COMPLETED, {"total": 9}, None),
        (Status.RUNNING, None, None),
        (Status.DEAD_LETTER, None, ERROR),
    ]


@CASES
async def none_for_a_plain_job(h: Harness) -> None:
    """Most jobs wait for nothing."""
    assert await blockers(h, await h.put_one()) == []


@CASES
async def a_deleted_chain_is_named(h: Harness) -> None:
    """What it was is not known any more."""
    (lease,) = await h.put_and_claim()
    await h.complete(lease)
    dependant = document(id=new_id(), more=Extras(blockers=[lease.id]))
    await h.run(lambda: enqueue_guarded([dependant], None))
    h.sql("DELETE FROM {job} WHERE id = :id", id=lease.id)
    assert await blockers(h, dependant.id) == [Blocker(chain_id=lease.id)]
