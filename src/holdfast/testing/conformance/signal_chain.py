"""signal_chain and take_signal: what is said to a chain is heard once, in order, and never lost."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from holdfast.errors import AlreadyFinished, ChainNotFound, LeaseLost
from holdfast.model.call import Extras
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.signal_chain import Heard, signal_chain, take_signal
from holdfast.operations.suspend_jobs import Suspension, suspend_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, ids_of, refused
from holdfast.testing.conformance.people import cancel, delete, retry, send_one
from holdfast.testing.conformance.stale_holders import add_stale_cases
from holdfast.testing.conformance.suspend_jobs import NAP, listen, steps

CASES = Cases("signal_chain")


async def say(h: Harness, chain_id: str, name: str = "go", payload: str = "1") -> set[str]:
    return await h.run(lambda: signal_chain(chain_id, name, payload))


async def take(h: Harness, lease: Lease, signal: str = "go", name: str = "heard") -> Heard | None:
    taken = await h.run(lambda: take_signal(lease, name, signal))
    assert taken is not None
    return taken.heard


async def heard(h: Harness, lease: Lease, signal: str = "go", name: str = "heard") -> bytes:
    found = await take(h, lease, signal, name)
    assert found is not None
    assert not found.timed_out
    return bytes(found.payload).replace(b" ", b"")


@CASES
async def wakes_who_waits(h: Harness) -> None:
    """At once, behind those that were due; its queue is named, and the signal is there to be taken."""
    (lease,) = await h.put_and_claim()
    await listen(h, lease)
    h.clock.advance(5)
    assert await say(h, lease.id, payload='{"by": "ada"}') == {"default"}
    job = await h.job(lease.id)
    assert (job.status, job.ready_at, job.waiting_for) == (Status.PENDING, h.now, 0)
    again = await h.claim_one()
    assert await heard(h, again) == b'{"by":"ada"}'
    assert h.count("job_signal") == 0


@CASES
async def wakes_who_waits_for_a_while(h: Harness) -> None:
    """Before its time is over."""
    (lease,) = await h.put_and_claim()
    await listen(h, lease, timeout=NAP)
    h.clock.advance(5)
    assert await say(h, lease.id) == {"default"}
    assert (await h.job(lease.id)).ready_at == h.now
    assert await heard(h, await h.claim_one()) == b"1"


@CASES
async def comes_first(h: Harness) -> None:
    """Sent to a pending or running job it is kept; who begins to wait for it is woken at once."""
    job_id = await h.put_one()
    assert await say(h, job_id, payload='"early"') == set()
    lease = await h.claim_one()
    assert (await listen(h, lease)).woken == {"default"}
    assert (await h.job(job_id)).status is Status.PENDING
    again = await h.claim_one()
    assert await heard(h, again) == b'"early"'


@CASES
async def is_taken_without_waiting(h: Harness) -> None:
    """By a job that runs, where it is there already."""
    (lease,) = await h.put_and_claim()
    assert await take(h, lease) is None
    await say(h, lease.id, payload="null")
    assert await heard(h, lease) == b"null"
    (step,) = await steps(h, lease.id)
    assert (step.kind, step.is_open) == ("signal", False)
    assert (await h.job(lease.id)).step == "heard"


@CASES
async def asked_again_it_is_the_same_one(h: Harness) -> None:
    """The answer may have been lost; the next step gets the next one."""
    (lease,) = await h.put_and_claim()
    for number in range(3):
        await say(h, lease.id, payload=str(number))
    assert [await heard(h, lease) for _ in range(2)] == [b"0", b"0"]
    assert [await heard(h, lease, name=f"heard {number}") for number in range(2)] == [b"1", b"2"]
    assert await take(h, lease, name="one more") is None


@CASES
async def other_names_and_other_chains_are_not_meant(h: Harness) -> None:
    """Nobody is woken, and nothing is taken."""
    first, second = await h.put_and_claim(2)
    await listen(h, first)
    assert await say(h, first.id, name="stop") == set()
    assert await say(h, second.id) == set()
    assert (await h.job(first.id)).status is Status.BLOCKED
    assert await say(h, first.id) == {"default"}
    assert await heard(h, second) == b"1"


@CASES
async def a_second_one_stays_for_the_next_wait(h: Harness) -> None:
    """A job that was woken already keeps its place."""
    (lease,) = await h.put_and_claim()
    await listen(h, lease)
    await say(h, lease.id, payload="1")
    woken_at = (await h.job(lease.id)).ready_at
    h.clock.advance(5)
    assert await say(h, lease.id, payload="2") == set()
    assert (await h.job(lease.id)).ready_at == woken_at
    again = await h.claim_one()
    assert (await heard(h, again), await heard(h, again, name="next")) == (b"1", b"2")


@CASES
async def is_for_the_chain_and_not_for_the_job(h: Harness) -> None:
    """A later job of the chain takes what was said before it was there; any of their ids names the chain."""
    (lease,) = await h.put_and_claim()
    await say(h, lease.id, payload='"first"')
    following = document(type_name="second")
    await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, following)]))
    await say(h, lease.id, payload='"second"')
    await say(h, following.id, payload='"third"')
    again = await h.claim_one()
    assert again.id == following.id
    found = [await heard(h, again, name=f"heard {number}") for number in range(3)]
    assert found == [b'"first"', b'"second"', b'"third"']


@CASES
async def after_its_time_the_wait_is_over(h: Harness) -> None:
    """That is written down, so that the next attempt sees the same; a signal that comes then is for the next wait."""
    (lease,) = await h.put_and_claim()
    await listen(h, lease, timeout=NAP)
    h.clock.advance(NAP)
    again = await h.claim_one()
    assert await take(h, again) == Heard(timed_out=True)
    await say(h, lease.id)
    assert await take(h, again) == Heard(timed_out=True)
    assert await heard(h, again, name="next") == b"1"


@CASES
async def in_time_wins_over_the_end(h: Harness) -> None:
    """A signal that is there counts, even if the job comes to it late."""
    (lease,) = await h.put_and_claim()
    await listen(h, lease, timeout=NAP)
    await say(h, lease.id)
    h.clock.advance(timedelta(hours=1))
    assert await heard(h, await h.claim_one()) == b"1"


@CASES
async def a_retry_on_its_way_is_not_hurried(h: Harness) -> None:
    """A job that waits for its next attempt, and not for the signal, is left alone."""
    (lease,) = await h.put_and_claim()
    await listen(h, lease, timeout=timedelta(seconds=1))
    h.clock.advance(1)
    again = await h.claim_one()
    await h.fail(again, delay=timedelta(hours=1))
    due = (await h.job(lease.id)).ready_at
    assert await say(h, lease.id) == set()
    assert (await h.job(lease.id)).ready_at == due


@CASES
async def to_nobody_is_refused(h: Harness) -> None:
    """A chain that does not exist, or has ended: typed errors, nothing written."""
    await refused(ChainNotFound, say(h, new_id()))
    done, dead, gone = await h.put_and_claim(3)
    await h.complete(done)
    await h.fail(dead, is_final=True)
    await listen(h, gone)
    await cancel(h, gone.id)
    for lease, status in ((done, "completed"), (dead, "dead_letter"), (gone, "cancelled")):
        error = await refused(AlreadyFinished, say(h, lease.id))
        assert (error.job_id, error.status) == (lease.id, status)
    assert h.count("job_signal") == 0


@CASES
async def survives_a_retry_of_the_job(h: Harness) -> None:
    """What was said before the job died is there when it begins anew."""
    (lease,) = await h.put_and_claim()
    await say(h, lease.id)
    await h.fail(lease, is_final=True)
    await retry(h, lease.id)
    assert await heard(h, await h.claim_one()) == b"1"


@CASES
async def goes_with_its_chain(h: Harness) -> None:
    """Deleted with it."""
    kept, lost = await h.put_and_claim(2)
    for lease in (kept, lost):
        await say(h, lease.id)
    await delete(h, lost.id)
    assert h.count("job_signal") == 1
    assert await heard(h, kept) == b"1"


@CASES
async def goes_with_what_it_was_said_to(h: Harness) -> None:
    """A job that waits and is replaced begins anew, without steps, and has heard nothing."""
    key = Extras(deduplication_key="k", deduplication_scope="unfinished", on_conflict="replace")
    job_id = await send_one(h, document(more=replace(key)))
    await listen(h, await h.claim_one())
    await say(h, job_id, name="other")
    assert await send_one(h, document(more=replace(key))) == job_id
    job = await h.job(job_id)
    assert (job.status, job.waiting_for, job.step, job.revision) == (Status.PENDING, 0, None, 1)
    assert h.count("job_signal") == h.count("job_step") == 0


@CASES
async def ids_of_who_waits_are_not_claimed_twice(h: Harness) -> None:
    """Many who wait, each woken by its own signal."""
    leases = await h.put_and_claim(20)
    await listen(h, *leases)
    for lease in leases[:10]:
        await say(h, lease.id)
    assert sorted(ids_of(await h.claim())) == sorted(ids_of(leases[:10]))


async def _stale_take(h: Harness, lease: Lease) -> Settlement:
    before = h.count("job_signal")
    error = await refused(LeaseLost, h.run(lambda: take_signal(lease, "heard", "go")))
    assert h.count("job_signal") == before
    assert await steps(h, lease.id) == []
    return Settlement(lost={error.job_id})


add_stale_cases(CASES, _stale_take, is_repeat=())


@CASES
async def races_with_who_begins_to_wait(h: Harness) -> None:
    """50 times, on connections of their own: whoever comes first, the job is pending in the end."""
    leases = await h.put_and_claim(50)
    speaker, listener = h.neighbours(2)

    async def suspend(lease: Lease) -> None:
        job = Suspension(lease.id, lease.lease_generation, "signal", "heard", "go")
        while (await listener.run(lambda: suspend_jobs([job]))).locked:  # noqa: ASYNC110 - as a worker does
            await asyncio.sleep(0.001)

    for lease in leases:
        await asyncio.gather(suspend(lease), speaker.run(partial(signal_chain, lease.id, "go", "1")))
    assert {(await h.job(lease.id)).status for lease in leases} == {Status.PENDING}


@CASES.on_postgres
async def locked_by_somebody_is_told_at_once(h: Harness) -> None:
    """Nobody waits for a user's lock; the caller may try again."""
    (lease,) = await h.put_and_claim()
    await say(h, lease.id)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=lease.id):
        assert await h.run(lambda: take_signal(lease, "heard", "go")) is None
    assert await heard(h, lease) == b"1"
