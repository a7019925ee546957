"""delete_chains: all of a chain goes, or nothing does; who needs it is named."""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.errors import BatchRefused, ChainNeeded, ChainNotFound, HoldfastError
from holdfast.model.control import ControlOutcome
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.delete_chains import delete_chains
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.continue_jobs import go_on
from holdfast.testing.conformance.deduplication import keyed
from holdfast.testing.conformance.harness import Harness, refused
from holdfast.testing.conformance.people import (
    HASTY,
    ORDERS,
    STRICT,
    audit,
    cancel,
    dead_letter,
    delete,
    outcomes,
    send,
    send_one,
)
from holdfast.testing.conformance.settle_chains import behind

CASES = Cases("delete_chains")

_RACES = 30
_TABLES = ("job", "job_step", "job_log", "job_attempt", "job_blocker", "deduplication")


async def _two_jobs_with_everything(h: Harness) -> str:
    """A chain of two jobs with steps, logs, attempts, a blocker and a key."""
    blocker = await h.put_one()
    await h.complete(await h.claim_one())
    chain = await send_one(h, keyed(blockers=[blocker]))
    await h.fail(await h.claim_one())
    await go_on(h, await h.claim_one())
    await h.fail(await h.claim_one(), is_final=True)
    h.sql(
        "INSERT INTO {job_step} (job_id, name, lease_generation, saved_at) "
        "SELECT id, 'a', 1, created_at FROM {job} WHERE chain_id = :id",
        id=chain,
    )
    h.sql(
        "INSERT INTO {job_log} (job_id, lease_generation, logged_at, level, message) "
        "SELECT id, 1, created_at, 'info', 'm' FROM {job} WHERE chain_id = :id",
        id=chain,
    )
    return chain


@CASES
async def everything_of_it_goes(h: Harness) -> None:
    """Jobs, steps, logs, attempts, blocker rows and the key; what it waited for stays."""
    chain = await _two_jobs_with_everything(h)
    assert [h.count(table) for table in _TABLES] == [3, 2, 2, 2, 1, 1]
    batch = await delete(h, chain)
    assert [(result.id, result.outcome, result.chain_id) for result in batch.results] == [(chain, "deleted", chain)]
    assert [h.count(table) for table in _TABLES] == [1, 0, 0, 0, 0, 0]


@CASES
async def any_job_names_its_chain(h: Harness) -> None:
    """Also the last one; a chain named twice goes once."""
    chain = await _two_jobs_with_everything(h)
    tail = str(h.sql("SELECT id FROM {job} WHERE chain_id = :id AND is_tail", id=chain)[0][0])
    assert outcomes(await delete(h, tail, chain)) == ["deleted", "deleted"]
    assert h.count("job") == 1


@CASES
async def others_stay(h: Harness) -> None:
    """Only what was named goes."""
    first, second, third = await h.put(3)
    await delete(h, second)
    assert [await h.find(job_id) is not None for job_id in (first, second, third)] == [True, False, True]


@CASES
async def key_taken_for_ever_outlives_it(h: Harness) -> None:
    """It still keeps out a second one; other keys are free again."""
    kept = await send_one(h, keyed("a", scope="forever"))
    free = await send_one(h, keyed("b"))
    await delete(h, kept, free)
    again = await send(h, keyed("a", scope="forever"), keyed("b"))
    assert [(result.id == old) for result, old in zip(again, (kept, free), strict=True)] == [True, False]


@CASES
async def needed_by_unfinished_jobs(h: Harness) -> None:
    """Refused as a whole, naming who waits: blocked, pending and running ones need what they waited for."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id))
    other = await h.put_one(queue="other")
    for _ in ("blocked", "pending", "running"):
        error = await refused(ChainNeeded, delete(h, other, lease.id))
        assert error.needed == {lease.id: [waiting]}
        assert waiting in str(error)
        assert await h.find(other) is not None
        if (await h.job(waiting)).status is Status.BLOCKED:
            await h.complete(lease)
        else:
            await h.claim()
    assert audit(h) == []


@CASES
async def finished_dependants_need_nothing(h: Harness) -> None:
    """They stay, and what they waited for may go."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id))
    await h.complete(lease)
    await h.complete(await h.claim_one())
    assert outcomes(await delete(h, lease.id)) == ["deleted"]
    assert (await h.job(waiting)).status is Status.COMPLETED


@CASES
async def dependants_that_go_too(h: Harness) -> None:
    """Named in the same call, whoever waits is no hindrance, in any order; he is never deleted unasked."""
    first = await h.put_one()
    second = await send_one(h, behind(first))
    third = await send_one(h, behind(second))
    error = await refused(ChainNeeded, delete(h, first, second))
    assert error.needed.keys() >= {second}
    assert await h.find(first) is not None
    assert outcomes(await delete(h, second, first, third)) == ["deleted"] * 3
    assert (h.count("job"), h.count("job_blocker")) == (0, 0)


@CASES
async def cascade_takes_what_it_waited_for(h: Harness) -> None:
    """Along the graph, finished or not; without cascade these stay."""
    first, unrelated = await h.put(2)
    second = await send_one(h, behind(first))
    third = await send_one(h, behind(second))
    batch = await delete(h, third, cascade=True)
    assert [(result.id, result.outcome) for result in batch.results] == [
        (third, "deleted"),
        *((chain, "deleted") for chain in sorted((first, second))),
    ]
    assert [str(row[0]) for row in h.sql("SELECT id FROM {job}")] == [unrelated]


@CASES
async def cascade_refuses_what_is_shared(h: Harness) -> None:
    """A chain that another also waited for, finished or not, does not go along; named itself, it may."""
    (lease,) = await h.put_and_claim()
    one = await send_one(h, behind(lease.id))
    other = await send_one(h, behind(lease.id))
    await h.complete(lease)
    await cancel(h, other)
    error = await refused(ChainNeeded, delete(h, one, cascade=True))
    assert error.needed == {one: [other]}
    assert h.count("job") == 3
    assert outcomes(await delete(h, one, lease.id, cascade=True)) == ["deleted", "deleted"]
    assert await h.find(other) is not None


@CASES
async def in_part(h: Harness) -> None:
    """Asked to do what can be done: needed ones stay, and so do those that only they let go."""
    needed, free = await h.put(2)
    middle = await send_one(h, behind(needed))
    waiting = await send_one(h, behind(middle))
    batch = await delete(h, needed, middle, free, is_partial=True)
    assert outcomes(batch) == ["needed", "needed", "deleted"]
    assert waiting in (batch.results[1].why or "")
    assert [await h.find(job_id) is not None for job_id in (needed, middle, waiting)] == [True] * 3


@CASES
async def unknown_ids(h: Harness) -> None:
    """What is gone already is reported; strictly, that is refused."""
    job_id, nobody = await h.put_one(), new_id()
    error = await refused(BatchRefused, delete(h, job_id, nobody, orders=STRICT))
    assert list(error.refused) == [nobody]
    assert await h.find(job_id) is not None
    assert outcomes(await delete(h, job_id, nobody)) == ["deleted", "not_found"]


@CASES
async def holder_of_a_running_job_is_told(h: Harness) -> None:
    """Every write of his finds nothing."""
    (lease,) = await h.put_and_claim()
    assert outcomes(await delete(h, lease.id)) == ["deleted"]
    assert (await h.complete(lease)).lost == {lease.id}
    assert (await h.fail(lease)).lost == {lease.id}
    assert (await h.renew(lease)).lost == {lease.id}
    assert h.count("job") == 0


@CASES
async def is_recorded(h: Harness) -> None:
    """Who deleted which chain; the record outlives it."""
    job_id = await h.put_one()
    await delete(h, job_id)
    assert audit(h) == [("ada", "delete", job_id, None, "deleted")]


@CASES
async def opposite_deletions(h: Harness) -> None:
    """Two that name the same chains in opposite order: no deadlock, each chain deleted by one of them."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        ids = await h.put(30)
        batches = await asyncio.gather(
            stores[0].run(partial(delete_chains, ids, ORDERS)),
            stores[1].run(partial(delete_chains, ids[::-1], ORDERS)),
        )
        both = [outcome for batch in batches for outcome in outcomes(batch)]
        assert (both.count(ControlOutcome.DELETED), both.count(ControlOutcome.NOT_FOUND)) == (30, 30)
        assert h.count("job") == 0


@CASES
async def races_enqueues_that_wait_for_it(h: Harness) -> None:
    """Either the enqueue finds nothing to wait for, or the deletion is refused: never a job that waits for nothing."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        blocker = await h.put_one()
        job = behind(blocker)
        deleted, enqueued = await asyncio.gather(
            stores[0].run(partial(delete_chains, [blocker], ORDERS)),
            stores[1].run(partial(enqueue_guarded, [job], None)),
            return_exceptions=True,
        )
        if isinstance(deleted, HoldfastError):
            assert isinstance(deleted, ChainNeeded)
            assert (await h.job(job.id)).status is Status.BLOCKED
        else:
            assert isinstance(enqueued, ChainNotFound)
            assert await h.find(job.id) is None


@CASES
async def races_continuations(h: Harness) -> None:
    """Against the step to the next job: the whole chain goes, or the step finds nothing."""
    stores = h.neighbours(1)
    for _ in range(_RACES):
        (lease,) = await h.put_and_claim()
        following = new_id()
        batch, settlement = await asyncio.gather(
            stores[0].run(partial(delete_chains, [lease.id], ORDERS)),
            go_on(h, lease, id=following),
        )
        assert outcomes(batch) == ["deleted"]
        assert h.count("job") == 0, settlement


@CASES
async def races_retries_of_who_waited(h: Harness) -> None:
    """A cancelled job is retried while what it waits for is deleted: never blocked behind nothing."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        blocker = await h.put_one(queue="other")
        waiting = await send_one(h, behind(blocker))
        await cancel(h, waiting)
        deleted, retried = await asyncio.gather(
            stores[0].run(partial(delete_chains, [blocker], ORDERS)),
            stores[1].run(partial(retry_jobs, [waiting], ORDERS)),
            return_exceptions=True,
        )
        assert not isinstance(retried, BaseException), retried
        if isinstance(deleted, BaseException):
            assert isinstance(deleted, ChainNeeded)
            assert (await h.job(waiting)).status is Status.BLOCKED
        else:
            assert outcomes(retried) == ["blocker_gone"]
            assert (await h.job(waiting)).status is Status.CANCELLED


async def haste_passes_locked_rows(h: Harness) -> None:
    """A chain of which somebody has a job locked is left for later."""
    chain = await _two_jobs_with_everything(h)
    other = await dead_letter(h)
    tail = h.sql("SELECT id FROM {job} WHERE chain_id = :id AND is_tail", id=chain)[0][0]
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR KEY SHARE", id=tail):
        assert outcomes(await delete(h, chain, other, orders=HASTY, is_partial=True)) == ["locked", "deleted"]
    assert outcomes(await delete(h, chain, orders=HASTY, is_partial=True)) == ["deleted"]


CASES.on_postgres(haste_passes_locked_rows)
