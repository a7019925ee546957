"""complete_outside: a job is completed without a worker, and whoever holds it is shut out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from holdfast.errors import AlreadyFinished, BlockerCycle, ChainNotFound, HoldfastError, InvalidPayload, JobNotFound
from holdfast.model.call import JobDocument
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.claim_jobs import claim_jobs
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.complete_outside import CompletedOutside, OutsideCompletion, complete_outside
from holdfast.operations.control import Orders
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness, document, refused
from holdfast.testing.conformance.settle_chains import behind, send

CASES = Cases("complete_outside")

_RACES = 20


def outside(
    target_id: str, output: str | None = '"out"', *documents: JobDocument, is_chain: bool = False
) -> OutsideCompletion:
    return OutsideCompletion(target_id, is_chain, documents, lambda _: output)


async def finish(
    h: Harness, target_id: str, output: str | None = '"out"', *documents: JobDocument, is_chain: bool = False
) -> CompletedOutside:
    return await h.run(lambda: complete_outside(outside(target_id, output, *documents, is_chain=is_chain)))


async def _pending(h: Harness) -> str:
    return await h.put_one()


async def _retrying(h: Harness) -> str:
    (lease,) = await h.put_and_claim()
    await h.fail(lease)
    return lease.id


async def _blocked(h: Harness) -> str:
    (enqueued,) = await send(h, behind(await h.put_one()))
    return enqueued.id


async def _running(h: Harness) -> str:
    (lease,) = await h.put_and_claim()
    return lease.id


async def _completes(h: Harness, prepare: Callable[[Harness], asyncio.Future[str]]) -> None:
    job_id = await prepare(h)
    before = await h.job(job_id)
    h.clock.advance(1)
    done = await finish(h, job_id, '{"total": 3}')
    job = await h.job(job_id)
    assert done.job == job
    assert (job.status, job.output, job.finished_at, job.completed_by) == (Status.COMPLETED, {"total": 3}, h.now, None)
    assert (job.leased_by, job.leased_until, job.last_attempt_error) == (None, None, None)
    assert (job.attempt, job.lease_generation) == (before.attempt, before.lease_generation + 1)
    assert job.duration_ms == (1000 if before.status is Status.RUNNING else 0)
    assert all(found.id != job_id for found in await h.claim())


for _prepare in (_pending, _retrying, _blocked, _running):
    CASES.add(
        f"of_a_job_that_is{_prepare.__name__}",
        "Output and time are set, by nobody in particular; the lease is gone, the attempts stay.",
        partial(_completes, prepare=_prepare),  # type: ignore[arg-type]  # an async function returns an awaitable
    )


@CASES
async def the_holder_is_shut_out(h: Harness) -> None:
    """Whatever the holder of a running job sends afterwards, it learns that the job is not its own any more."""
    for write in (h.complete, h.fail, h.release, h.renew):
        (lease,) = await h.put_and_claim()
        await finish(h, lease.id)
        before = await h.state(lease.id)
        assert (await write(lease)).lost == {lease.id}
        assert await h.state(lease.id) == before


@CASES
async def finished_already(h: Harness) -> None:
    """A typed error names the status, and nothing changes."""
    completed, dead = await h.put_and_claim(2)
    await h.complete(completed, output="1")
    await h.fail(dead, is_final=True)
    cancelled = await h.put_one()
    await h.run(lambda: cancel_jobs([cancelled], Orders()))
    for job_id, status in ((completed.id, "completed"), (dead.id, "dead_letter"), (cancelled, "cancelled")):
        before = await h.state(job_id)
        error = await refused(AlreadyFinished, finish(h, job_id))
        assert (error.job_id, error.status) == (job_id, status)
        await refused(AlreadyFinished, finish(h, job_id, "2", is_chain=True))
        assert await h.state(job_id) == before


@CASES
async def a_job_that_its_chain_has_left_behind(h: Harness) -> None:
    """It has finished; the chain's last job can be completed instead."""
    (lease,) = await h.put_and_claim()
    next_id = new_id()
    await h.run(lambda: complete_outside(OutsideCompletion(lease.id, False, [document(id=next_id)], None)))  # noqa: FBT003 - a job
    await refused(AlreadyFinished, finish(h, lease.id))
    assert (await finish(h, lease.id, is_chain=True)).job.id == next_id


@CASES
async def unknown(h: Harness) -> None:
    """Of a job and of a chain."""
    await refused(JobNotFound, finish(h, new_id()))
    await refused(ChainNotFound, finish(h, new_id(), is_chain=True))


@CASES
async def goes_on_with_a_call(h: Harness) -> None:
    """The next job waits to be run, with what it inherits from the chain."""
    job_id = await h.put_one(tenant="acme")
    next_id = new_id()
    what = OutsideCompletion(job_id, True, [document(id=next_id, type_name="next", queue="other")], None)  # noqa: FBT003 - a chain
    done = await h.run(lambda: complete_outside(what))
    assert (done.job.id, done.job.status, done.job.tenant, done.woken) == (next_id, Status.PENDING, "acme", {"other"})
    assert (done.job.chain_id, done.job.chain_index, done.job.chain_type_name) == (job_id, 1, "sum")
    first = await h.job(job_id)
    assert (first.status, first.output, first.completed_by, first.is_tail) == (Status.COMPLETED, None, None, False)
    (claimed,) = await h.claim(queues=("other",))
    assert (claimed.id, claimed.lease_generation) == (next_id, 1)


@CASES
async def several_steps(h: Harness) -> None:
    """All in one transaction; only the last job has an output."""
    (lease,) = await h.put_and_claim()
    steps = [document(type_name=f"step {number}") for number in range(3)]
    done = await finish(h, lease.id, '"end"', *steps, is_chain=True)
    rows = h.sql("SELECT type_name, status, completed_by, is_tail FROM {job} ORDER BY chain_index")
    assert [(name, status, by) for name, status, by, _ in rows] == [
        (name, "completed", None) for name in ("sum", "step 0", "step 1", "step 2")
    ]
    assert [bool(is_tail) for *_, is_tail in rows] == [False, False, False, True]
    assert (done.job.type_name, done.job.output) == ("step 2", "end")
    assert (await h.complete(lease)).lost == {lease.id}


@CASES
async def dependants_are_told(h: Harness) -> None:
    """Who waited for the chain may run, and his queue is named; while the chain goes on nobody is told."""
    job_id = await h.put_one()
    (dependant,) = await send(h, behind(job_id, queue="later"))
    steps = [document()]
    done = await h.run(lambda: complete_outside(OutsideCompletion(job_id, True, steps, None)))  # noqa: FBT003 - a chain
    assert (done.woken, (await h.job(dependant.id)).status) == ({"default"}, Status.BLOCKED)
    done = await finish(h, job_id, is_chain=True)
    assert (done.woken, (await h.job(dependant.id)).status) == ({"later"}, Status.PENDING)


@CASES
async def blocked_ones_do_not_come_back(h: Harness) -> None:
    """What a job waited for ends after the job was completed from outside: it stays as it is."""
    (blocker,) = await h.put_and_claim()
    (enqueued,) = await send(h, behind(blocker.id))
    await finish(h, enqueued.id)
    before = await h.job(enqueued.id)
    await h.complete(blocker)
    after = await h.job(enqueued.id)
    assert (after.status, after.output, after.finished_at) == (Status.COMPLETED, "out", before.finished_at)
    assert await h.claim() == []


@CASES
async def refusals_leave_nothing(h: Harness) -> None:
    """An output that does not fit, an unknown blocker, a chain that would wait for itself: nothing is written."""

    def no_fit(type_name: str) -> str:
        raise InvalidPayload(type_name, "does not fit")

    job_id = await h.put_one()
    before = await h.state(job_id)
    attempts: Sequence[tuple[type[HoldfastError], OutsideCompletion]] = (
        (InvalidPayload, OutsideCompletion(job_id, False, (), no_fit)),  # noqa: FBT003 - a job
        (InvalidPayload, OutsideCompletion(job_id, False, [document()], no_fit)),  # noqa: FBT003 - a job
        (ChainNotFound, outside(job_id, "1", document(), behind(new_id()))),
        (BlockerCycle, outside(job_id, "1", behind(job_id))),
    )
    for error, what in attempts:
        await refused(error, h.run(partial(complete_outside, what)))
        assert await h.state(job_id) == before
        assert h.count("job") == 1


@CASES
async def again_after_a_lost_answer(h: Harness) -> None:
    """The same completion sent twice is a success that changes nothing; another one of the same job is refused."""
    for documents in ((), (document(), document())):
        job_id = await h.put_one()
        what = outside(job_id, '"out"', *documents, is_chain=True)
        first = await h.run(partial(complete_outside, what))
        h.clock.advance(1)
        again = await h.run(partial(complete_outside, what))
        assert first.job == again.job
        await refused(AlreadyFinished, finish(h, job_id, is_chain=True))


@CASES
async def racing_the_holder_one_wins(h: Harness) -> None:
    """Race: the holder's completion and one from outside; exactly one takes effect and the other is told."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        (lease,) = await h.put_and_claim()
        completion = Completion(lease.id, lease.lease_generation, '"inside"')
        what = outside(lease.id)
        inside, done = await asyncio.gather(
            stores[0].run(lambda: complete_jobs("w1", [completion])),  # noqa: B023 - awaited in this round
            stores[1].run(lambda: complete_outside(what)),  # noqa: B023 - as above
            return_exceptions=True,
        )
        assert not isinstance(inside, BaseException)
        if inside.locked:
            inside = await stores[0].run(lambda: complete_jobs("w1", [completion]))  # noqa: B023 - as above
        job = await h.job(lease.id)
        is_inside = job.output == "inside"
        assert isinstance(done, AlreadyFinished) is is_inside
        assert bool(inside.lost) is not is_inside
        assert job.completed_by == ("w1" if is_inside else None)


@CASES
async def racing_each_other_one_wins(h: Harness) -> None:
    """Race: two completions from outside; one is told that the job has finished."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        job_id = await h.put_one()
        whats = [outside(job_id, f'"{number}"') for number in range(2)]
        answers = await asyncio.gather(
            *(store.run(partial(complete_outside, what)) for store, what in zip(stores, whats, strict=True)),
            return_exceptions=True,
        )
        winners = [number for number, answer in enumerate(answers) if isinstance(answer, CompletedOutside)]
        assert [type(answer) for answer in answers if isinstance(answer, BaseException)] == [AlreadyFinished]
        assert (await h.job(job_id)).output == str(winners[0])


@CASES
async def racing_a_cancel_one_wins(h: Harness) -> None:
    """Race: a cancel and a completion from outside of a job that waits; the second finds the first one's end."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        job_id = await h.put_one()
        what = outside(job_id)
        cancelled, done = await asyncio.gather(
            stores[0].run(lambda: cancel_jobs([job_id], Orders())),  # noqa: B023 - awaited in this round
            stores[1].run(lambda: complete_outside(what)),  # noqa: B023 - as above
            return_exceptions=True,
        )
        assert not isinstance(cancelled, BaseException)
        status = (await h.job(job_id)).status
        assert cancelled.results[0].outcome == ("cancelled" if status is Status.CANCELLED else "wrong_status")
        assert isinstance(done, AlreadyFinished) is (status is Status.CANCELLED)


@CASES
async def racing_a_claim(h: Harness) -> None:
    """Race: a claim and a completion from outside; it ends completed, and a worker that got it first is shut out."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        job_id = await h.put_one()
        lanes = await h.lanes()
        what = outside(job_id)
        claimed, done = await asyncio.gather(
            stores[0].run(lambda: claim_jobs("w1", lanes, 1, LEASE)),  # noqa: B023 - awaited in this round
            stores[1].run(lambda: complete_outside(what)),  # noqa: B023 - as above
        )
        job = await h.job(job_id)
        assert (job.status, job.output, done.job) == (Status.COMPLETED, "out", job)
        for got in claimed:
            lost = await stores[0].run(
                lambda: complete_jobs("w1", [Completion(got.id, got.lease_generation, '"late"')])  # noqa: B023 - as above
            )
            assert lost.lost == {job_id}
        assert (await h.job(job_id)).output == "out"
