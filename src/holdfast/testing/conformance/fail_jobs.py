"""fail_jobs: a failed attempt is repeated later, until there are no more; then the job is a dead letter."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from holdfast.model.clock import iso
from holdfast.model.job import JobError
from holdfast.model.status import Status
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.lease import Lease
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import ERROR, Harness
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases, dead_letter

CASES = Cases("fail_jobs")


@CASES
async def goes_back_to_pending_after_the_delay(h: Harness) -> None:
    """Pending again from the delay on, behind who waits already; error and duration are kept, the lease is gone."""
    (lease,) = await h.put_and_claim()
    h.clock.advance(timedelta(seconds=90.25))
    settlement = await h.fail(lease, delay=timedelta(milliseconds=1_500))
    assert (settlement.lost, settlement.locked, settlement.dead) == (set(), set(), set())
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.lease_generation, job.crash_count) == (Status.PENDING, 1, 1, 0)
    assert (job.ready_at, job.finished_at) == (h.now + timedelta(milliseconds=1_500), None)
    assert (job.last_attempt_error, job.duration_ms) == (ERROR, 90_250)
    assert (job.leased_by, job.leased_until, job.completed_by) == (None, None, None)
    assert await h.claim() == []
    h.clock.advance(timedelta(milliseconds=1_500))
    assert [(claimed.id, claimed.attempt) for claimed in await h.claim()] == [(lease.id, 2)]


@CASES
async def duration_that_is_given_wins(h: Harness) -> None:
    """A worker that measured says how long the handler ran."""
    first, second = await h.put_and_claim(2)
    h.clock.advance(5)
    failures = [
        Failure(first.id, 1, ERROR, 0, is_final=False, max_attempts=5, duration_ms=0),
        Failure(second.id, 1, ERROR, 0, is_final=True, max_attempts=5, duration_ms=90_061_007),
    ]
    await h.run(lambda: fail_jobs("w1", failures))
    assert [(await h.job(lease.id)).duration_ms for lease in (first, second)] == [0, 90_061_007]


@CASES
async def keeps_the_time_it_was_asked_for(h: Harness) -> None:
    """A retry changes when the job is ready, not when it was scheduled."""
    scheduled = h.now + timedelta(seconds=5)
    job_id = await h.put_one(at=scheduled)
    h.clock.advance(60)
    await h.fail(await h.claim_one(), delay=timedelta(hours=1))
    assert (await h.job(job_id)).scheduled_at == scheduled


@CASES
async def is_remembered_as_an_attempt(h: Harness) -> None:
    """Each failed attempt leaves a record with worker, times and error."""
    job_id = await h.put_one()
    began = h.now
    for number in (1, 2):
        lease = await h.claim_one(worker=f"w{number}")
        h.clock.advance(10)
        await h.fail(lease, worker=f"w{number}", error=JobError("ValueError", f"time {number}"))
    first, second = await h.attempts(job_id)
    assert (first.attempt, first.lease_generation, first.worker_id, first.outcome) == (1, 1, "w1", "failed")
    assert (first.started_at, first.ended_at) == (began, began + timedelta(seconds=10))
    assert (second.attempt, second.worker_id, second.error) == (2, "w2", JobError("ValueError", "time 2"))


@CASES
async def last_attempt_makes_a_dead_letter(h: Harness) -> None:
    """At the allowed number the job is finished, keeps its error, and is not claimed again."""
    job_id = await h.put_one()
    for number in (1, 2, 3):
        settlement = await h.fail(await h.claim_one(), max_attempts=3)
        assert settlement.dead == (set() if number < 3 else {job_id})
    job = await h.job(job_id)
    assert (job.status, job.attempt, job.finished_at) == (Status.DEAD_LETTER, 3, h.now)
    assert (job.last_attempt_error, job.leased_by, job.leased_until) == (ERROR, None, None)
    assert len(await h.attempts(job_id)) == 3
    h.clock.advance(timedelta(days=365))
    assert await h.claim() == []


@CASES
async def final_failure_makes_a_dead_letter_at_once(h: Harness) -> None:
    """Attempts left do not matter when the failure is final."""
    (lease,) = await h.put_and_claim(max_attempts=100)
    settlement = await h.fail(lease, is_final=True, max_attempts=100)
    assert settlement.dead == {lease.id}
    assert (await h.job(lease.id)).status is Status.DEAD_LETTER


async def _allowed_attempts(h: Harness, expected: int, own: int | None, settings: dict[str, int]) -> None:
    for name, value in settings.items():
        h.set_setting(name, value)
    job_id = await h.put_one(type_name="send", max_attempts=own)
    for _ in range(expected):
        assert (await h.job(job_id)).status is Status.PENDING
        await h.fail(await h.claim_one(), max_attempts=2)
    assert (await h.job(job_id)).status is Status.DEAD_LETTER


_PRECEDENCE: dict[str, tuple[int, int | None, dict[str, int]]] = {
    "the_types_own": (2, None, {}),
    "the_setting_for_all": (4, None, {"max_attempts": 4}),
    "the_setting_for_the_type": (3, None, {"max_attempts": 4, "max_attempts:send": 3}),
    "the_jobs_own": (1, 1, {"max_attempts": 4, "max_attempts:send": 3}),
    "not_another_types_setting": (2, None, {"max_attempts:sen": 4, "max_attempts:send2": 4}),
}
for _name, (_expected, _own, _settings) in _PRECEDENCE.items():
    CASES.add(
        f"attempts_allowed_by_{_name}",
        "Attempts: the job's own, the setting for its type, the setting for all, the type's.",
        partial(_allowed_attempts, expected=_expected, own=_own, settings=_settings),
    )


async def _again(h: Harness, *, is_final: bool) -> None:
    (lease,) = await h.put_and_claim()
    first = await h.fail(lease, is_final=is_final, delay=timedelta(minutes=1))
    before = await h.state(lease.id)
    h.clock.advance(1)
    second = await h.fail(lease, is_final=not is_final, error=JobError("Other", "later"))
    assert (second.lost, second.locked, second.dead) == (first.lost, first.locked, first.dead)
    assert await h.state(lease.id) == before
    assert len(before[1]) == 1


CASES.add("again_reports_the_retry", "Failing twice is one failure: no second record.", partial(_again, is_final=False))
CASES.add("again_reports_the_dead_letter", "As before, of a dead letter.", partial(_again, is_final=True))


@CASES
async def errors_are_kept_exactly(h: Harness) -> None:
    """Quotes, unicode, newlines and length survive, with and without a traceback."""
    for error in (
        JobError("KeyError", "'a\"b\\c'\n\t— 😀 \u2028", 'File "x.py", line 1\n  boom()\n'),
        JobError("Größe", "", None),
        JobError("E", "m" * 2_000, "t" * 20_000),
    ):
        (lease,) = await h.put_and_claim()
        await h.fail(lease, error=error, is_final=True)
        assert (await h.job(lease.id)).last_attempt_error == error
        assert [record.error for record in await h.attempts(lease.id)] == [error]


@CASES
async def mixed_batch(h: Harness) -> None:
    """Retries, dead letters and stale ones in one statement."""
    leases = await h.put_and_claim(4)
    await h.complete(leases[3])
    jobs = [
        Failure(lease.id, lease.lease_generation, ERROR, 1_000 * number, is_final=number == 2, max_attempts=5)
        for number, lease in enumerate(leases)
    ]
    settlement = await h.run(lambda: fail_jobs("w1", jobs))
    assert (settlement.dead, settlement.lost, settlement.locked) == ({leases[2].id}, {leases[3].id}, set())
    ready = [(await h.job(lease.id)).ready_at - h.now for lease in leases[:2]]
    assert ready == [timedelta(), timedelta(seconds=1)]


@CASES
async def nothing_to_fail(h: Harness) -> None:
    """An empty list is no error."""
    settlement = await h.fail()
    assert (settlement.lost, settlement.locked, settlement.dead) == (set(), set(), set())


@CASES
async def retry_does_not_overtake(h: Harness) -> None:
    """A job that becomes claimable again stands behind those that were due before it."""
    (lease,) = await h.put_and_claim()
    h.clock.advance(1)
    waiting = await h.put_one()
    h.clock.advance(1)
    await h.fail(lease)
    assert [job.id for job in await h.claim()] == [waiting, lease.id]


add_stale_cases(CASES, Harness.fail, is_repeat=(dead_letter,))


def _failed(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job_attempt} WHERE outcome = 'failed'")[0][0])


add_locked_case(CASES, Harness.fail, _failed)


@CASES
async def again_at_an_exact_time(h: Harness) -> None:
    """To the microsecond, and counted as an attempt; the past means now; the last attempt is the last."""
    first, second = await h.put_and_claim(2)
    when = h.now + timedelta(hours=3, microseconds=17)
    past = h.now - timedelta(days=1)
    jobs = [
        Failure(lease.id, lease.lease_generation, ERROR, 5_000, is_final=False, max_attempts=2, retry_at=iso(moment))
        for lease, moment in ((first, when), (second, past))
    ]
    await h.run(lambda: fail_jobs("w1", jobs))
    job = await h.job(first.id)
    assert (job.status, job.attempt, job.ready_at) == (Status.PENDING, 1, when)
    assert (await h.job(second.id)).ready_at == h.now
    lease = await h.claim_one()
    last = Failure(lease.id, lease.lease_generation, ERROR, 0, is_final=False, max_attempts=2, retry_at=iso(when))
    assert (await h.run(lambda: fail_jobs("w1", [last]))).dead == {second.id}


@CASES
async def may_cancel(h: Harness) -> None:
    """A handler may end its job for good without a dead letter."""
    (lease,) = await h.put_and_claim()
    failure = Failure(lease.id, lease.lease_generation, ERROR, 0, is_final=False, max_attempts=5, is_cancelled=True)
    settlement = await h.run(lambda: fail_jobs("w1", [failure]))
    assert (settlement.cancelled, settlement.dead, settlement.lost) == ({lease.id}, set(), set())
    job = await h.job(lease.id)
    assert (job.status, job.finished_at, job.last_attempt_error) == (Status.CANCELLED, h.now, ERROR)
    assert await h.claim() == []


@CASES
async def tells_completed_from_lost(h: Harness) -> None:
    """Whoever completed the job on a transaction of its own learns that it is completed."""
    done, gone = await h.put_and_claim(2)
    await h.complete(done)
    await h.release(gone)
    await h.claim_one()
    settlement = await h.fail(done, gone)
    assert (settlement.lost, settlement.completed) == ({done.id, gone.id}, {done.id})


@CASES
async def keeps_the_last_twenty_attempts(h: Harness) -> None:
    """Older ones are forgotten; other jobs' are not touched."""
    patient, other = await h.put(2, max_attempts=100)
    for _ in range(3):
        for job in await h.claim():
            await h.fail(Lease(job.id, job.lease_generation))
    h.sql("UPDATE {job} SET status = 'cancelled', finished_at = :now WHERE id = :id", now=iso(h.now), id=other)
    for _ in range(27):
        await h.fail(await h.claim_one())
    assert [record.attempt for record in await h.attempts(patient)] == list(range(11, 31))
    assert [record.attempt for record in await h.attempts(other)] == [1, 2, 3]
