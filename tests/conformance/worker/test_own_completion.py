"""Completion on the handler's own transaction: finished with its writes, or neither."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Retry, Status
from holdfast.errors import ChainNotFound, LeaseLost
from holdfast.testing import Drained, adrain
from tests.conformance.worker.conftest import BRISK, Ground, Hand

ONE = Retry(max_attempts=1)
SOON = Retry(max_attempts=5, initial=1, factor=1, jitter=0)


async def test_committed(ground: Ground) -> None:
    """Completed with the output given; what the handler returns is not used."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await own.write(1)
            await hand.complete({"total": 7}, tx=own.tx)
            await own.commit()
        return "ignored"

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    job = await ground.get(job_id)
    assert (job.status, job.output, job.attempt) == (Status.COMPLETED, {"total": 7}, 1)
    assert job.completed_by is not None
    assert job.duration_ms is not None
    assert ground.orders() == [1]


async def test_rolled_back(ground: Ground) -> None:
    """The handler leaves as if all were well: the attempt has failed, and says why; the next one may succeed."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await own.write(hand.attempt)
            await hand.complete(tx=own.tx)
            await (own.commit() if hand.attempt > 1 else own.rollback())

    job_id = await ground.put(ground.job(work, retry=SOON))
    assert await adrain(ground.app) == Drained(retried=1)
    job = await ground.get(job_id)
    assert (job.status, job.attempt) == (Status.PENDING, 1)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "CompletionNotCommitted"
    assert ground.clock is not None
    ground.clock.advance(1)
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.orders() == [2]


async def test_forgotten(ground: Ground) -> None:
    """Neither committed nor rolled back: gone with its connection."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await own.write(1)
            await hand.complete(tx=own.tx)

    job_id = await ground.put(ground.job(work, retry=ONE))
    assert await adrain(ground.app) == Drained(dead=1)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "CompletionNotCommitted"
    assert ground.orders() == []


async def test_raised_before_the_commit(ground: Ground) -> None:
    """The handler's own error is the reason."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await own.write(1)
            await hand.complete(tx=own.tx)
            raise ValueError("changed its mind")

    job_id = await ground.put(ground.job(work, retry=ONE))
    assert await adrain(ground.app) == Drained(dead=1)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "ValueError"
    assert ground.orders() == []


async def test_raised_after_the_commit(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """Done is done: the error is only reported."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await own.write(1)
            await hand.complete("done", tx=own.tx)
            await own.commit()
        raise ValueError("while tidying up")

    job_id = await ground.put(ground.job(work))
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        assert await adrain(ground.app) == Drained(completed=1)
    job = await ground.get(job_id)
    assert (job.status, job.output, job.last_attempt_error) == (Status.COMPLETED, "done", None)
    assert ground.orders() == [1]
    assert "while tidying up" in caplog.text
    assert "lease was lost" not in caplog.text


async def test_lease_lost_before(ground: Ground) -> None:
    """LeaseLost, and the transaction cannot be committed, even if the handler swallows the error."""

    async def work(hand: Hand) -> Any:
        if hand.lease_generation > 1:
            return
        ground.sql("UPDATE {job} SET lease_generation = lease_generation + 1, leased_by = 'another'")
        async with hand.connection() as own:
            await own.write(1)
            with pytest.raises(LeaseLost):
                await hand.complete(tx=own.tx)
            await own.try_to_commit()
        ground.seen.append(hand.cancelled)

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ground.orders() == []
    job = await ground.get(job_id)
    assert (job.status, job.leased_by) == (Status.RUNNING, "another")


async def test_twice(ground: Ground) -> None:
    """A second transaction cannot complete what a first one has: its writes do not happen."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await own.write(1)
            await hand.complete("first", tx=own.tx)
            await own.commit()
        async with hand.connection() as own:
            await own.write(2)
            with pytest.raises(LeaseLost) as caught:
                await hand.complete("second", tx=own.tx)
            assert caught.value.reason == "completed_here"
            await own.try_to_commit()

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "first"
    assert ground.orders() == [1]


async def test_twice_in_one_transaction(ground: Ground) -> None:
    """The error says that it was this handler; neither the completion nor the writes happen."""

    async def work(hand: Hand) -> Any:
        if ground.seen:
            return
        async with hand.connection() as own:
            await own.write(1)
            await hand.complete("first", tx=own.tx)
            with pytest.raises(LeaseLost, match="this handler has completed it already") as caught:
                await hand.complete("second", tx=own.tx)
            ground.seen.append(caught.value.reason)
            await own.rollback()

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ground.seen == ["completed_here"]
    assert (await ground.get(job_id)).status is not Status.COMPLETED
    assert ground.orders() == []


async def test_again_after_a_rollback(ground: Ground) -> None:
    """The first transaction was rolled back, so a second one may complete the job."""

    async def work(hand: Hand) -> Any:
        for number in (1, 2):
            async with hand.connection() as own:
                await own.write(number)
                await hand.complete(number, tx=own.tx)
                await (own.rollback() if number == 1 else own.commit())

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == 2
    assert ground.orders() == [2]


async def test_with_a_continuation(ground: Ground) -> None:
    """The next job exists if and only if the writes do."""

    async def ship(hand: Hand, number: int) -> str:
        return f"shipped {number}"

    shipping = ground.job(ship)

    async def order(hand: Hand, number: int) -> Any:
        async with hand.connection() as own:
            await own.write(number)
            output = await hand.continue_with(shipping.call(number=number), tx=own.tx)
            await (own.commit() if number == 1 else own.rollback())
            return output

    ordering = ground.job(order, retry=ONE)
    good, bad = [await ground.put(ordering, number=number) for number in (1, 2)]
    assert await adrain(ground.app) == Drained(completed=2, dead=1)
    assert (await ground.client.get_chain(good)).output == "shipped 1"
    assert (await ground.get(bad)).status is Status.DEAD_LETTER
    assert ground.orders() == [1]
    assert ground.sql("SELECT count(*) FROM {job}") == [(3,)]


async def test_after_a_step(ground: Ground) -> None:
    """Step, writes and completion in one transaction."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            value = await hand.step_tx(own.tx, "one", lambda: 5)
            await own.write(value)
            await hand.complete(value, tx=own.tx)
            await own.commit()

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == 5
    assert ground.orders() == [5]
    assert ground.sql("SELECT name FROM {job_step}") == [("one",)]


async def test_on_a_transaction_of_the_contexts_own(ground: Ground) -> None:
    """Nothing but the context is needed."""

    async def work(hand: Hand) -> Any:
        async with hand.transaction() as own:
            await own.write(1)
            await hand.complete("own", tx=own.tx)

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "own"
    assert ground.orders() == [1]


async def test_an_output_of_the_wrong_type_sends_nothing(ground: Ground) -> None:
    """Refused before the transaction is touched, which stays usable."""

    async def work(hand: Hand) -> int:
        async with hand.connection() as own:
            await own.write(1)
            with pytest.raises(ValueError, match="int"):
                await hand.complete("text", tx=own.tx)
            await own.commit()
        return 3

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == 3
    assert ground.orders() == [1]


async def test_dependants_are_told_in_the_same_transaction(ground: Ground) -> None:
    """Who waits for the chain runs after the commit, and not after a rollback."""

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await hand.complete("x", tx=own.tx)
            await (own.commit() if hand.attempt > 1 else own.rollback())

    async def after(hand: Hand) -> Any:
        return hand.blockers[0].output

    chain = await ground.client.enqueue(ground.job(work, retry=SOON).call())
    dependant = await ground.client.enqueue(ground.job(after).call(), blockers=[chain])
    await adrain(ground.app)
    assert (await ground.get(dependant.id)).status is Status.BLOCKED
    assert ground.clock is not None
    ground.clock.advance(1)
    await adrain(ground.app)
    assert (await ground.get(dependant.id)).output == "x"


async def test_a_handler_that_goes_on_after_the_commit_is_left_alone(live_ground: Ground) -> None:
    """Renewals find the job completed by its own handler: no reason to stop it."""
    ground = live_ground

    async def work(hand: Hand) -> Any:
        async with hand.connection() as own:
            await hand.complete(tx=own.tx)
            await own.commit()
        for _ in range(100):
            await hand.pause(0.01)
            if hand.cancelled is not None:
                break
        ground.seen.append(hand.cancelled)

    await ground.put(ground.job(work))
    async with ground.app.worker(config=BRISK):
        await ground.until(lambda: ground.seen)
    assert ground.seen == [None]


async def test_continue_with(ground: Ground) -> None:
    """Returned, it is written with the completion; chain, index and type are right."""

    async def second(hand: Hand, number: int) -> int:
        return number + 1

    seconds = ground.job(second)

    async def first(hand: Hand, number: int) -> int:
        if number > 10:
            return number
        output: int = await hand.continue_with(seconds.call(number=number * 2))
        return output

    firsts = ground.job(first)
    job_id = await ground.put(firsts, number=5)
    alone = await ground.put(firsts, number=50)
    assert await adrain(ground.app) == Drained(completed=3)
    chain = await ground.client.get_chain(job_id)
    assert (chain.status, chain.output) == (Status.COMPLETED, 11)
    parent = await ground.get(job_id)
    assert (parent.status, parent.output) == (Status.COMPLETED, None)
    assert (await ground.client.get_chain(alone)).output == 50
    rows = ground.sql("SELECT type_name, chain_type_name, chain_index FROM {job} ORDER BY seq")
    assert rows == [("first", "first", 0), ("first", "first", 0), ("second", "first", 1)]


async def test_continue_with_must_be_returned(ground: Ground) -> None:
    """Otherwise the chain would end where somebody wanted it to go on."""

    async def second(hand: Hand) -> None: ...

    seconds = ground.job(second)

    async def first(hand: Hand) -> None:
        await hand.continue_with(seconds.call())

    job_id = await ground.put(ground.job(first, retry=ONE))
    assert await adrain(ground.app) == Drained(dead=1)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "ContinuationNotReturned"
    assert ground.sql("SELECT count(*) FROM {job}") == [(1,)]


async def test_continue_with_blockers(ground: Ground) -> None:
    """The next job of a chain may wait for other chains."""

    async def part(hand: Hand) -> int:
        return 9

    parts = ground.job(part)

    async def second(hand: Hand) -> int:
        return int(hand.blockers[0].output)

    seconds = ground.job(second)

    async def first(hand: Hand) -> Any:
        return await hand.continue_with(seconds.call().options(blockers=[ground.seen[0]]))

    ground.seen.append(await ground.client.enqueue(parts.call(), delay=60))
    job_id = await ground.put(ground.job(first))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.clock is not None
    ground.clock.advance(60)
    assert await adrain(ground.app) == Drained(completed=2)
    assert (await ground.client.get_chain(job_id)).output == 9


async def test_a_refused_continuation_leaves_the_job_to_the_handler(ground: Ground) -> None:
    """Whoever catches the refusal goes on, commits what he wrote, and ends the job otherwise."""

    async def second(hand: Hand) -> None: ...

    seconds = ground.job(second)

    async def first(hand: Hand) -> Any:
        async with hand.transaction() as own:
            await own.write(1)
            with pytest.raises(ChainNotFound):
                await hand.continue_with(
                    seconds.call().options(blockers=["0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"]), tx=own.tx
                )
        return 77

    job_id = await ground.put(ground.job(first))
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == 77
    assert ground.orders() == [1]


async def test_a_continuation_that_cannot_be_written_is_a_failure(ground: Ground) -> None:
    """It waits for a chain that is not there: the attempt has failed, and says so."""

    async def second(hand: Hand) -> None: ...

    seconds = ground.job(second)

    async def first(hand: Hand) -> Any:
        nowhere = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"
        return await hand.continue_with(seconds.call().options(blockers=[nowhere]))

    job_id = await ground.put(
        ground.job(first),
    )
    assert await adrain(ground.app) == Drained(retried=1)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "ChainNotFound"


async def test_what_cannot_be_written_follows_the_policy_of_its_type(ground: Ground) -> None:
    """Its attempts, and its delays, which grow: a type with two attempts is a dead letter after two."""
    assert ground.clock is not None

    async def second(hand: Hand) -> None: ...

    seconds = ground.job(second)

    async def first(hand: Hand) -> Any:
        nowhere = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"
        return await hand.continue_with(seconds.call().options(blockers=[nowhere]))

    policy = Retry(max_attempts=3, initial=timedelta(minutes=7), factor=3, jitter=0)
    job_id = await ground.put(ground.job(first, retry=policy))
    for minutes in (7, 21):
        assert await adrain(ground.app) == Drained(retried=1)
        assert (await ground.get(job_id)).ready_at == ground.clock.now + timedelta(minutes=minutes)
        ground.clock.advance(timedelta(minutes=minutes))
    assert await adrain(ground.app) == Drained(dead=1)
    job = await ground.get(job_id)
    assert (job.status, job.attempt) == (Status.DEAD_LETTER, 3)
    assert job.last_attempt_error is not None
    assert "could not be stored" in (job.last_attempt_error.traceback or "")


async def test_what_cannot_be_written_is_repeated_only_if_the_policy_says_so(ground: Ground) -> None:
    """A type that repeats nothing of the kind, and one with two attempts."""
    assert ground.clock is not None

    async def second(hand: Hand) -> None: ...

    seconds = ground.job(second)

    async def twice(hand: Hand) -> Any:
        nowhere = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"
        return await hand.continue_with(seconds.call().options(blockers=[nowhere]))

    async def never(hand: Hand) -> Any:
        nowhere = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"
        return await hand.continue_with(seconds.call().options(blockers=[nowhere]))

    await ground.put(ground.job(twice, retry=Retry(max_attempts=2)))
    await ground.put(ground.job(never, retry=Retry(never=(LookupError,))))
    assert await adrain(ground.app) == Drained(retried=1, dead=1)
    ground.clock.advance(timedelta(minutes=1))
    assert await adrain(ground.app) == Drained(dead=1)
