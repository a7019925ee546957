"""remove_job: a key is taken from whoever holds it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from holdfast.errors import BatchRefused
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.deduplication_keys import Key
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.remove_job import remove_job
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.continue_jobs import go_on
from holdfast.testing.conformance.deduplication import keyed
from holdfast.testing.conformance.harness import Harness, lease_of, refused
from holdfast.testing.conformance.people import ORDERS, STRICT, audit, column, outcomes, remove, retry, send_one
from holdfast.testing.conformance.settle_chains import behind

CASES = Cases("remove_job")

_RACES = 30


@CASES
async def pending_holder_is_deleted(h: Harness) -> None:
    """Job and key are gone; the next enqueue makes a new chain."""
    job_id = await send_one(h, keyed())
    result = await remove(h)
    assert (result.id, result.outcome, result.chain_id, result.job_id) == (job_id, "removed", job_id, job_id)
    assert (await h.find(job_id), h.count("deduplication")) == (None, 0)
    assert await send_one(h, keyed()) != job_id


@CASES
async def blocked_holder_is_deleted(h: Harness) -> None:
    """With what it waited for written down; its blocker stays."""
    (lease,) = await h.put_and_claim()
    job_id = await send_one(h, keyed(blockers=[lease.id]))
    assert (await remove(h)).outcome == "removed"
    assert (await h.find(job_id), h.count("job_blocker")) == (None, 0)
    assert not (await h.complete(lease)).lost


@CASES
async def retrying_holder_is_deleted(h: Harness) -> None:
    """A job between two attempts waits; its history goes with it."""
    job_id = await send_one(h, keyed())
    await h.fail(await h.claim_one())
    assert (await remove(h)).outcome == "removed"
    assert (await h.find(job_id), h.count("job_attempt")) == (None, 0)


@CASES
async def running_holder_goes_on_without(h: Harness) -> None:
    """It finishes, without its key and without retries; another chain may have the key at once."""
    job_id = await send_one(h, keyed(max_attempts=5))
    lease = await h.claim_one()
    result = await remove(h)
    assert (result.outcome, result.job_id) == ("key_given_up", job_id)
    assert (column(h, "deduplication_key", job_id), column(h, "deduplication_scope", job_id)) == (None, None)
    other = await send_one(h, keyed())
    assert other != job_id
    assert (await h.fail(lease)).dead == {job_id}
    assert (await h.job(other)).status is Status.PENDING


@CASES
async def running_holder_may_complete(h: Harness) -> None:
    """Nothing else of it changes."""
    job_id = await send_one(h, keyed())
    lease = await h.claim_one()
    await remove(h)
    assert not (await h.complete(lease)).lost
    assert (await h.job(job_id)).status is Status.COMPLETED


@CASES
async def holder_that_gave_up_its_key_is_retried_without(h: Harness) -> None:
    """By a person: it does not take the key back."""
    job_id = await send_one(h, keyed())
    lease = await h.claim_one()
    await remove(h)
    await h.fail(lease)
    other = await send_one(h, keyed())
    assert outcomes(await retry(h, job_id)) == ["retried"]
    assert await send_one(h, keyed()) == other


@CASES
async def chain_further_on(h: Harness) -> None:
    """A chain that has begun is not deleted: it gives up the key, and its next job runs once."""
    job_id = await send_one(h, keyed())
    following = new_id()
    await go_on(h, await h.claim_one(), id=following, max_attempts=9)
    result = await remove(h)
    assert (result.outcome, result.job_id) == ("key_given_up", following)
    assert column(h, "deduplication_key", job_id) is None
    assert (await h.fail(await h.claim_one())).dead == {following}


@CASES
async def nobody_holds_it(h: Harness) -> None:
    """Never taken, of another type, or held no longer."""
    job_id = await send_one(h, keyed())
    assert [(await remove(h, "other")).outcome, (await remove(h, type_name="other")).outcome] == ["not_found"] * 2
    await h.complete(await h.claim_one())
    result = await remove(h)
    assert (result.id, result.outcome) == ("k", "not_found")
    assert (await h.job(job_id)).status is Status.COMPLETED


@CASES
async def scope_pending_ends_with_the_claim(h: Harness) -> None:
    """Once claimed, the holder has given it up by itself, and keeps its attempts."""
    job_id = await send_one(h, keyed(scope="pending", max_attempts=5))
    lease = await h.claim_one()
    assert (await remove(h)).outcome == "not_found"
    assert not (await h.fail(lease)).dead
    assert (await h.job(job_id)).status is Status.PENDING


@CASES
async def key_taken_for_ever(h: Harness) -> None:
    """Is given up by a chain that has ended, too, which stays as it is."""
    job_id = await send_one(h, keyed(scope="forever"))
    await h.complete(await h.claim_one())
    assert (await remove(h)).outcome == "key_given_up"
    job = await h.job(job_id)
    assert (job.status, job.max_attempts) == (Status.COMPLETED, None)
    assert await send_one(h, keyed(scope="forever")) != job_id


@CASES
async def holder_that_others_need(h: Harness) -> None:
    """Is not deleted while a job waits for it: who waits is named."""
    job_id = await send_one(h, keyed())
    waiting = await send_one(h, behind(job_id))
    result = await remove(h)
    assert result.outcome == "needed"
    assert waiting in (result.why or "")
    assert (await h.job(job_id)).status is Status.PENDING
    assert await send_one(h, keyed()) == job_id
    error = await refused(BatchRefused, remove(h, orders=STRICT))
    assert list(error.refused) == [job_id]


@CASES
async def is_recorded(h: Harness) -> None:
    """Who removed which key."""
    job_id = await send_one(h, keyed())
    await remove(h)
    await remove(h)
    assert audit(h) == [("ada", "remove", job_id, job_id, "removed"), ("ada", "remove", None, None, "not_found")]


@CASES
async def races_claims(h: Harness) -> None:
    """Against the claim of the holder: deleted and never run, or run without its key."""
    stores = h.neighbours(1)
    for number in range(_RACES):
        job_id = await send_one(h, keyed(f"k{number}"))
        lanes = await h.lanes()
        batch, claimed = await asyncio.gather(
            stores[0].run(partial(remove_job, Key("sum", f"k{number}"), ORDERS)),
            h.claim(lanes=lanes),
        )
        if claimed:
            assert outcomes(batch) == ["key_given_up"]
            assert column(h, "deduplication_key", job_id) is None
            assert not (await h.complete(lease_of(claimed[0]))).lost
        else:
            assert outcomes(batch) == ["removed"]
            assert await h.find(job_id) is None


@CASES
async def key_of_a_renamed_type(h: Harness) -> None:
    """Whichever name of the type is given, its holder is found, and the key is free under all of them."""
    renaming = replace(ORDERS, aliases={"new": ("old",), "old": ("new",)})
    for enqueued, named in (("old", "new"), ("new", "old")):
        (holder,) = await h.run(partial(enqueue_guarded, [keyed(type_name=enqueued)], None, aliases={"new": ("old",)}))
        result = await remove(h, type_name=named, orders=renaming)
        assert (result.outcome, result.id) == ("removed", holder.id)
        assert (h.count("job"), h.count("deduplication")) == (0, 0)
