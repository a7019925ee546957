"""get_chain, find_chain, list_chain_jobs: a chain is what its last job is."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.errors import ChainNotFound, InvalidCursor
from holdfast.model.ids import new_id
from holdfast.model.job import ChainRecord, Job, Page
from holdfast.model.status import Status
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.get_chain import find_chain, get_chain
from holdfast.operations.lease import Lease
from holdfast.operations.list_jobs import list_chain_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import ERROR, Harness, document, ids_of, lease_of, refused

CASES = Cases("get_chain")


async def continue_with(h: Harness, lease: Lease, *, chain_id: str | None = None, **fields: Any) -> str:
    """End a job by the next one of its chain; returns the id of that."""
    following = document(**fields)
    step = Continuation(lease.id, lease.lease_generation, following, chain_id=chain_id)
    while True:
        settlement = await h.run(lambda: continue_jobs("w1", [step]))
        assert not settlement.lost
        if not settlement.locked:
            return following.id


async def put_chain(h: Harness, length: int, **fields: Any) -> list[str]:
    """A chain of `length` jobs, the last of them pending; returns the ids of its jobs."""
    ids = [await h.put_one(**fields)]
    for number in range(1, length):
        (job,) = await h.claim(queues=[fields.get("queue", "default")])
        assert job.id == ids[-1]
        following = {"type_name": f"step {number}", **fields}
        ids.append(await continue_with(h, Lease(job.id, job.lease_generation), chain_id=ids[0], **following))
    return ids


async def _chain(h: Harness, chain_id: str, *, lock: bool = False) -> ChainRecord:
    return await h.run(lambda: get_chain(chain_id, lock=lock), read_only=not lock)


async def _jobs(h: Harness, chain_id: str, **paging: Any) -> Page[Job]:
    return await h.run(lambda: list_chain_jobs(chain_id, **paging), read_only=True)


@CASES
async def chain_of_one_job(h: Harness) -> None:
    """It begins, runs and ends with its job."""
    chain_id = await h.put_one(type_name="lonely", tenant="t")
    enqueued_at = h.now
    chain = await _chain(h, chain_id)
    assert chain == ChainRecord(
        id=chain_id, type_name="lonely", status=Status.PENDING, created_at=enqueued_at, job_count=1,
        tail=await h.job(chain_id),
    )  # fmt: skip
    lease = await h.claim_one()
    assert (await _chain(h, chain_id)).status is Status.RUNNING
    h.clock.advance(timedelta(seconds=3))
    await h.complete(lease, output='{"total": null}')
    chain = await _chain(h, chain_id)
    assert (chain.status, chain.output, chain.finished_at) == (Status.COMPLETED, {"total": None}, h.now)
    assert chain.created_at == enqueued_at


@CASES
async def chain_that_goes_on(h: Harness) -> None:
    """Name and beginning are the first job's; status, output and end are the last one's."""
    first = await h.put_one(type_name="import", tenant="acme")
    enqueued_at = h.now
    h.clock.advance(timedelta(minutes=1))
    second = await continue_with(h, await h.claim_one(), type_name="check")
    chain = await _chain(h, first)
    assert (chain.id, chain.type_name, chain.status, chain.job_count) == (first, "import", Status.PENDING, 2)
    assert (chain.tail.id, chain.tail.type_name, chain.tail.is_tail) == (second, "check", True)
    assert (chain.created_at, chain.finished_at, chain.output) == (enqueued_at, None, None)
    assert not (await h.job(first)).is_tail
    h.clock.advance(timedelta(minutes=1))
    await h.complete(await h.claim_one(), output='"checked"')
    chain = await _chain(h, first)
    assert (chain.status, chain.output, chain.finished_at) == (Status.COMPLETED, "checked", h.now)


@CASES
async def chain_that_failed(h: Harness) -> None:
    """The error is that of the last attempt of the last job."""
    ids = await put_chain(h, 3)
    await h.fail(await h.claim_one(), is_final=True)
    chain = await _chain(h, ids[0])
    assert (chain.status, chain.error, chain.job_count, chain.output) == (Status.DEAD_LETTER, ERROR, 3, None)


@CASES
async def unknown_chain(h: Harness) -> None:
    """Asked to find, None; asked to get, an error with the id; a later job's id is no chain's."""
    ids = await put_chain(h, 2)
    for wrong in (new_id(), ids[1]):
        assert await h.run(partial(find_chain, wrong), read_only=True) is None
        error = await refused(ChainNotFound, _chain(h, wrong))
        assert error.chain_id == wrong
        await refused(ChainNotFound, _chain(h, wrong, lock=True))


@CASES
async def locked_is_the_same(h: Harness) -> None:
    """A locking read returns what a plain one does."""
    ids = await put_chain(h, 3)
    lonely = await h.put_one()
    for chain_id in (ids[0], lonely):
        assert await _chain(h, chain_id, lock=True) == await _chain(h, chain_id)


@CASES
async def locked_while_it_goes_on(h: Harness) -> None:
    """Race: a chain that gets its next job just then is read with that job, and never missed."""
    first = await h.put_one()
    seen: list[int] = []

    async def go_on() -> None:
        for _ in range(15):
            claimed = await h.claim()
            while not claimed:
                claimed = await h.claim()  # whoever looks had it locked
            await continue_with(h, lease_of(claimed[0]), chain_id=first)

    async def look() -> None:
        while not seen or seen[-1] < 16:
            chain = await _chain(h, first, lock=True)
            assert chain.tail.is_tail
            seen.append(chain.job_count)

    await asyncio.gather(go_on(), look(), look())
    assert seen[-1] == 16


@CASES
async def jobs_of_a_chain(h: Harness) -> None:
    """In their order, in pages, and none of any other chain."""
    await put_chain(h, 2, queue="other")
    ids = await put_chain(h, 5)
    await h.put(2)
    assert ids_of((await _jobs(h, ids[0])).items) == ids
    assert [job.chain_index for job in (await _jobs(h, ids[0])).items] == [0, 1, 2, 3, 4]
    assert ids_of((await _jobs(h, ids[0], newest_first=True)).items) == ids[::-1]
    page = await _jobs(h, ids[0], limit=2)
    await continue_with(h, next(Lease(job.id, job.lease_generation) for job in await h.claim() if job.id == ids[4]))
    rest = await _jobs(h, ids[0], limit=10, cursor=page.next_cursor)
    assert ids_of(page.items) == ids[:2]
    assert ids_of(rest.items)[:3] == ids[2:]
    assert len(rest.items) == 4
    await refused(InvalidCursor, _jobs(h, new_id(), cursor=page.next_cursor))
    assert await _jobs(h, new_id()) == Page([], None)
    assert await _jobs(h, ids[1]) == Page([], None)
