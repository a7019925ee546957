"""Steps, progress, logs, keys of handlers, blockers and transactions, as handlers use them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Blocker, Cancellation, Retry, Status
from holdfast.errors import DuplicateStep, LeaseLost
from holdfast.operations.write_logs import list_logs
from holdfast.testing import Drained, adrain
from tests.conformance.worker.conftest import BRISK, Ground, Hand, settled

SOON = Retry(max_attempts=5, initial=1, factor=1, jitter=0)


@dataclass
class Receipt:
    number: int
    lines: tuple[str, ...]


async def test_a_saved_step_is_not_run_again(ground: Ground) -> None:
    """Later attempts get its result, in the type that it had on the first run."""
    calls: list[str] = []

    def charge(amount: int, *, currency: str) -> Receipt:
        calls.append("charge")
        return Receipt(amount, (currency, "ä"))

    def plain() -> Any:
        calls.append("plain")
        return (1, {"a": None})

    async def pay(hand: Hand) -> str:
        receipt = await hand.step("charge", charge, 7, currency="EUR")
        values = await hand.step("plain", plain)
        ground.seen.append((receipt, values))
        if hand.attempt < 3:
            raise RuntimeError("after the steps")
        return "paid"

    job_id = await ground.put(ground.job(pay, retry=SOON))
    assert ground.clock is not None
    for _ in range(3):
        await adrain(ground.app)
        ground.clock.advance(1)
    assert (await ground.get(job_id)).output == "paid"
    assert calls == ["charge", "plain"]
    assert ground.seen == [(Receipt(7, ("EUR", "ä")), [1, {"a": None}])] * 3
    assert ground.sql("SELECT step FROM {job}") == [("plain",)]


async def test_a_failing_step_is_tried_again(ground: Ground) -> None:
    """By the job's policy; those before it are not."""
    calls: list[str] = []

    def first() -> None:
        calls.append("first")

    def second() -> str:
        calls.append("second")
        if len(calls) < 4:
            raise ConnectionError("no")
        return "yes"

    async def work(hand: Hand) -> Any:
        await hand.step("first", first)
        return await hand.step("second", second)

    job_id = await ground.put(ground.job(work, retry=SOON))
    assert ground.clock is not None
    for _ in range(3):
        await adrain(ground.app)
        ground.clock.advance(1)
    assert calls == ["first", "second", "second", "second"]
    assert (await ground.get(job_id)).output == "yes"


async def test_a_name_used_twice_is_an_error(ground: Ground) -> None:
    """It could not be told apart from itself."""

    async def work(hand: Hand) -> None:
        await hand.step("mail", lambda: 1)
        await hand.step("mail", lambda: 2)

    job_id = await ground.put(ground.job(work, retry=Retry(max_attempts=1)))
    await adrain(ground.app)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "DuplicateStep"
    assert "'mail'" in job.last_attempt_error.message


async def test_a_result_that_cannot_be_kept_fails_the_step(ground: Ground) -> None:
    """On the first run, not on the second."""

    async def work(hand: Hand) -> None:
        await hand.step("odd", object)

    job_id = await ground.put(ground.job(work, retry=Retry(max_attempts=1)))
    await adrain(ground.app)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "InvalidPayload"


async def test_a_stale_holder_cannot_save(ground: Ground) -> None:
    """Somebody else has the job: LeaseLost, and the handler sees why it should stop."""

    async def work(hand: Hand) -> None:
        if hand.lease_generation > 1:
            return
        ground.sql("UPDATE {job} SET lease_generation = lease_generation + 1, leased_by = 'another'")
        for write, *arguments in ((hand.step, "late", int), (hand.progress, 1)):
            with pytest.raises(LeaseLost) as caught:
                await write(*arguments)
            assert caught.value.reason == "lease_lost"
        ground.seen.append(hand.cancelled)

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ground.seen == [Cancellation.LEASE_LOST]
    assert ground.sql("SELECT count(*) FROM {job_step}") == [(0,)]
    job = await ground.get(job_id)
    assert (job.status, job.leased_by, job.lease_generation) == (Status.RUNNING, "another", 2)


async def test_a_step_in_the_handlers_transaction(ground: Ground) -> None:
    """Saved with what was written, or not at all."""
    calls: list[int] = []

    async def work(hand: Hand) -> None:
        async with hand.connection() as own:

            def charge() -> int:
                calls.append(hand.attempt)
                return 7

            await own.write(hand.attempt)
            assert await hand.step_tx(own.tx, "charge", charge) == 7
            if hand.attempt == 1:
                await own.rollback()
                raise RuntimeError("rolled back")
            await own.commit()
            if hand.attempt == 2:
                raise RuntimeError("after the commit")

    job_id = await ground.put(ground.job(work, retry=SOON))
    assert ground.clock is not None
    for _ in range(3):
        await adrain(ground.app)
        ground.clock.advance(1)
    assert (await ground.get(job_id)).status is Status.COMPLETED
    assert calls == [1, 2]
    assert ground.orders() == [2, 3]


@pytest.mark.parametrize("own_kind", ["connection", "transaction"])
async def test_a_transaction_that_was_rolled_back_may_be_repeated(ground: Ground, own_kind: str) -> None:
    """With the same steps: what was not committed has not happened, and its names are free."""
    calls: list[int] = []

    async def work(hand: Hand) -> None:
        for number in (1, 2, 3):
            with suppress(ZeroDivisionError):
                async with getattr(hand, own_kind)() as own:

                    def charge(number: int = number) -> int:
                        calls.append(number)
                        if number == 1:
                            raise ZeroDivisionError
                        return number

                    assert await hand.step_tx(own.tx, "charge", charge) == number
                    await own.write(number)
                    if number == 2:
                        raise ZeroDivisionError
                    if own_kind == "connection":
                        await own.commit()

    await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert calls == [1, 2, 3]
    assert ground.orders() == [3]
    ((result,),) = ground.sql("SELECT CAST(result AS text) FROM {job_step}")
    assert result == "3"


@pytest.mark.parametrize("is_same", [True, False])
async def test_a_name_used_twice_in_transactions_is_an_error(ground: Ground, is_same: bool) -> None:
    """In one, or in a second one after the commit of the first; or of an earlier attempt's."""

    async def work(hand: Hand) -> None:
        async with hand.connection() as own:
            await hand.step_tx(own.tx, "charge", lambda: 1)
            if not is_same:
                await own.commit()
            with pytest.raises(DuplicateStep):
                await hand.step_tx(own.tx, "charge", lambda: 2)
            with pytest.raises(DuplicateStep):
                await hand.step("charge", lambda: 2)
            await own.commit()
        if hand.attempt == 1:
            raise RuntimeError("once more")

    job_id = await ground.put(ground.job(work, retry=SOON))
    assert ground.clock is not None
    for _ in range(2):
        await adrain(ground.app)
        ground.clock.advance(1)
    assert (await ground.get(job_id)).status is Status.COMPLETED


async def test_a_stale_step_spoils_the_transaction(ground: Ground) -> None:
    """What was to be tied to it cannot be committed, even if the handler swallows the error."""

    async def work(hand: Hand) -> None:
        if hand.lease_generation > 1:
            return
        ground.sql("UPDATE {job} SET lease_generation = lease_generation + 1, leased_by = 'another'")
        async with hand.connection() as own:
            await own.write(1)
            with pytest.raises(LeaseLost):
                await hand.step_tx(own.tx, "late", lambda: 1)
            await own.try_to_commit()
        async with hand.connection() as own:
            await own.write(2)
            with pytest.raises(LeaseLost):
                await hand.once("key", tx=own.tx)
            await own.try_to_commit()

    await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ground.orders() == []
    assert ground.sql("SELECT count(*) FROM {processed}") == [(0,)]


async def test_progress_and_log(ground: Ground) -> None:
    """Kept with the job, in order."""

    async def work(hand: Hand) -> None:
        await hand.progress({"done": 1})
        await hand.progress({"done": 2})
        hand.log("began", order=7)
        hand.log("odd\x00 text", level="warning")

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    ((progress,),) = ground.sql("SELECT CAST(progress AS text) FROM {job}")
    assert progress.replace(" ", "") == '{"done":2}'
    store = ground.app.store.asynchronous()
    lines = await store.run(lambda: list_logs(job_id), read_only=True)
    await store.close()
    assert [(line.level, line.message, line.fields) for line in lines] == [
        ("info", "began", {"order": 7}),
        ("warning", "odd\\x00 text", None),
    ]


async def test_progress_beside_a_transaction(ground: Ground) -> None:
    """With tx= it is part of it."""

    async def work(hand: Hand) -> None:
        async with hand.connection() as own:
            await own.write(1)
            await hand.progress("half", tx=own.tx)
            await own.commit()

    await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.orders() == [1]


async def test_once(ground: Ground) -> None:
    """True for the first transaction that commits; a rolled back one never was."""

    async def work(hand: Hand, number: int) -> None:
        async with hand.connection() as own:
            if await hand.once("order:1", tx=own.tx):
                await own.write(number)
            if number == 1:
                await own.rollback()
            else:
                await own.commit()

    job = ground.job(work)
    for number in (1, 2, 3):
        await ground.put(job, number=number)
        await adrain(ground.app)
    assert ground.orders() == [2]


async def test_blockers(ground: Ground) -> None:
    """In the order given: status, output and error."""

    async def part(hand: Hand, number: int) -> int:
        if number == 2:
            raise ValueError("odd")
        return number * 10

    async def whole(hand: Hand) -> int:
        ground.seen.append(hand.blockers)
        return sum(blocker.output or 0 for blocker in hand.blockers)

    parts = ground.job(part, retry=Retry(max_attempts=1))
    chains = [await ground.client.enqueue(parts.call(number=number)) for number in (1, 2, 3)]
    order = [chains[2], chains[0], chains[1]]
    chain = await ground.client.enqueue(ground.job(whole).call(), blockers=order, on_blocker_failure="run")
    await adrain(ground.app)
    assert (await ground.get(chain.id)).output == 40
    (found,) = ground.seen
    assert [(one.chain_id, one.status, one.output) for one in found] == [
        (chains[2].id, Status.COMPLETED, 30),
        (chains[0].id, Status.COMPLETED, 10),
        (chains[1].id, Status.DEAD_LETTER, None),
    ]
    assert isinstance(found[0], Blocker)
    assert found[2].error.type == "ValueError"


async def test_no_blockers(ground: Ground) -> None:
    """A plain job has none."""

    async def work(hand: Hand) -> None:
        ground.seen.append(hand.blockers)

    await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ground.seen == [[]]


async def test_a_transaction_of_the_contexts_own(ground: Ground) -> None:
    """Committed at the end of the block, rolled back if it raises; a step in it is part of it, and may fail alone."""

    async def work(hand: Hand) -> None:
        with suppress(ZeroDivisionError):
            async with hand.transaction() as own:
                await own.write(1)
                raise ZeroDivisionError
        async with hand.transaction() as own:
            await own.write(2)

            def fails() -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await hand.step_tx(own.tx, "fails", fails)
            await hand.step_tx(own.tx, "works", lambda: 1)

    await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.orders() == [2]
    assert ground.sql("SELECT name FROM {job_step}") == [("works",)]


async def test_a_failing_step_in_a_transaction_of_the_contexts_own_is_undone(ground: Ground) -> None:
    """What the step wrote goes, what was written before it stays."""

    async def work(hand: Hand) -> None:
        async with hand.transaction() as own:
            await own.write(1)

            if ground.kind == "async":

                async def spoil() -> None:
                    await own.tx.execute("INSERT INTO orders (id) VALUES (2)")
                    raise ZeroDivisionError
            else:

                def spoil() -> None:  # type: ignore[misc]  # the other kind
                    own.tx.execute("INSERT INTO orders (id) VALUES (2)")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await hand.step_tx(own.tx, "spoil", spoil)
            rows = await settled(own.tx.execute("SELECT id FROM orders"))
            ground.seen.append([tuple(row) for row in rows])

    await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert ground.seen == [[(1,)]]
    assert ground.orders() == [1]


async def test_a_stale_holder_cannot_commit_a_transaction_of_the_contexts_own(ground: Ground) -> None:
    """The job must still be the handler's when the block ends."""

    async def work(hand: Hand) -> None:
        if hand.lease_generation > 1:
            return
        ground.sql("UPDATE {job} SET lease_generation = lease_generation + 1, leased_by = 'another'")
        with pytest.raises(LeaseLost):
            async with hand.transaction() as own:
                await own.write(1)
        ground.seen.append("refused")

    await ground.put(ground.job(work))
    await adrain(ground.app)
    assert ground.seen == ["refused"]
    assert ground.orders() == []


async def test_a_client_of_the_handlers_kind(ground: Ground) -> None:
    """What a handler enqueues is a chain of its own."""

    async def child(hand: Hand) -> None: ...

    children = ground.job(child)

    async def parent(hand: Hand) -> str:
        chain = await settled(hand.client.enqueue(children.call()))
        return str(chain.id)

    job_id = await ground.put(ground.job(parent))
    assert (await adrain(ground.app)).completed == 2
    assert (await ground.get((await ground.get(job_id)).output)).chain_index == 0


async def test_a_locked_row_holds_up_a_step_for_a_while_only(
    live_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler's own open transaction has the row: an error that says so, instead of waiting for ever."""
    monkeypatch.setattr("holdfast.worker.waits._PATIENCE_SECONDS", 0.2)
    ground = live_ground

    async def work(hand: Hand) -> str:
        async with hand.connection() as own:
            await hand.step_tx(own.tx, "one", lambda: 1)
            try:
                await hand.step("two", lambda: 2)
            except Exception as error:  # noqa: BLE001 - which one depends on the database
                return f"{type(error).__name__}: {error}"
        return "no error"

    job_id = await ground.put(ground.job(work))
    # On SQLite nobody else can write meanwhile, heartbeats included.
    async with ground.app.worker(config=replace(BRISK, dead_after=timedelta(seconds=60))):
        job = await ground.until_status(job_id, "completed")
    assert "tx=" in job.output
    assert timedelta(milliseconds=job.duration_ms or 0) < timedelta(seconds=15)
