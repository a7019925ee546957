"""complete_jobs: finished once, with the first output, by whoever holds the lease."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

from holdfast.model.status import Status
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import ERROR, LEASE, Harness
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases, completed

CASES = Cases("complete_jobs")


@CASES
async def finishes_and_clears(h: Harness) -> None:
    """Output, time, worker and duration are set; lease and error are gone; attempt, generation and input stay."""
    (lease,) = await h.put_and_claim(input={"n": 1})
    await h.fail(lease)
    lease = await h.claim_one(worker="w2")
    h.clock.advance(timedelta(milliseconds=250))
    settlement = await h.complete(lease, output='{"total": 3}', worker="w2")
    assert (settlement.lost, settlement.locked) == (set(), set())
    job = await h.job(lease.id)
    assert (job.status, job.output, job.input) == (Status.COMPLETED, {"total": 3}, {"n": 1})
    assert (job.finished_at, job.completed_by, job.duration_ms) == (h.now, "w2", 250)
    assert (job.leased_by, job.leased_until, job.last_attempt_error) == (None, None, None)
    assert (job.attempt, job.lease_generation) == (2, 2)


_OUTPUTS: dict[str, tuple[str | None, object]] = {
    "missing": (None, None),
    "null": ("null", None),
    "zero": ("0", 0),
    "false": ("false", False),
    "float": ("1e300", 1e300),
    "tenth": ("0.1", 0.1),
    "big_integer": (str(2**70), 2**70),
    "empty_text": ('""', ""),
    "text_that_looks_like_json": ('"{\\"a\\": null}"', '{"a": null}'),
    "text_null": ('"null"', "null"),
    "number_as_text": ('"12"', "12"),
    "emoji": ('"👍🏽 \\"ok\\" \\\\"', '👍🏽 "ok" \\'),
    "empty_array": ("[]", []),
    "empty_object": ("{}", {}),
    "nested_nulls": ('[null, {"a": null}]', [None, {"a": None}]),
}


async def _keeps_output(h: Harness, sent: str | None, expected: object) -> None:
    (lease,) = await h.put_and_claim()
    await h.complete(lease, output=sent)
    found = (await h.job(lease.id)).output
    assert found == expected
    assert type(found) is type(expected)


for _name, (_sent, _expected) in _OUTPUTS.items():
    CASES.add(
        f"output_round_trips_{_name}",
        "The output comes back exactly.",
        partial(_keeps_output, sent=_sent, expected=_expected),
    )


@CASES
async def duration_above_a_minute(h: Harness) -> None:
    """Durations are whole milliseconds, also above a minute and above a day."""
    for duration in (
        timedelta(seconds=61.5),
        timedelta(hours=26, milliseconds=7),
        timedelta(milliseconds=1),
        timedelta(),
    ):
        (lease,) = await h.put_and_claim()
        h.clock.advance(duration)
        await h.complete(lease)
        assert (await h.job(lease.id)).duration_ms == duration // timedelta(milliseconds=1)


@CASES
async def duration_that_is_given_wins(h: Harness) -> None:
    """A worker that measured says how long the handler ran; nothing is a duration too."""
    for duration_ms in (0, 7, 90_061_007):
        (lease,) = await h.put_and_claim()
        h.clock.advance(5)
        completion = Completion(lease.id, lease.lease_generation, duration_ms=duration_ms)
        await h.run(partial(complete_jobs, "w1", [completion]))
        assert (await h.job(lease.id)).duration_ms == duration_ms


@CASES
async def again_keeps_the_first_output(h: Harness) -> None:
    """Completing twice under one generation is a success that changes nothing."""
    (lease,) = await h.put_and_claim()
    await h.complete(lease, output='"first"')
    before = await h.state(lease.id)
    h.clock.advance(1)
    settlement = await h.complete(lease, output='"second"', worker="w2")
    assert (settlement.lost, settlement.locked) == (set(), set())
    assert await h.state(lease.id) == before


@CASES
async def mixed_batch(h: Harness) -> None:
    """Good ones go through beside repeated and stale ones, each with its own output."""
    leases = await h.put_and_claim(5)
    await h.complete(leases[0], output='"before"')
    await h.release(leases[1])
    jobs = [Completion(lease.id, lease.lease_generation, f'"{number}"') for number, lease in enumerate(leases)]
    settlement = await h.run(lambda: complete_jobs("w1", jobs))
    assert settlement.lost == {leases[1].id}
    assert [(await h.job(lease.id)).output for lease in leases] == ["before", None, "2", "3", "4"]


@CASES
async def batch_of_hundreds(h: Harness) -> None:
    """One statement finishes 500."""
    leases = await h.put_and_claim(500)
    settlement = await h.complete(*leases, output="true")
    assert (settlement.lost, settlement.locked) == (set(), set())
    assert h.sql("SELECT status, count(*) FROM {job} GROUP BY status") == [("completed", 500)]


@CASES
async def nothing_to_complete(h: Harness) -> None:
    """An empty list is no error."""
    settlement = await h.complete()
    assert (settlement.lost, settlement.locked) == (set(), set())


@CASES
async def without_a_worker(h: Harness) -> None:
    """Completed by nobody in particular."""
    (lease,) = await h.put_and_claim()
    await h.complete(lease, worker=None)
    assert (await h.job(lease.id)).completed_by is None


@CASES
async def expired_but_not_taken_is_completed(h: Harness) -> None:
    """A holder that is late may still finish: nobody else has the job."""
    (lease,) = await h.put_and_claim()
    h.clock.advance(LEASE * 10)
    assert (await h.complete(lease)).lost == set()
    assert (await h.job(lease.id)).status is Status.COMPLETED


@CASES
async def racing_a_failure_one_wins(h: Harness) -> None:
    """Race: a completion and a failure of one generation; exactly one takes effect and the other is told."""
    stores = h.neighbours(2)
    for _ in range(20):
        (lease,) = await h.put_and_claim()
        completion = Completion(lease.id, lease.lease_generation)
        failure = Failure(lease.id, lease.lease_generation, ERROR, 3_600_000, is_final=False, max_attempts=5)
        completed_one, failed_one = await asyncio.gather(
            stores[0].run(lambda: complete_jobs("w1", [completion])),  # noqa: B023 - awaited in this round
            stores[1].run(lambda: fail_jobs("w1", [failure])),  # noqa: B023 - as above
        )
        job = await h.job(lease.id)
        is_completed = job.status is Status.COMPLETED
        # Whoever met the other's lock asks again; the answer is then final.
        if completed_one.locked:
            completed_one = await stores[0].run(lambda: complete_jobs("w1", [completion]))  # noqa: B023 - as above
        if failed_one.locked:
            failed_one = await stores[1].run(lambda: fail_jobs("w1", [failure]))  # noqa: B023 - as above
        assert job == await h.job(lease.id)
        assert bool(completed_one.lost) is not is_completed
        assert bool(failed_one.lost) is is_completed
        assert len(await h.attempts(lease.id)) == (0 if is_completed else 1)


add_stale_cases(CASES, Harness.complete, is_repeat=(completed,))


def _completed(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE status = 'completed'")[0][0])


add_locked_case(CASES, Harness.complete, _completed)
