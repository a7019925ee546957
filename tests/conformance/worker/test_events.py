"""What listeners are told: the exact sequence of events of a life, and nothing of what is rolled back."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import (
    AttemptEvent,
    Cancel,
    DeadLetter,
    Event,
    JobCancelled,
    JobCancelRequested,
    JobCompleted,
    JobContinued,
    JobDeadLettered,
    JobEnqueued,
    JobEvent,
    JobFailed,
    JobLost,
    JobReaped,
    JobRefused,
    JobReleased,
    JobRetried,
    JobSnoozed,
    JobStarted,
    JobSuspended,
    Retry,
    Snooze,
    Status,
    WorkerEvent,
    WorkerStarted,
    WorkerStopped,
)
from holdfast.errors import DatabaseUnavailable, LeaseLost
from holdfast.testing import Drained, adrain
from holdfast.worker.patient_store import PatientStore
from tests.conformance.worker.conftest import BRISK, Ground, Hand, Tx, settled
from tests.crew.keyed import claim

SOON = Retry(max_attempts=3, initial=0.01, factor=1, jitter=0)
TWICE = Retry(max_attempts=2, initial=1, jitter=0)


def die_holding_everything(ground: Ground, worker_id: str) -> None:
    """As it looks when a worker has died that nobody remembers."""
    store = ground.app.store.sync()
    assert claim(store, worker=worker_id)
    store.close()


class Heard(list[Any]):
    """What was told, in its order."""

    def of(self, job_id: str) -> list[Any]:
        return [event for event in self if isinstance(event, JobEvent) and event.job_id == job_id]

    def kinds(self, job_id: str | None = None) -> list[type[Event]]:
        return [type(event) for event in (self if job_id is None else self.of(job_id))]

    def of_jobs(self) -> list[type[Event]]:
        return [type(event) for event in self if not isinstance(event, WorkerEvent)]


def listen(ground: Ground, *kinds: type[Event]) -> Heard:
    heard = Heard()
    ground.app.on_event(*kinds)(heard.append)
    return heard


async def test_success(ground: Ground) -> None:
    """With the worker's own life around it, and everything that an event says."""
    heard = listen(ground)

    async def work(hand: Hand) -> int:
        return 1

    job_id = await ground.put(ground.job(work, queue="shop"))
    assert heard == [JobEnqueued(job_id, job_id, "work", "shop", None, Status.PENDING)]
    async with ground.app.worker(config=BRISK) as worker:
        await ground.until(lambda: JobCompleted in heard.kinds())
    start, begin, end, stop = heard[1:]
    assert start == WorkerStarted(worker.id, ("shop",), 4)
    assert begin == JobStarted(job_id, job_id, "work", "shop", None, 1, 1, worker.id)
    assert end == JobCompleted(job_id, job_id, "work", "shop", None, 1, 1, worker.id, end.duration_ms)
    assert end.duration_ms >= 0
    assert stop == WorkerStopped(worker.id)


async def test_retry_and_dead_letter(ground: Ground) -> None:
    """One event for each attempt that failed; the last one says that it was the last."""
    assert ground.clock is not None
    heard = listen(ground)

    async def work(hand: Hand) -> None:
        raise ValueError(f"attempt {hand.attempt}")

    job_id = await ground.put(ground.job(work, retry=TWICE))
    await adrain(ground.app)
    ground.clock.advance(timedelta(seconds=2))
    await adrain(ground.app)
    assert heard.kinds(job_id) == [JobEnqueued, JobStarted, JobFailed, JobStarted, JobDeadLettered]
    failed, dead = heard.of(job_id)[2::2]
    assert (failed.attempt, failed.lease_generation, failed.error.type, failed.error.message) == (
        1, 1, "ValueError", "attempt 1",
    )  # fmt: skip
    assert (dead.attempt, dead.lease_generation, dead.error.message) == (2, 2, "attempt 2")


async def test_a_person_retries_a_dead_letter(ground: Ground) -> None:
    heard = listen(ground)

    async def work(hand: Hand) -> None:
        if hand.lease_generation == 1:
            raise DeadLetter("no")

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    await ground.client.retry(job_id)
    await adrain(ground.app)
    assert heard.kinds(job_id) == [
        *(JobEnqueued, JobStarted, JobDeadLettered),
        *(JobRetried, JobStarted, JobCompleted),
    ]
    retried = heard.of(job_id)[3]
    assert retried == JobRetried(job_id, job_id, "work", "default", None, 1, 1, None)


async def test_continuation(ground: Ground) -> None:
    """The next job is told of by the one before it; it has the chain's tenant."""
    heard = listen(ground)

    async def last(hand: Hand) -> int:
        return 1

    lasts = ground.job(last, queue="other")

    async def first(hand: Hand) -> Any:
        return await hand.continue_with(lasts.call())

    chain = await ground.client.enqueue(ground.job(first).call(), tenant="acme")
    await adrain(ground.app)
    assert {event.chain_id for event in heard if isinstance(event, JobEvent)} == {chain.id}
    assert {event.tenant for event in heard if isinstance(event, JobEvent)} == {"acme"}
    assert heard.kinds(chain.id) == [JobEnqueued, JobStarted, JobContinued]
    continued = heard.of(chain.id)[2]
    assert (continued.type_name, continued.queue, continued.next_type_name) == ("first", "default", "last")
    assert heard.kinds(continued.next_job_id) == [JobStarted, JobCompleted]
    assert {(event.type_name, event.queue) for event in heard.of(continued.next_job_id)} == {("last", "other")}


async def test_blockers(ground: Ground) -> None:
    """A blocked job says so when it is enqueued; that it waits no longer is seen when it starts."""
    heard = listen(ground)

    async def work(hand: Hand) -> None: ...

    handle = ground.job(work)
    first = await ground.put(handle)
    behind = (await ground.client.enqueue(handle.call(), blockers=[first])).id
    await adrain(ground.app)
    for job_id in (first, behind):
        assert heard.kinds(job_id) == [JobEnqueued, JobStarted, JobCompleted]
    assert [event.status for event in heard[:2]] == [Status.PENDING, Status.BLOCKED]


async def test_crash(live_ground: Ground) -> None:
    """Reaped from a worker that died, by its name; run again under the next generation."""
    heard = listen(live_ground)

    async def work(hand: Hand) -> None: ...

    job_id = await live_ground.put(live_ground.job(work))
    die_holding_everything(live_ground, "gone-1")
    async with live_ground.app.worker(config=replace(BRISK, dead_after=timedelta(seconds=6))) as worker:
        await live_ground.until(lambda: JobCompleted in heard.kinds(), patience=40)
    assert heard.kinds(job_id) == [JobEnqueued, JobReaped, JobStarted, JobCompleted]
    _, reaped, started, _ = heard.of(job_id)
    assert reaped == JobReaped(job_id, job_id, "work", "default", None, 1, 1, "gone-1", reaped.error)
    assert (reaped.error.type, "gone-1" in reaped.error.message) == ("WorkerDied", True)
    assert (started.attempt, started.lease_generation, started.worker_id) == (2, 2, worker.id)


async def test_killed_its_worker_too_often(live_ground: Ground) -> None:
    """Taken back, and a dead letter by that."""
    heard = listen(live_ground)

    async def work(hand: Hand) -> None: ...

    job_id = await live_ground.put(live_ground.job(work))
    die_holding_everything(live_ground, "gone-1")
    live_ground.sql("UPDATE {job} SET crash_count = 2")
    async with live_ground.app.worker(config=replace(BRISK, dead_after=timedelta(seconds=6))):
        await live_ground.until(lambda: JobDeadLettered in heard.kinds(), patience=40)
    assert heard.kinds(job_id) == [JobEnqueued, JobReaped, JobDeadLettered]
    assert heard.of(job_id)[2].error == heard.of(job_id)[1].error


@pytest.mark.parametrize("noticed_by", ["renewal", "handler", "outcome"])
async def test_lost_lease(live_ground: Ground, noticed_by: str) -> None:
    """Told once, whoever notices it first."""
    heard = listen(live_ground)

    async def work(hand: Hand) -> None:
        live_ground.sql("UPDATE {job} SET lease_generation = lease_generation + 1, leased_by = 'another'")
        match noticed_by:
            case "renewal":
                while hand.cancelled is None:
                    await hand.pause()
            case "handler":
                with pytest.raises(LeaseLost):
                    await hand.progress(1)

    job_id = await live_ground.put(live_ground.job(work))
    often = timedelta(seconds=0.1 if noticed_by == "renewal" else 20)
    async with live_ground.app.worker(config=replace(BRISK, renew=often)) as worker:
        await live_ground.until(lambda: JobLost in heard.kinds())
    lost = JobLost(job_id, job_id, "work", "default", None, 1, 1, worker.id, "lease_lost")
    assert heard.of(job_id)[2:] == [lost]


async def test_completion_without_a_worker(ground: Ground) -> None:
    """Every job of the chain that was completed; nobody's attempt."""
    heard = listen(ground)

    async def work(hand: Hand) -> None: ...

    handle = ground.job(work)
    job_id = await ground.put(handle)
    await ground.client.complete_job(job_id)
    assert heard[1:] == [JobCompleted(job_id, job_id, "work", "default", None, 0, 1, None, 0)]
    heard.clear()
    first = await ground.put(handle)
    tail = await ground.client.complete_chain(first, handle.call(), handle.call(), None)
    assert heard.kinds() == [JobEnqueued, JobContinued, JobContinued, JobCompleted]
    assert [event.job_id for event in heard[2:]] == [heard[1].next_job_id, heard[2].next_job_id]
    assert heard[3].job_id == tail.id
    assert (heard[3].chain_id, heard[3].lease_generation) == (first, tail.lease_generation)


async def test_completed_outside_while_it_runs(live_ground: Ground) -> None:
    """The worker that had it has lost it, and says why; once."""
    heard = listen(live_ground)
    started = threading.Event()

    async def work(hand: Hand) -> None:
        started.set()
        while hand.cancelled is None:
            await hand.pause()
        await hand.pause(0.3)

    job_id = await live_ground.put(live_ground.job(work))
    async with live_ground.app.worker(config=BRISK) as worker:
        await live_ground.until(started.is_set)
        await live_ground.client.complete_job(job_id)
        await live_ground.until(lambda: JobLost in heard.kinds())
    # Client and worker tell for themselves: the one may be ahead of the other.
    first, second = sorted(heard.of(job_id)[2:], key=lambda event: type(event).__name__)
    assert first == JobCompleted(job_id, job_id, "work", "default", None, 1, 2, None, first.duration_ms)
    assert second == JobLost(job_id, job_id, "work", "default", None, 1, 1, worker.id, "completed_elsewhere")


async def test_endings_that_handlers_choose(ground: Ground) -> None:
    heard = listen(ground)

    async def work(hand: Hand, number: int) -> None:
        match number:
            case 1:
                raise Snooze(60)
            case 2:
                raise Cancel("nobody needs it")
            case 3:
                await hand.sleep("night", 60)
            case _:
                raise DeadLetter("never")

    handle = ground.job(work)
    ids = [await ground.put(handle, number=number) for number in (1, 2, 3, 4)]
    await adrain(ground.app)
    assert [heard.kinds(job_id)[2:] for job_id in ids] == [
        [JobSnoozed],
        [JobCancelled],
        [JobSuspended],
        [JobDeadLettered],
    ]
    assert heard.of(ids[1])[2].error.message == "nobody needs it"
    assert heard.of(ids[2])[2].waits_for == "sleep"


async def test_on_the_handlers_own_transaction(ground: Ground) -> None:
    """Told when the worker has seen that it committed; not where it rolled back."""
    heard = listen(ground)

    async def last(hand: Hand) -> None:
        async with hand.transaction() as tx:
            await hand.complete(tx=tx.tx)

    lasts = ground.job(last)

    async def first(hand: Hand) -> Any:
        with suppress(RuntimeError):
            async with hand.transaction() as tx:
                await hand.continue_with(lasts.call(), tx=tx.tx)
                if hand.attempt == 1:
                    raise RuntimeError

    chain = await ground.client.enqueue(ground.job(first, retry=TWICE).call())
    assert await adrain(ground.app) == Drained(retried=1)
    assert heard.of_jobs() == [JobEnqueued, JobStarted, JobFailed]
    assert ground.clock is not None
    ground.clock.advance(timedelta(seconds=2))
    await adrain(ground.app)
    assert heard.kinds(chain.id)[3:] == [JobStarted, JobContinued]
    continued = heard.of(chain.id)[-1]
    assert continued.next_type_name == "last"
    assert heard.kinds(continued.next_job_id) == [JobStarted, JobCompleted]
    assert heard.of(continued.next_job_id)[1].chain_id == chain.id


async def test_released_at_a_stop(live_ground: Ground) -> None:
    """What was handed to its handler and goes back; what only waited was never told of."""
    heard = listen(live_ground)
    started = threading.Event()

    async def work(hand: Hand) -> None:
        started.set()
        while hand.cancelled is None:
            await hand.pause()
        raise RuntimeError("asked to stop")

    handle = live_ground.job(work)
    ids = [await live_ground.put(handle) for _ in range(3)]
    config = replace(BRISK, concurrency=1, stop_deadline=timedelta(seconds=0.1))
    async with live_ground.app.worker(config=config):
        await live_ground.until(started.is_set)
    assert heard.kinds(ids[0]) == [JobEnqueued, JobStarted, JobReleased]
    assert [heard.kinds(job_id) for job_id in ids[1:]] == [[JobEnqueued]] * 2
    assert heard.kinds()[-2:] == [JobReleased, WorkerStopped]


async def test_refused(ground: Ground) -> None:
    """No handler here knows its type: it was never handed to one."""
    heard = listen(ground)

    async def work(hand: Hand) -> None: ...

    job_id = await ground.put(ground.job(work))
    ground.sql("UPDATE {job} SET type_name = 'strange'")
    assert (await adrain(ground.app)).refused == 1
    assert heard.kinds(job_id) == [JobEnqueued, JobRefused]
    assert (heard.of(job_id)[1].type_name, heard.of(job_id)[1].error.type) == ("strange", "UnknownJobType")


@pytest.mark.parametrize("ending", ["return", "raise", "snooze", "sleep"])
async def test_cancelled_while_it_runs(ground: Ground, ending: str) -> None:
    """Asked to end; success counts, and whatever else its handler says, it is cancelled."""
    heard = listen(ground)

    async def work(hand: Hand) -> None:
        await settled(hand.client.cancel(hand.job.id, reason="enough"))
        match ending:
            case "raise":
                raise ValueError
            case "snooze":
                raise Snooze(60)
            case "sleep":
                await hand.sleep("night", 60)

    job_id = await ground.put(ground.job(work, retry=TWICE))
    drained = await adrain(ground.app)
    assert drained == (Drained(completed=1) if ending == "return" else Drained(cancelled=1))
    end = JobCompleted if ending == "return" else JobCancelled
    assert heard.kinds(job_id) == [JobEnqueued, JobStarted, JobCancelRequested, end]


async def test_children(ground: Ground) -> None:
    """Enqueued with the step that keeps them; the parent waits for them without a slot."""
    heard = listen(ground)

    async def child(hand: Hand) -> int:
        return 1

    children = ground.job(child)

    async def parent(hand: Hand) -> None:
        part = await hand.enqueue("part", children.call())
        await hand.gather(part)

    job_id = await ground.put(ground.job(parent))
    await adrain(ground.app)
    assert heard.kinds(job_id) == [JobEnqueued, JobStarted, JobSuspended, JobStarted, JobCompleted]
    assert heard.of(job_id)[2].waits_for == "children"
    (part,) = {event.job_id for event in heard if isinstance(event, JobEvent)} - {job_id}
    assert heard.kinds(part) == [JobEnqueued, JobStarted, JobCompleted]


async def test_nothing_of_a_handlers_transaction_that_rolls_back(ground: Ground) -> None:
    """Neither of the whole, nor of what a savepoint took back; what committed is told of afterwards."""
    heard = listen(ground, JobEnqueued)

    async def other(hand: Hand, number: int) -> None: ...

    others = ground.job(other, queue="other")

    async def enqueue(hand: Hand, tx: Tx, number: int) -> None:
        await settled(hand.client.enqueue(others.call(number=number), tx=tx.tx, tenant=str(number)))

    async def work(hand: Hand) -> None:
        with suppress(RuntimeError):
            async with hand.transaction() as tx:
                await enqueue(hand, tx, 1)
                raise RuntimeError
        async with hand.transaction() as tx:
            await enqueue(hand, tx, 2)
            with suppress(RuntimeError):
                if ground.kind == "async":
                    async with tx.tx.savepoint():
                        await enqueue(hand, tx, 3)
                        raise RuntimeError
                else:
                    with tx.tx.savepoint():
                        await enqueue(hand, tx, 3)
                        raise RuntimeError
            await enqueue(hand, tx, 4)
            ground.seen.append(len(heard))

    await ground.put(ground.job(work))
    heard.clear()
    await adrain(ground.app, queues=["default"])
    assert ground.seen == [0]
    assert [event.tenant for event in heard] == ["2", "4"]


async def test_expired(ground: Ground) -> None:
    """Cancelled without an attempt."""
    assert ground.clock is not None
    heard = listen(ground)

    async def work(hand: Hand) -> None: ...

    chain = await ground.client.enqueue(ground.job(work, queue="shop").call(), expires=60, tenant="acme")
    ground.clock.advance(timedelta(seconds=61))
    assert (await adrain(ground.app)).expired == 1
    assert heard.of_jobs() == [JobEnqueued, JobCancelled]
    cancelled = heard.of(chain.id)[1]
    assert cancelled == JobCancelled(chain.id, chain.id, "work", "shop", "acme", 0, 0, None, cancelled.error)
    assert cancelled.error.type == "Expired"


async def test_outcomes_that_are_sent_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told once, and not before the database has acknowledged them."""
    heard = listen(ground)

    async def work(hand: Hand) -> None: ...

    job_id = await ground.put(ground.job(work))
    run = PatientStore.run
    told_before: list[list[type[Event]]] = []

    async def lossy(self: PatientStore, verb: Any, **options: Any) -> Any:
        answer = await run(self, verb, **options)
        if len(told_before) < 2 and (await ground.get(job_id)).status is Status.COMPLETED:
            told_before.append(heard.kinds(job_id))
            raise DatabaseUnavailable("the answer was lost")
        return answer

    monkeypatch.setattr(PatientStore, "run", lossy)
    async with ground.app.worker(config=BRISK):
        await ground.until(lambda: JobCompleted in heard.kinds())
    assert told_before == [[JobEnqueued, JobStarted]] * 2
    assert heard.kinds(job_id) == [JobEnqueued, JobStarted, JobCompleted]


async def test_listeners_that_fail(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """Logged, not once for each event; neither other listeners nor jobs notice."""

    @ground.app.on_event
    def broken(event: Event) -> None:
        raise ValueError("no such thing")

    @ground.app.on_event
    def leaving(event: Event) -> None:
        raise SystemExit

    @ground.app.on_event
    def cancelling(event: Event) -> None:
        raise asyncio.CancelledError

    heard = listen(ground)

    async def work(hand: Hand) -> None: ...

    handle = ground.job(work)
    with caplog.at_level(logging.ERROR, logger="holdfast.events"):
        ids = [await ground.put(handle) for _ in range(5)]
        assert await adrain(ground.app) == Drained(completed=5)
    for job_id in ids:
        assert heard.kinds(job_id) == [JobEnqueued, JobStarted, JobCompleted]
    messages = [record.getMessage() for record in caplog.records]
    assert len([message for message in messages if "broken" in message]) in range(1, 5)
    assert any("leaving" in message for message in messages)
    assert any("cancelling" in message for message in messages)
    assert "no such thing" in caplog.text


async def test_chosen_kinds(ground: Ground) -> None:
    """Only these; a class stands for those below it."""
    ends, attempts, everything = listen(ground, JobCompleted, JobFailed), listen(ground, AttemptEvent), listen(ground)

    async def work(hand: Hand) -> None: ...

    await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ends.kinds() == [JobCompleted]
    assert attempts.kinds() == [JobStarted, JobCompleted]
    assert everything.kinds() == [JobEnqueued, WorkerStarted, JobStarted, JobCompleted, WorkerStopped]
