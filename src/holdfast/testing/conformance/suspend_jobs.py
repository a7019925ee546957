"""suspend_jobs: jobs sleep and wait without a slot, at no cost to them, and for as long as was said first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from holdfast.model.call import Extras
from holdfast.model.clock import iso, milliseconds
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.save_step import SavedStep, list_steps
from holdfast.operations.suspend_jobs import Suspension, suspend_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, ids_of, lease_of
from holdfast.testing.conformance.people import HASTY, cancel, reschedule, retry, send
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases, reaped

CASES = Cases("suspend_jobs")

NAP = timedelta(minutes=1)


async def sleep(h: Harness, *leases: Lease, name: str = "nap", delay: timedelta = NAP) -> Settlement:
    jobs = [
        Suspension(lease.id, lease.lease_generation, "sleep", name, delay_ms=milliseconds(delay)) for lease in leases
    ]
    return await h.run(lambda: suspend_jobs(jobs))


async def listen(h: Harness, *leases: Lease, signal: str = "go", timeout: timedelta | None = None) -> Settlement:
    delay_ms = None if timeout is None else milliseconds(timeout)
    jobs = [
        Suspension(lease.id, lease.lease_generation, "signal", "heard", signal, delay_ms=delay_ms) for lease in leases
    ]
    return await h.run(lambda: suspend_jobs(jobs))


async def steps(h: Harness, job_id: str) -> list[SavedStep]:
    return await h.run(lambda: list_steps(job_id), read_only=True)


@CASES
async def sleeps_until_its_time(h: Harness) -> None:
    """Pending for later; the claim's attempt is given back, the generation is not; a step says until when."""
    (lease,) = await h.put_and_claim()
    h.clock.advance(5)
    settlement = await sleep(h, lease)
    assert (settlement.lost, settlement.locked) == (set(), set())
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.lease_generation, job.step) == (Status.PENDING, 0, 1, "nap")
    assert (job.leased_by, job.leased_until, job.finished_at, job.waiting_for) == (None, None, None, 0)
    assert job.ready_at == h.now + NAP
    (step,) = await steps(h, lease.id)
    assert (step.name, step.kind, step.ends_at, step.is_open) == ("nap", "sleep", h.now + NAP, True)
    assert await h.attempts(job.id) == []
    assert await h.claim() == []
    h.clock.advance(NAP)
    (again,) = await h.claim()
    assert (again.id, again.attempt, again.lease_generation) == (lease.id, 1, 2)


@CASES
async def the_first_end_stays(h: Harness) -> None:
    """A job that comes to a wait again, because somebody woke it early, waits until the same time."""
    (lease,) = await h.put_and_claim()
    await sleep(h, lease)
    ends_at = h.now + NAP
    await cancel(h, lease.id)
    await retry(h, lease.id)
    h.clock.advance(20)
    await sleep(h, await h.claim_one(), delay=timedelta(hours=1))
    assert (await h.job(lease.id)).ready_at == ends_at
    (step,) = await steps(h, lease.id)
    assert (step.ends_at, step.lease_generation) == (ends_at, 2)


@CASES
async def until_an_exact_time(h: Harness) -> None:
    """To the microsecond; the past means now."""
    first, second = await h.put_and_claim(2)
    when = h.now + timedelta(hours=3, microseconds=17)
    jobs = [
        Suspension(first.id, first.lease_generation, "sleep", "a", until=iso(when)),
        Suspension(second.id, second.lease_generation, "sleep", "a", until=iso(h.now - timedelta(days=1))),
    ]
    await h.run(lambda: suspend_jobs(jobs))
    assert (await h.job(first.id)).ready_at == when
    assert (await h.job(second.id)).ready_at == h.now
    assert ids_of(await h.claim()) == [second.id]


@CASES
async def waits_for_a_signal_without_an_end(h: Harness) -> None:
    """Blocked: no claim walks over it, however long that takes."""
    (lease,) = await h.put_and_claim()
    assert (await listen(h, lease)).woken == set()
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.waiting_for, job.step) == (Status.BLOCKED, 0, 1, "heard")
    (step,) = await steps(h, lease.id)
    assert (step.kind, step.signal, step.ends_at, step.is_open) == ("signal", "go", None, True)
    h.clock.advance(timedelta(days=10_000))
    assert await h.claim() == []


@CASES
async def waits_for_a_signal_for_a_while(h: Harness) -> None:
    """Pending until its time is over."""
    (lease,) = await h.put_and_claim()
    await listen(h, lease, timeout=NAP)
    job = await h.job(lease.id)
    assert (job.status, job.ready_at, job.waiting_for) == (Status.PENDING, h.now + NAP, 0)
    h.clock.advance(NAP)
    assert ids_of(await h.claim()) == [lease.id]


@CASES
async def again_is_harmless(h: Harness) -> None:
    """Sent twice under one generation refunds once."""
    for suspend in (sleep, listen):
        (lease,) = await h.put_and_claim()
        await suspend(h, lease)
        before = await h.state(lease.id)
        settlement = await suspend(h, lease)
        assert (settlement.lost, settlement.locked) == (set(), set())
        assert await h.state(lease.id) == before


@CASES
async def for_ever_never_dies(h: Harness) -> None:
    """However often, it uses up no attempts."""
    job_id = await h.put_one(max_attempts=1)
    for number in range(10):
        await sleep(h, await h.claim_one(), name=f"nap {number}", delay=timedelta(seconds=1))
        h.clock.advance(1)
    job = await h.job(job_id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 10)


@CASES
async def of_a_cancelled_job_ends_it(h: Harness) -> None:
    """Somebody asked for its end while it ran: cancelled, never pending or blocked."""
    for suspend in (sleep, listen):
        (lease,) = await h.put_and_claim()
        await cancel(h, lease.id, reason="nobody wants it")
        settlement = await suspend(h, lease)
        assert settlement.lost == set()
        job = await h.job(lease.id)
        assert (job.status, job.finished_at, job.leased_by) == (Status.CANCELLED, h.now, None)
        assert job.last_attempt_error is not None
        assert job.last_attempt_error.message == "nobody wants it"
        assert await steps(h, lease.id) == []


@CASES
async def no_longer_expires(h: Harness) -> None:
    """It was started in time."""
    (lease,) = await h.put_and_claim(more=Extras(expires_ms=1000))
    await sleep(h, lease)
    assert (await h.job(lease.id)).expires_at is None


@CASES
async def holds_up_its_partition_key(h: Harness) -> None:
    """What comes behind it in a fifo key waits for it, asleep or blocked; a serial one does not."""
    for suspend in (sleep, listen):
        for ordering in ("fifo", "serial"):
            more = Extras(partition_key=new_id(), partition_bucket=1, ordering=ordering)
            first, second = [document(more=replace_extras(more)) for _ in range(2)]
            await send(h, first)
            await send(h, second)
            (claimed,) = await h.claim()
            assert claimed.id == first.id
            await suspend(h, lease_of(claimed))
            expected = [second.id] if ordering == "serial" else []
            found = await h.claim()
            assert ids_of(found) == expected
            await h.complete(*(lease_of(job) for job in found))
            await cancel(h, first.id)
            rest = await h.claim()
            assert ids_of(rest) == ([] if ordering == "serial" else [second.id])
            await h.complete(*(lease_of(job) for job in rest))


def replace_extras(extras: Extras) -> Extras:
    return Extras(partition_key=extras.partition_key, partition_bucket=1, ordering=extras.ordering)


@CASES
async def can_be_rescheduled(h: Harness) -> None:
    """Another time for the job is another end of its wait; one without an end is left as it is."""
    first, second, third = await h.put_and_claim(3)
    await sleep(h, first)
    await listen(h, second, timeout=NAP)
    await listen(h, third)
    earlier = h.now + timedelta(seconds=3)
    await reschedule(h, first.id, second.id, third.id, at=earlier)
    for lease in (first, second):
        assert (await h.job(lease.id)).ready_at == earlier
        assert [step.ends_at for step in await steps(h, lease.id)] == [earlier]
    assert (await h.job(third.id)).status is Status.BLOCKED
    assert [step.ends_at for step in await steps(h, third.id)] == [None]


@CASES
async def can_be_cancelled_and_retried(h: Harness) -> None:
    """What waited for a signal waits for it again; what slept runs, and will find its sleep."""
    slept, listened = await h.put_and_claim(2)
    await sleep(h, slept)
    await listen(h, listened)
    await cancel(h, slept.id, listened.id)
    assert {(await h.job(lease.id)).status for lease in (slept, listened)} == {Status.CANCELLED}
    await retry(h, slept.id, listened.id)
    assert (await h.job(listened.id)).status is Status.BLOCKED
    assert ids_of(await h.claim()) == [slept.id]
    assert len(await steps(h, slept.id)) == len(await steps(h, listened.id)) == 1


@CASES
async def nothing_to_suspend(h: Harness) -> None:
    """An empty list is no error."""
    settlement = await sleep(h)
    assert (settlement.lost, settlement.locked) == (set(), set())


add_stale_cases(CASES, sleep, is_repeat=(reaped,))


@CASES
async def after_the_reaper_changes_nothing(h: Harness) -> None:
    """A job that the reaper has returned will come to its wait again."""
    lease = await reaped(h)
    before = await h.state(lease.id)
    for suspend in (sleep, listen):
        await suspend(h, lease)
        assert await h.state(lease.id) == before
        assert await steps(h, lease.id) == []


def _suspended(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE status = 'pending'")[0][0])


add_locked_case(CASES, sleep, _suspended)


@CASES.on_postgres
async def people_without_patience_pass_it_by(h: Harness) -> None:
    """A job that is locked meanwhile is reported, not waited for."""
    (lease,) = await h.put_and_claim()
    await sleep(h, lease)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=lease.id):
        batch = await cancel(h, lease.id, orders=replace(HASTY))
        assert [result.outcome for result in batch.results] == ["locked"]
