"""How a handler may end its attempt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import Cancel, DeadLetter, Retry, RetryAt, Snooze, Status
from holdfast.errors import InvalidOption
from holdfast.testing import Drained, adrain
from tests.conformance.worker.conftest import Ground, Hand


async def test_snooze_gives_the_attempt_back(ground: Ground) -> None:
    """However often, and steps are not repeated."""
    calls: list[str] = []

    async def patient(hand: Hand) -> str:
        await hand.step("once", lambda: calls.append("once"))
        ground.seen.append((hand.attempt, hand.lease_generation))
        if len(ground.seen) < 4:
            raise Snooze(timedelta(minutes=5))
        return "done"

    job_id = await ground.put(ground.job(patient, retry=Retry(max_attempts=1)))
    assert ground.clock is not None
    for _ in range(3):
        assert await adrain(ground.app) == Drained(snoozed=1)
        job = await ground.get(job_id)
        assert (job.status, job.attempt, job.ready_at) == (
            Status.PENDING, 0, ground.clock.now + timedelta(minutes=5),
        )  # fmt: skip
        ground.clock.advance(timedelta(minutes=5))
    assert (await adrain(ground.app)).completed == 1
    assert ground.seen == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert calls == ["once"]


async def test_snooze_until(ground: Ground) -> None:
    """At an exact time."""
    assert ground.clock is not None
    when = ground.clock.now + timedelta(hours=7, microseconds=3)

    async def patient(hand: Hand) -> None:
        raise Snooze(until=when)

    job_id = await ground.put(ground.job(patient))
    await adrain(ground.app)
    assert (await ground.get(job_id)).ready_at == when


async def test_retry_at_is_a_failure_with_an_exact_time(ground: Ground) -> None:
    """Counted, remembered with its cause, and at the last attempt a dead letter."""
    assert ground.clock is not None
    when = ground.clock.now + timedelta(hours=3)

    async def limited(hand: Hand) -> None:
        try:
            raise ConnectionError("429")  # noqa: TRY301 - as a library would
        except ConnectionError as error:
            raise RetryAt(when) from error

    job_id = await ground.put(ground.job(limited, retry=Retry(max_attempts=2, on=(ValueError,))))
    assert await adrain(ground.app) == Drained(retried=1)
    job = await ground.get(job_id)
    assert (job.status, job.attempt, job.ready_at) == (Status.PENDING, 1, when)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "RetryAt"
    assert "ConnectionError: 429" in (job.last_attempt_error.traceback or "")
    ground.clock.advance(timedelta(hours=3))
    assert await adrain(ground.app) == Drained(dead=1)


async def test_cancel(ground: Ground) -> None:
    """Cancelled, with the reason."""

    async def needless(hand: Hand) -> None:
        raise Cancel("the order was withdrawn")

    job_id = await ground.put(ground.job(needless))
    assert await adrain(ground.app) == Drained(cancelled=1)
    job = await ground.get(job_id)
    assert (job.status, job.attempt) == (Status.CANCELLED, 1)
    assert job.last_attempt_error is not None
    assert (job.last_attempt_error.type, job.last_attempt_error.message) == ("Cancel", "the order was withdrawn")


async def test_dead_letter(ground: Ground) -> None:
    """At once, whatever attempts are left."""

    async def hopeless(hand: Hand) -> None:
        raise DeadLetter("no such customer")

    job_id = await ground.put(ground.job(hopeless))
    assert await adrain(ground.app) == Drained(dead=1)
    job = await ground.get(job_id)
    assert (job.status, job.attempt) == (Status.DEAD_LETTER, 1)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.message == "no such customer"


def test_snooze_wants_one_time() -> None:
    """Neither, or both, is a mistake that names itself."""
    with pytest.raises(InvalidOption, match="delay"):
        Snooze()
    with pytest.raises(InvalidOption, match="delay"):
        Snooze(-1)
    with pytest.raises(InvalidOption, match="when"):
        RetryAt("tomorrow")  # type: ignore[arg-type]  # that is the point
