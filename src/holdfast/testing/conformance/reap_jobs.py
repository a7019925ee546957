"""reap_jobs: jobs of holders that are gone come back, and those that kill their workers do not come back for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.model.clock import milliseconds
from holdfast.model.job_type import CallSignature, JobType
from holdfast.model.payload import PayloadCodec
from holdfast.model.retry import Retry
from holdfast.model.status import Status
from holdfast.operations.lease import document
from holdfast.operations.reap_jobs import CRASH_CAP, Reapable, ReapCounts, reap_jobs, verdict
from holdfast.operations.register_types import register_types
from holdfast.operations.statement import Operation, Rows, Statement
from holdfast.operations.worker_life import retire_worker
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, LEASE, Harness, ids_of, lease_of

CASES = Cases("reap_jobs")

_TICK = timedelta(milliseconds=1)


@CASES
async def expired_lease_goes_back_with_backoff(h: Harness) -> None:
    """Pending after the backoff; the attempt stays counted; the error says that the lease expired, and whose it was."""
    await h.register("host-1")
    (lease,) = await h.put_and_claim(worker="host-1")
    h.clock.advance(LEASE + _TICK)
    await h.register("host-1")
    assert await h.reap() == ReapCounts(returned=1)
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.lease_generation, job.crash_count) == (Status.PENDING, 1, 1, 0)
    assert h.now < job.ready_at <= h.now + timedelta(seconds=2)
    assert (job.leased_by, job.leased_until, job.finished_at) == (None, None, None)
    assert job.last_attempt_error is not None
    assert "lease expired" in job.last_attempt_error.message
    assert "host-1" in job.last_attempt_error.message
    (record,) = await h.attempts(lease.id)
    assert (record.outcome, record.worker_id, record.ended_at, record.error) == (
        "expired",
        "host-1",
        h.now,
        job.last_attempt_error,
    )


@CASES
async def dead_worker_counts_a_crash(h: Harness) -> None:
    """A silent worker's job comes back before its lease ends, with a crash counted and the worker named."""
    await h.register("host-1")
    (lease,) = await h.put_and_claim(worker="host-1")
    h.clock.advance(DEAD_AFTER + _TICK)
    assert await h.reap() == ReapCounts(returned=1)
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.crash_count) == (Status.PENDING, 1, 1)
    assert job.last_attempt_error is not None
    assert "host-1" in job.last_attempt_error.message
    assert [(record.outcome, record.worker_id) for record in await h.attempts(lease.id)] == [("crashed", "host-1")]


@CASES
async def worker_without_a_row_is_dead(h: Harness) -> None:
    """A worker that is not registered, or has retired, holds nothing for long."""
    await h.register("w2")
    await h.put_and_claim(worker="w1")
    await h.put_and_claim(worker="w2")
    await h.run(lambda: retire_worker("w2"))
    assert await h.reap() == ReapCounts(returned=2)


@CASES
async def worker_marked_dead_is_dead(h: Harness) -> None:
    """The registry's word counts, however fresh the last heartbeat."""
    await h.register("w1")
    await h.put_and_claim(worker="w1")
    h.sql("UPDATE {worker} SET status = 'dead'")
    assert await h.reap() == ReapCounts(returned=1)


@CASES
async def living_workers_lease_is_never_taken(h: Harness) -> None:
    """A heartbeat within the limit and a lease not over: nothing happens, to the millisecond."""
    await h.register("w1")
    (lease,) = await h.put_and_claim(worker="w1")
    h.clock.advance(DEAD_AFTER)
    before = await h.state(lease.id)
    assert await h.reap() == ReapCounts()
    h.clock.advance(LEASE - DEAD_AFTER)
    await h.register("w1")
    assert await h.reap() == ReapCounts()
    assert await h.state(lease.id) == before


@CASES
async def draining_worker_is_alive(h: Harness) -> None:
    """A worker that is stopping still holds what it holds."""
    await h.register("w1")
    await h.put_and_claim(worker="w1")
    h.sql("UPDATE {worker} SET status = 'draining'")
    assert await h.reap() == ReapCounts()


@CASES
async def own_jobs_are_left(h: Harness) -> None:
    """A worker does not reap what it holds itself, not even after its lease."""
    await h.register("w1")
    (lease,) = await h.put_and_claim(worker="w1")
    h.clock.advance(timedelta(hours=1))
    assert await h.reap(worker="w1") == ReapCounts()
    assert (await h.job(lease.id)).status is Status.RUNNING
    assert await h.reap(worker="w2") == ReapCounts(returned=1)


@CASES
async def pending_and_finished_jobs_are_left(h: Harness) -> None:
    """Only running jobs have a holder."""
    done, failed = await h.put_and_claim(2)
    await h.complete(done)
    await h.fail(failed, is_final=True)
    await h.put()
    h.clock.advance(timedelta(days=1))
    assert await h.reap() == ReapCounts()


@CASES
async def last_attempt_makes_a_dead_letter(h: Harness) -> None:
    """A lease that expires on the last attempt ends the job; it keeps the error."""
    await h.register("w1")
    (lease,) = await h.put_and_claim(max_attempts=1)
    h.clock.advance(LEASE + _TICK)
    await h.register("w1")
    assert await h.reap() == ReapCounts(dead_letters=1)
    job = await h.job(lease.id)
    assert (job.status, job.finished_at, job.attempt, job.leased_by) == (Status.DEAD_LETTER, h.now, 1, None)
    assert job.last_attempt_error is not None
    assert "lease expired" in job.last_attempt_error.message


@CASES
async def crash_cap_makes_a_dead_letter(h: Harness) -> None:
    """A job that was running when three workers died is taken for the cause, whatever attempts are left."""
    job_id = await h.put_one(max_attempts=100)
    for crash in range(1, CRASH_CAP + 1):
        h.sql("UPDATE {job} SET crash_count = 0")  # so that the ordinary claim takes it
        await h.claim(worker=f"w{crash}")
        h.sql("UPDATE {job} SET crash_count = :before", before=crash - 1)
        counts = await h.reap()
        assert counts == (ReapCounts(dead_letters=1) if crash == CRASH_CAP else ReapCounts(returned=1))
        h.clock.advance(timedelta(hours=2))
    job = await h.job(job_id)
    assert (job.status, job.crash_count, job.attempt) == (Status.DEAD_LETTER, CRASH_CAP, CRASH_CAP)
    assert job.last_attempt_error is not None
    assert "killed its worker" in job.last_attempt_error.message
    assert f"w{CRASH_CAP}" in job.last_attempt_error.message


@CASES
async def expiry_does_not_count_as_a_crash(h: Harness) -> None:
    """A slow job on a living worker is never taken for a killer."""
    job_id = await h.put_one(max_attempts=100)
    for _ in range(CRASH_CAP + 1):
        await h.claim()
        h.clock.advance(timedelta(hours=2))
        await h.register("w1")
        assert await h.reap() == ReapCounts(returned=1)
        h.clock.advance(timedelta(hours=2))
    assert (await h.job(job_id)).crash_count == 0


@CASES
async def unstarted_jobs_are_refunded(h: Harness) -> None:
    """What a dead worker had only prefetched loses neither attempt nor place, and is no suspect."""
    ids = await h.put(3)
    await h.claim(2, worker="w1", prefetch=True)
    h.clock.advance(DEAD_AFTER + _TICK)
    assert await h.reap() == ReapCounts(returned=2)
    job = await h.job(ids[0])
    assert (job.status, job.attempt, job.crash_count, job.ready_at) == (Status.PENDING, 0, 0, job.created_at)
    assert (job.last_attempt_error, await h.attempts(ids[0])) == (None, [])
    assert ids_of(await h.claim(worker="w2")) == ids


@CASES
async def perhaps_unstarted_jobs_are_suspects_without_a_loss(h: Harness) -> None:
    """Of a promoted batch nobody knows which had started: each gets its attempt back and is suspected."""
    await h.put(2, max_attempts=1)
    (first,) = await h.claim(1, worker="w1", prefetch=True)
    h.clock.advance(1)
    (second,) = await h.claim(1, worker="w1", prefetch=True, start=first.claimed_at)
    h.clock.advance(DEAD_AFTER)
    assert await h.reap() == ReapCounts(returned=2)
    suspect, untouched = await h.job(first.id), await h.job(second.id)
    assert (suspect.status, suspect.attempt, suspect.crash_count) == (Status.PENDING, 0, 1)
    assert suspect.last_attempt_error is not None
    assert "w1" in suspect.last_attempt_error.message
    assert (untouched.status, untouched.attempt, untouched.crash_count) == (Status.PENDING, 0, 0)
    assert untouched.last_attempt_error is None


@CASES
async def started_jobs_of_a_prefetch_are_not_refunded(h: Harness) -> None:
    """Once the mark is dropped, its jobs count as started."""
    await h.put(1)
    (job,) = await h.claim(1, worker="w1", prefetch=True)
    assert job.claimed_at is not None
    h.clock.advance(1)
    await h.claim(lanes=[], worker="w1", drops=[job.claimed_at])
    h.clock.advance(DEAD_AFTER)
    assert await h.reap() == ReapCounts(returned=1)
    assert ((await h.job(job.id)).attempt, (await h.job(job.id)).crash_count) == (1, 1)


@CASES
async def claimed_without_prefetch_is_started(h: Harness) -> None:
    """An ordinary claim beside a prefetched one is not refunded with it."""
    await h.put(2)
    (running,) = await h.claim(1, worker="w1")
    h.clock.advance(1)
    await h.claim(1, worker="w1", prefetch=True)
    h.clock.advance(DEAD_AFTER)
    await h.reap()
    assert (await h.job(running.id)).crash_count == 1


@CASES
async def expired_prefetch_of_a_living_worker_counts_the_attempt(h: Harness) -> None:
    """Only death says that nothing was started; a living worker's buffer may be in use by now."""
    await h.register("w1")
    await h.put()
    (claimed,) = await h.claim(worker="w1", prefetch=True)
    h.clock.advance(LEASE + _TICK)
    await h.register("w1")
    await h.reap()
    assert (await h.job(claimed.id)).attempt == 1


@CASES
async def backoff_is_the_types_own(h: Harness) -> None:
    """The registered policy decides: 10 s, then 30 s, then the maximum."""
    await h.run(lambda: register_types([_job_type("slow", Retry(initial=10, factor=3, maximum=60, jitter=0))]))
    job_id = await h.put_one(type_name="slow", max_attempts=9)
    for seconds in (10, 30, 60, 60):
        await h.register("w1")
        await h.claim()
        h.clock.advance(LEASE + _TICK)
        await h.register("w1")
        await h.reap()
        assert (await h.job(job_id)).ready_at == h.now + timedelta(seconds=seconds)
        h.clock.advance(seconds)


async def _allowed_attempts(h: Harness, expected: int, own: int | None, settings: dict[str, int]) -> None:
    await h.run(lambda: register_types([_job_type("send", Retry(max_attempts=2))]))
    for name, value in settings.items():
        h.set_setting(name, value)
    job_id = await h.put_one(type_name="send", max_attempts=own)
    for _ in range(expected):
        await h.register("w1")
        assert len(await h.claim()) == 1
        h.clock.advance(LEASE + _TICK)
        await h.register("w1")
        await h.reap()
        h.clock.advance(timedelta(hours=2))
    assert (await h.job(job_id)).status is Status.DEAD_LETTER


_PRECEDENCE: dict[str, tuple[int, int | None, dict[str, int]]] = {
    "the_types_own": (2, None, {}),
    "the_setting_for_all": (4, None, {"max_attempts": 4}),
    "the_setting_for_the_type": (3, None, {"max_attempts": 4, "max_attempts:send": 3}),
    "the_jobs_own": (1, 1, {"max_attempts": 4, "max_attempts:send": 3}),
}
for _name, (_expected, _own, _settings) in _PRECEDENCE.items():
    CASES.add(
        f"attempts_allowed_by_{_name}",
        "Attempts: the job's own, the setting for its type, the setting for all, the type's.",
        partial(_allowed_attempts, expected=_expected, own=_own, settings=_settings),
    )


@CASES
async def unknown_type_has_the_default_policy(h: Harness) -> None:
    """A type that no worker has registered is still returned, and ends after five attempts."""
    job_id = await h.put_one(type_name="never-registered")
    for attempt in range(1, 6):
        await h.register("w1")
        await h.claim()
        h.clock.advance(LEASE + _TICK)
        await h.register("w1")
        counts = await h.reap()
        assert counts == (ReapCounts(dead_letters=1) if attempt == 5 else ReapCounts(returned=1))
        h.clock.advance(timedelta(hours=2))
    assert (await h.job(job_id)).attempt == 5


@CASES
async def works_in_batches(h: Harness) -> None:
    """More than a batch takes several rounds, and none is missed."""
    await h.put(600)
    await h.claim(worker="gone")
    counts = [await h.reap() for _ in range(3)]
    assert counts == [ReapCounts(returned=500), ReapCounts(returned=100), ReapCounts()]


@CASES
async def renewal_in_between_saves_the_job(h: Harness) -> None:
    """A holder that renews after it was found, and before it is reaped, keeps its job."""
    await h.register("w1")
    (lease,) = await h.put_and_claim(worker="w1")
    h.clock.advance(LEASE + _TICK)
    await h.register("w1")
    found = await h.run(_find)
    assert len(found) == 1
    await h.renew(lease)
    assert await h.run(lambda: _reap_found(found)) == []
    assert (await h.job(lease.id)).status is Status.RUNNING


@CASES
async def heartbeat_in_between_saves_the_job(h: Harness) -> None:
    """A worker that was only slow, and is heard before its jobs are reaped, keeps them."""
    await h.register("w1")
    (lease,) = await h.put_and_claim(worker="w1")
    h.clock.advance(DEAD_AFTER + _TICK)
    found = await h.run(_find)
    assert len(found) == 1
    await h.register("w1")
    assert await h.run(lambda: _reap_found(found)) == []
    assert (await h.job(lease.id)).crash_count == 0


@CASES
async def completion_in_between_wins(h: Harness) -> None:
    """A job finished or claimed anew after it was found is not touched."""
    first, second = await h.put_and_claim(2, worker="gone")
    found = await h.run(_find)
    await h.complete(first)
    await h.release(second)
    await h.claim(worker="gone")
    assert await h.run(lambda: _reap_found(found)) == []
    assert (await h.job(first.id)).status is Status.COMPLETED
    assert (await h.job(second.id)).lease_generation == 2


@CASES
async def reaper_chooses_from_what_was_found(h: Harness) -> None:
    """Asked after the database answered, it may leave some or all; the others come back."""
    leases = await h.put_and_claim(3, worker="gone")
    seen: list[str] = []

    def choose(found: Sequence[Reapable], wanted: int) -> Sequence[Reapable]:
        seen.extend(ids_of(found))
        return [job for job in found if job.id in {lease.id for lease in leases[:wanted]}]

    assert await h.run(lambda: reap_jobs("reaper", DEAD_AFTER, partial(choose, wanted=0))) == ReapCounts()
    assert sorted(seen) == sorted(ids_of(leases))
    assert await h.run(lambda: reap_jobs("reaper", DEAD_AFTER, partial(choose, wanted=1))) == ReapCounts(returned=1)
    assert [(await h.job(lease.id)).status for lease in leases] == [Status.PENDING, Status.RUNNING, Status.RUNNING]


@CASES
async def racing_reapers_reap_once(h: Harness) -> None:
    """Race: several reapers and one dead worker; each job comes back once, with one crash counted."""
    stores = h.neighbours(4)
    for number in range(6):
        await h.put(20, max_attempts=100)
        await h.claim(worker=f"gone-{number}")
        rounds = await asyncio.gather(*(store.run(lambda: reap_jobs("reaper", DEAD_AFTER)) for store in stores))
        rounds += [await h.reap()]
        assert sum(counts.returned for counts in rounds) == 20
        assert h.sql("SELECT min(crash_count), max(crash_count), max(attempt) FROM {job}") == [(1, 1, 1)]
        h.sql("DELETE FROM {job}")


@CASES.on_postgres
async def locked_job_waits_for_the_next_round(h: Harness) -> None:
    """A row that somebody has locked is passed over; the others come back."""
    leases = await h.put_and_claim(3, worker="gone")
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=leases[1].id):
        assert await h.reap() == ReapCounts(returned=2)
    assert await h.reap() == ReapCounts(returned=1)


@CASES
async def poison_job_alone_is_condemned(h: Harness) -> None:
    """One job of 50 kills every worker: suspects run alone, so it dies and the others lose one attempt at most."""
    from holdfast.operations.claim_jobs import claim_suspect

    ids = await h.put(50)
    poison = ids[17]
    await h.claim(worker="first")
    await h.reap()
    number = 0
    while True:
        h.clock.advance(timedelta(hours=2))
        number += 1
        claimed = await h.run(lambda: claim_suspect(f"w{number}", ["default"], LEASE))  # noqa: B023 - awaited at once
        if not claimed:
            break
        if claimed[0].id == poison:
            await h.reap()
        else:
            await h.complete(lease_of(claimed[0]))
    assert h.sql("SELECT id FROM {job} WHERE status = 'dead_letter'")[0][0] in (poison, _as_uuid(poison))
    assert h.sql("SELECT status, count(*) FROM {job} GROUP BY status ORDER BY status") == [
        ("completed", 49),
        ("dead_letter", 1),
    ]
    assert h.sql("SELECT max(attempt) FROM {job} WHERE status = 'completed'") == [(2,)]


@CASES
async def jobs_of_the_dead_are_found_behind_expired_leases_of_the_living(h: Harness) -> None:
    """A reaper that is patient with living workers still sees the dead ones' jobs, however many leases ran out."""
    await h.register("a-living-one")
    await h.put(600)
    await h.claim(worker="a-living-one")
    h.clock.advance(LEASE + timedelta(seconds=1))
    await h.register("a-living-one")
    lost = await h.put_one()
    await h.claim(worker="z-dead-one")
    await h.run(lambda: reap_jobs("reaper", DEAD_AFTER, lambda found: [job for job in found if job.is_owner_dead]))
    assert (await h.job(lost)).status == Status.PENDING


def _find() -> Operation[Rows]:
    parameters = {"worker": "reaper", "dead_after_ms": milliseconds(DEAD_AFTER)}
    return (yield Statement("find_reapable", parameters, literals={"limit": 500}))


def _reap_found(found: Rows) -> Operation[list[Sequence[Any]]]:
    jobs = document([verdict(Reapable(*row)) for row in found])
    rows = yield Statement("reap_jobs", {"dead_after_ms": milliseconds(DEAD_AFTER), "jobs": jobs})
    return list(rows)


def _job_type(name: str, retry: Retry) -> JobType:
    def handler() -> None: ...

    return JobType(name, "default", 0, retry, None, CallSignature(name, handler, (), 1000), PayloadCodec(name, None))


def _as_uuid(text: str) -> object:
    from uuid import UUID

    return UUID(text)
