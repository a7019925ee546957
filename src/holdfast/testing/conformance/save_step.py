"""save_step: a saved step stays saved, and only the holder can save one."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from holdfast.errors import LeaseLost
from holdfast.operations.fence import hold_lease
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.save_step import SavedStep, list_steps, save_step
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness, refused
from holdfast.testing.conformance.stale_holders import add_stale_cases, cancelled, completed, deleted

CASES = Cases("save_step")


async def save(h: Harness, lease: Lease, name: str = "charge", result: str = '"ok"') -> bool:
    return await h.run(lambda: save_step(lease, name, result))


async def steps(h: Harness, job_id: str) -> list[SavedStep]:
    return await h.run(lambda: list_steps(job_id), read_only=True)


async def stale_save(h: Harness, lease: Lease) -> Settlement:
    """What a batch of one would say; beside the job itself, its steps must not change."""
    before = await steps(h, lease.id)
    error = await refused(LeaseLost, save(h, lease))
    assert (error.job_id, error.lease_generation) == (lease.id, lease.lease_generation)
    assert await steps(h, lease.id) == before
    return Settlement(lost={error.job_id})


@CASES
async def is_there_for_the_next_attempt(h: Harness) -> None:
    """With its result, its generation and the time; the job names the last one saved."""
    (lease,) = await h.put_and_claim()
    assert await save(h, lease, "one", '{"a": [1, null, 1e300, 18446744073709551617]}')
    h.clock.advance(1)
    assert await save(h, lease, "two", "null")
    await h.fail(lease)
    h.clock.advance(timedelta(hours=1))
    again = await h.claim_one()
    found = await steps(h, again.id)
    assert [(step.name, step.lease_generation) for step in found] == [("one", 1), ("two", 1)]
    assert bytes(found[0].result).replace(b" ", b"") == b'{"a":[1,null,1e300,18446744073709551617]}'
    assert bytes(found[1].result) == b"null"
    assert found[1].saved_at == h.now - timedelta(hours=1)
    assert h.sql("SELECT step FROM {job}")[0][0] == "two"


@CASES
async def again_keeps_the_first_result(h: Harness) -> None:
    """The answer to the first try may have been lost."""
    (lease,) = await h.put_and_claim()
    assert await save(h, lease, "one", "1")
    assert await save(h, lease, "one", "2")
    assert [bytes(step.result) for step in await steps(h, lease.id)] == [b"1"]


@CASES
async def of_one_job_are_not_those_of_another(h: Harness) -> None:
    """Names are a job's own."""
    first, second = await h.put_and_claim(2)
    await save(h, first, "one", "1")
    await save(h, second, "one", "2")
    assert [bytes(step.result) for step in await steps(h, first.id)] == [b"1"]
    assert [bytes(step.result) for step in await steps(h, second.id)] == [b"2"]


@CASES
async def late_but_not_taken_may_save(h: Harness) -> None:
    """Until somebody takes the job, its holder may save."""
    (lease,) = await h.put_and_claim()
    h.clock.advance(LEASE * 3)
    assert await save(h, lease)


add_stale_cases(CASES, stale_save, is_repeat=())


@CASES
async def refusals_say_why(h: Harness) -> None:
    """Completed, cancelled and deleted are told apart from lost."""
    for situation, reason in ((completed, "completed_here"), (cancelled, "cancelled"), (deleted, "deleted")):
        lease = await situation(h)
        assert (await refused(LeaseLost, save(h, lease))).reason == reason
        assert (await refused(LeaseLost, h.run(partial(hold_lease, lease)))).reason == reason


@CASES.on_postgres
async def locked_by_somebody_is_told_at_once(h: Harness) -> None:
    """Nobody waits for a user's lock; the caller may try again."""
    (lease,) = await h.put_and_claim()
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=lease.id):
        assert not await save(h, lease)
        assert not await h.run(lambda: hold_lease(lease))
        assert await steps(h, lease.id) == []
    assert await save(h, lease)
    assert await h.run(lambda: hold_lease(lease))
