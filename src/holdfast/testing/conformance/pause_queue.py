"""pause_queue, resume_queue: a queue that gives out nothing, until somebody or a time says otherwise."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from holdfast.errors import InvalidOption
from holdfast.model.queue import QueueSettings, ResumeTime
from holdfast.model.scan_position import Lane
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import claim_suspect, next_due
from holdfast.operations.pause_queue import pause_queue, resume_queue
from holdfast.operations.queue_settings import read_queues
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness, ids_of, lease_of, refused

CASES = Cases("pause_queue")


async def _pause(
    h: Harness, queue: str = "default", *, at: datetime | None = None, after: timedelta | None = None, **by: Any
) -> QueueSettings:
    return await h.run(lambda: pause_queue(queue, ResumeTime(at, after), by.get("actor"), by.get("reason")))


async def _resume(h: Harness, queue: str = "default", actor: str | None = None) -> tuple[QueueSettings, bool]:
    return await h.run(lambda: resume_queue(queue, actor))


async def _next_due(h: Harness, *queues: str) -> timedelta | None:
    return await h.run(lambda: next_due(queues or ("default",)), read_only=True)


def _audit(h: Harness) -> list[tuple[Any, ...]]:
    rows = h.sql("SELECT actor, verb, outcome, CAST(detail AS text) FROM {audit} ORDER BY seq")
    return [(actor, verb, outcome, json.loads(detail)) for actor, verb, outcome, detail in rows]


@CASES
async def nothing_is_claimed(h: Harness) -> None:
    """Not even by a worker that knows where the jobs are; other queues are not concerned."""
    waiting = await h.put(3)
    other = await h.put_one(queue="other")
    lanes = await h.lanes("default", "other")
    await _pause(h)
    assert ids_of(await h.claim(lanes=lanes)) == [other]
    assert await h.claim(lanes=lanes) == []
    assert [(await h.job(job_id)).status for job_id in waiting] == [Status.PENDING] * 3


@CASES
async def nothing_is_claimed_ahead(h: Harness) -> None:
    """A claim for later is a claim: no job, and no mark of one."""
    await h.put(3)
    lanes = await h.lanes()
    await _pause(h)
    assert await h.claim(lanes=lanes, prefetch=True) == []
    assert h.count("prefetch") == 0


@CASES
async def suspects_wait_too(h: Harness) -> None:
    """A job whose worker died is no exception."""
    job_id = await h.put_one()
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    await _pause(h)
    assert await h.run(lambda: claim_suspect("w1", ["default"], LEASE)) == []
    assert await _next_due(h) is None
    await _resume(h)
    assert ids_of(await h.run(lambda: claim_suspect("w1", ["default"], LEASE))) == [job_id]


@CASES
async def a_suspect_of_another_queue_is_found_behind_a_paused_one(h: Harness) -> None:
    """The paused queue comes first in the list, and is passed over."""
    for queue in ("default", "other"):
        job_id = await h.put_one(queue=queue)
        h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    await _pause(h)
    assert ids_of(await h.run(lambda: claim_suspect("w1", ["default", "other"], LEASE))) == [job_id]


@CASES
async def what_runs_goes_on(h: Harness) -> None:
    """It is renewed, completed, and what fails waits for its next attempt until the pause is over."""
    done, failing = await h.put_and_claim(2)
    await _pause(h)
    assert not (await h.renew(done, failing)).lost
    assert not (await h.complete(done)).lost
    await h.fail(failing)
    assert (await h.job(done.id)).status is Status.COMPLETED
    assert (await h.job(failing.id)).status is Status.PENDING
    assert await h.claim() == []
    await _resume(h)
    assert ids_of(await h.claim()) == [failing.id]


@CASES
async def resumed_in_the_old_order(h: Harness) -> None:
    """Jobs keep their places, also before those that came during the pause."""
    before = await h.put(2)
    await _pause(h)
    h.clock.advance(60)
    during = await h.put(2)
    urgent = await h.put_one(priority=-1)
    _, was_paused = await _resume(h)
    assert was_paused
    assert ids_of(await h.claim()) == [urgent, *before, *during]


@CASES
async def a_worker_goes_on_where_it_was(h: Harness) -> None:
    """The place at which its last claim ended is before everything that the pause kept back."""
    first, second = await h.put(2)
    (claimed,) = await h.claim(1)
    assert claimed.id == first
    after = Lane("default", 0, claimed.ready_at, claimed.seq)
    await _pause(h)
    assert await h.claim(lanes=[after]) == []
    await _resume(h)
    assert ids_of(await h.claim(lanes=[after])) == [second]
    await h.complete(lease_of(claimed))


@CASES
async def ends_by_itself(h: Harness) -> None:
    """Exactly at its time, and until then that is when the jobs are due."""
    job_id = await h.put_one()
    await h.put(delay_ms=20_000, priority=7)
    settings = await _pause(h, at=h.now + timedelta(seconds=10))
    assert (settings.paused_at, settings.resume_at) == (h.now, h.now + timedelta(seconds=10))
    lanes = await h.lanes()
    assert await _next_due(h) == timedelta(seconds=10)
    h.clock.advance(timedelta(seconds=10) - timedelta(microseconds=1))
    assert await h.claim(lanes=lanes) == []
    assert await _next_due(h) == timedelta(milliseconds=1)
    h.clock.advance(timedelta(microseconds=1))
    assert await _next_due(h) == timedelta()
    assert await h.run(read_queues, read_only=True) == []
    assert ids_of(await h.claim(lanes=lanes)) == [job_id]
    assert await _next_due(h) == timedelta(seconds=10)


@CASES
async def ends_after_a_while(h: Harness) -> None:
    """Counted by the database's clock, suspects included."""
    job_id = await h.put_one()
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    settings = await _pause(h, after=timedelta(seconds=1.5))
    assert settings.resume_at == h.now + timedelta(seconds=1.5)
    assert await _next_due(h) == timedelta(seconds=1.5)
    h.clock.advance(1.5)
    assert ids_of(await h.run(lambda: claim_suspect("w1", ["default"], LEASE))) == [job_id]


@CASES
async def nothing_is_due_in_a_pause_without_end(h: Harness) -> None:
    """So nobody looks again and again at jobs that he may not have."""
    await h.put(2)
    await h.put(queue="other", delay_ms=5_000)
    await _pause(h)
    assert await _next_due(h) is None
    assert await _next_due(h, "default", "other") == timedelta(seconds=5)
    assert await h.lanes() == []


@CASES
async def paused_again(h: Harness) -> None:
    """It has been paused since the first time; the end, the reason and who are those of the last."""
    began = h.now
    await _pause(h, at=h.now + timedelta(hours=1), actor="ada", reason="deploy")
    h.clock.advance(60)
    settings = await _pause(h, actor="bob", reason="incident")
    assert settings == QueueSettings(name="default", paused_at=began, paused_by="bob", pause_reason="incident")
    h.clock.advance(timedelta(hours=2))
    await h.put(1)
    assert await h.claim() == []


@CASES
async def paused_anew(h: Harness) -> None:
    """A pause that ended by itself is over: the next one begins when it begins."""
    await _pause(h, after=timedelta(seconds=5))
    h.clock.advance(60)
    assert (await _pause(h)).paused_at == h.now


@CASES
async def an_end_in_the_past_is_refused(h: Harness) -> None:
    """Nothing is written, and the queue stays as it was."""
    error = await refused(InvalidOption, _pause(h, at=h.now))
    assert error.option == "resume_at"
    assert (h.count("queue"), h.count("audit")) == (0, 0)
    await h.put(1)
    assert len(await h.claim()) == 1


@CASES
async def resumed_without_a_pause(h: Harness) -> None:
    """Nothing happens, and that is on record."""
    assert await _resume(h, "nobody's", "ada") == (QueueSettings(name="nobody's"), False)
    assert _audit(h) == [("ada", "resume_queue", "not_paused", {"queue": "nobody's"})]


@CASES
async def it_is_on_record(h: Harness) -> None:
    """Who, what, which queue, and what was given."""
    await _pause(h, "naïve ✓", after=timedelta(seconds=60), actor="ada", reason="the mail server is down")
    await _resume(h, "naïve ✓", "bob")
    assert _audit(h) == [
        (
            "ada",
            "pause_queue",
            "paused",
            {"queue": "naïve ✓", "reason": "the mail server is down", "resume_ms": 60_000},
        ),
        ("bob", "resume_queue", "resumed", {"queue": "naïve ✓"}),
    ]
    assert await h.run(read_queues, read_only=True) == []


@CASES
async def many_paused_queues(h: Harness) -> None:
    """Those that are not paused give out their jobs, whatever stands around them."""
    for number in range(20):
        await h.put(1, queue=f"q{number:02}")
        if number % 2:
            await _pause(h, f"q{number:02}")
    names = [f"q{number:02}" for number in range(20)]
    assert sorted(job.queue for job in await h.claim(queues=names)) == names[::2]
    assert [settings.name for settings in await h.run(read_queues, read_only=True)] == names[1::2]
