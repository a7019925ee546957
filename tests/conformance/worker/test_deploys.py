"""Old and new code side by side: unknown types, changed inputs, renamed types, types handled elsewhere, expiry."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NotRequired, TypedDict

import pydantic
import pytest

from holdfast import App, JobHandle, Retry, Status, SyncContext
from holdfast.errors import DuplicateJobType, InvalidJobType, InvalidOption, InvalidPayload
from holdfast.testing import Drained, adrain
from tests.conformance.worker.conftest import BRISK, Ground, Hand


async def drain_other(ground: Ground, define: Any) -> Drained:
    """By a worker of other code on the same database."""
    other = App(ground.url, clock=ground.clock, notify=False)
    define(other)
    drained = await adrain(other, queues=["default"])
    other.close()
    return drained


async def test_an_unknown_type_waits_for_a_worker_that_knows_it(ground: Ground) -> None:
    """Put back with a growing delay and at no cost, until one comes."""

    async def work(hand: Hand) -> str:
        return "done"

    job_id = await ground.put(ground.job(work))
    assert ground.clock is not None
    for _ in range(3):
        assert await drain_other(ground, lambda _: None) == Drained(refused=1)
        ground.clock.advance(300)
    job = await ground.get(job_id)
    assert (job.status, job.attempt) == (Status.PENDING, 0)
    assert await adrain(ground.app) == Drained(completed=1)


async def test_an_unknown_type_is_a_dead_letter_after_an_hour(ground: Ground) -> None:
    """Nobody knows it, so somebody must look."""

    async def work(hand: Hand) -> None: ...

    job_id = await ground.put(ground.job(work))
    assert ground.clock is not None
    assert await drain_other(ground, lambda _: None) == Drained(refused=1)
    ground.clock.advance(timedelta(hours=1))
    assert await drain_other(ground, lambda _: None) == Drained(dead=1)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert (job.status, job.last_attempt_error.type) == (Status.DEAD_LETTER, "UnknownJobType")


async def test_an_input_that_no_longer_fits_waits_too(ground: Ground, kind: str) -> None:
    """The handler is not called; the code that enqueued it may still be there."""

    async def work(hand: Hand, number: int) -> int:
        return number

    job_id = await ground.put(ground.job(work), number=3)

    def define(other: App) -> None:
        if kind == "async":

            async def renamed(count: int) -> None:
                raise AssertionError("called with the wrong input")
        else:

            def renamed(count: int) -> None:  # type: ignore[misc]  # the other kind
                raise AssertionError("called with the wrong input")

        other.job(name="work")(renamed)

    assert await drain_other(ground, define) == Drained(refused=1)
    job = await ground.get(job_id)
    assert job.last_attempt_error is not None
    assert (job.status, job.attempt, job.last_attempt_error.type) == (Status.PENDING, 0, "InvalidPayload")
    assert ground.clock is not None
    ground.clock.advance(60)
    assert await adrain(ground.app) == Drained(completed=1)


async def test_refused_jobs_come_back_one_after_the_other(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are refused at once, those that the worker can run are not crowded out when they are due again."""
    monkeypatch.setattr("holdfast.worker.strangers._BACK_PER_SECOND", 10)

    async def work(hand: Hand, number: int) -> None: ...

    job = ground.job(work)
    await ground.client.enqueue_many([job.call(number=number) for number in range(60)])

    def define(other: App) -> None:
        async def renamed(count: int) -> None: ...

        other.job(name="work")(renamed)

    assert await drain_other(ground, define) == Drained(refused=60)
    assert ground.clock is not None
    page = await ground.client.list_jobs(limit=60)
    waits = sorted((one.ready_at - ground.clock()).total_seconds() for one in page.items)
    assert waits[0] == 1
    assert waits[-1] > 3


async def test_a_bad_payload_inside_a_handler_is_a_failure(ground: Ground) -> None:
    """Only the job's own input is a matter of deploys."""

    async def other(hand: Hand, number: int) -> None: ...

    others = ground.job(other)

    async def work(hand: Hand) -> None:
        others.call(number="x")

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(retried=1)
    assert (await ground.get(job_id)).attempt == 1


async def test_aliases(ground: Ground) -> None:
    """Jobs stored under an earlier name run under the new one; keys of `once` are the same."""

    async def send_mail(hand: Hand, number: int) -> str:
        async with hand.connection() as own:
            is_first = await hand.once("key", tx=own.tx)
            await own.commit()
        return f"{hand.job.type_name} {number} {is_first}"

    old = App(ground.url, clock=ground.clock, notify=False)
    handle = ground.job(send_mail, aliases=["mail", "post"])

    def mail(number: int) -> str:
        raise AssertionError("the old code is gone")

    stored = await ground.client.enqueue(old.job()(mail).call(number=1))
    assert await adrain(ground.app) == Drained(completed=1)
    fresh = await ground.client.enqueue(ground.app.call("post", number=2))
    assert await adrain(ground.app) == Drained(completed=1)
    old.close()
    assert (await ground.get(stored.id)).output == "mail 1 True"
    job = await ground.get(fresh.id)
    assert (job.type_name, job.output) == ("send_mail", "send_mail 2 False")
    assert handle.name == "send_mail"
    assert list(ground.app.job_types) == ["send_mail"]


async def test_keys_of_once_hold_under_every_name(ground: Ground) -> None:
    """Old code did it, and failed after; new code, which has renamed the type, gets the job: it is done."""

    async def charge(hand: Hand) -> str:
        async with hand.transaction() as own:
            return str(await hand.once("order:1", tx=own.tx))

    def define(other: App) -> None:
        @other.job(name="pay", retry=Retry(initial=1, jitter=0))
        def pay(ctx: SyncContext) -> str:
            with ctx.transaction() as tx:
                ground.seen.append(ctx.once("order:1", tx=tx))
            raise RuntimeError("the deploy comes")

    new = ground.job(charge, aliases=["pay"])
    job_id = str((await ground.client.enqueue(ground.app.call("pay"))).id)
    ground.sql("UPDATE {job} SET type_name = 'pay', chain_type_name = 'pay'")
    assert await drain_other(ground, define) == Drained(retried=1)
    assert ground.clock is not None
    ground.clock.advance(1)
    fresh = await ground.put(new)
    assert await adrain(ground.app) == Drained(completed=2)
    assert ground.seen == [True]
    assert [(await ground.get(each)).output for each in (job_id, fresh)] == ["False", "False"]


def test_aliases_are_checked() -> None:
    """A name that another type has, or twice the same, is a mistake."""
    app = App("sqlite:///never-opened.db")

    @app.job()
    def first() -> None: ...

    for aliases in (["second"], ["x", "x"], "text", [""]):
        with pytest.raises(InvalidOption, match="aliases"):

            @app.job(aliases=aliases)
            def second() -> None: ...

    with pytest.raises(DuplicateJobType, match="first"):

        @app.job(aliases=["first"])
        def third() -> None: ...

    assert list(app.job_types) == ["first"]


@dataclass
class Charge:
    order_id: int
    note: str = ""


class ChargeDict(TypedDict):
    order_id: int
    note: NotRequired[str]


class ChargeModel(pydantic.BaseModel):
    order_id: int
    note: str = ""


@pytest.mark.parametrize("shape", [Charge, ChargeDict, ChargeModel], ids=lambda shape: shape.__name__)
async def test_declared_types(ground: Ground, shape: type) -> None:
    """Enqueued here with checked arguments, handled by another app under the same name."""
    here = App(ground.url, clock=ground.clock, notify=False)
    charge: JobHandle[..., str] = here.declare("charge", input=shape, output=str, queue="billing")
    with pytest.raises(InvalidPayload, match="order_id"):
        charge.call(note="x")
    with pytest.raises(InvalidPayload):
        charge.call(order_id="seven")
    async with here.async_client() as client:
        chain = await client.enqueue(charge.call(order_id=7))
    # Nobody here handles it, so nobody here serves its queue.
    assert await adrain(here) == Drained()
    here.close()

    async def handler(hand: Hand, order_id: int) -> str:
        return f"charged {order_id}"

    handler.__name__ = "charge"
    ground.job(handler, queue="billing")
    assert await adrain(ground.app) == Drained(completed=1)
    job = await ground.get(chain.id)
    assert (job.output, job.queue) == ("charged 7", "billing")


def test_declarations_are_checked() -> None:
    """What cannot be the parameters of anything; and what is there already."""
    app = App("sqlite:///never-opened.db")

    @app.job()
    def first() -> None: ...

    for wrong in (int, "text", 7):
        with pytest.raises(InvalidJobType):
            app.declare("second", input=wrong)
    with pytest.raises(DuplicateJobType):
        app.declare("first")
    declared: JobHandle[..., Any] = app.declare("third", input={"a": int})
    assert declared.call(a=1).payload == b'{"a":1}'
    with pytest.raises(TypeError, match="handled elsewhere"):
        declared.fn(a=1)


async def test_expired_jobs_are_cancelled_by_a_worker(live_ground: Ground) -> None:
    """Not started in time: cancelled, and those who wait for it are told."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)

    async def after(hand: Hand) -> Any:
        return hand.blockers[0].error.type

    job = ground.job(work)
    late = await ground.client.enqueue(job.call(number=1), expires=0.05)
    dependant = await ground.client.enqueue(ground.job(after).call(), blockers=[late], on_blocker_failure="run")
    await asyncio.sleep(0.1)
    async with ground.app.worker(config=BRISK):
        await ground.client.enqueue(job.call(number=2), expires=60)
        found = await ground.until_status(late.id, "cancelled")
        assert (await ground.until_status(dependant.id, "completed")).output == "Expired"
        await ground.until(lambda: ground.seen)
    assert ground.seen == [2]
    assert found.attempt == 0
