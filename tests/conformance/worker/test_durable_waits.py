"""Handlers that sleep, wait for signals and for their children, without a slot."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Batch, Context, Dedup, JobHandle, Retry, Status, Suspended
from holdfast.errors import ChildFailed, InvalidOption, SignalTimeout
from holdfast.testing import Drained, adrain, temporary_app
from tests.conformance.worker.conftest import BRISK, Ground, Hand

ONCE = Retry(max_attempts=1)
ALONE = replace(BRISK, concurrency=1)


@dataclass
class Verdict:
    by: str
    is_good: bool


def doubling(ground: Ground, **options: Any) -> JobHandle[..., Any]:
    async def double(hand: Hand, number: int) -> int:
        ground.seen.append(number)
        if number < 0:
            raise ValueError(f"{number} is below zero")
        return 2 * number

    return ground.job(double, retry=ONCE, **options)


# --- sleep --------------------------------------------------------------------------------------------------------


async def test_sleeps_and_goes_on_through_its_steps(ground: Ground) -> None:
    """What is inside steps is done once; the attempt is not counted, and there is nothing in the history."""
    done: Counter[str] = Counter()

    async def trial(hand: Hand) -> str:
        done["runs"] += 1
        await hand.step("welcome", lambda: done.update(["welcome"]))
        await hand.sleep("trial", timedelta(days=14))
        await hand.step("bill", lambda: done.update(["bill"]))
        await hand.sleep("grace", 60)
        return f"attempt {hand.attempt}"

    job_id = await ground.put(ground.job(trial, retry=ONCE))
    assert ground.clock is not None
    assert await adrain(ground.app) == Drained(suspended=1)
    job = await ground.get(job_id)
    assert (job.status, job.attempt, job.ready_at) == (Status.PENDING, 0, ground.clock.now + timedelta(days=14))
    assert await adrain(ground.app) == Drained()
    ground.clock.advance(timedelta(days=14))
    assert await adrain(ground.app) == Drained(suspended=1)
    ground.clock.advance(60)
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "attempt 1"
    assert done == {"runs": 3, "welcome": 1, "bill": 1}
    assert await ground.client.list_attempts(job_id) == []


async def test_the_end_of_a_sleep_stays(ground: Ground) -> None:
    """Whatever later code says, and however the job comes there; a failure after it does not begin it anew."""
    lengths = iter([60.0, 3600.0, 3600.0])

    async def work(hand: Hand) -> str:
        await hand.sleep("nap", next(lengths))
        if hand.attempt == 1:
            raise RuntimeError("after the nap")
        return "rested"

    job_id = await ground.put(ground.job(work, retry=Retry(max_attempts=2, initial=1, jitter=0)))
    assert ground.clock is not None
    await adrain(ground.app)
    ground.clock.advance(60)
    assert await adrain(ground.app) == Drained(retried=1)
    ground.clock.advance(1)
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "rested"


async def test_a_sleep_can_be_cut_short(ground: Ground) -> None:
    """Rescheduled, the job goes on when it runs."""

    async def work(hand: Hand) -> str:
        await hand.sleep("long", timedelta(days=300))
        return "awake"

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    await ground.client.reschedule(job_id, delay=0)
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "awake"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "None"),
        ({"delay": 1, "until": datetime(2030, 1, 1, tzinfo=UTC)}, "1"),
        ({"delay": -1}, "-1"),
        ({"delay": float("nan")}, "nan"),
        ({"delay": float("inf")}, "inf"),
        ({"delay": 1e12}, "1000000000000.0"),
        ({"delay": timedelta(days=-1)}, "days=-1"),
        ({"delay": "soon"}, "'soon'"),
        ({"delay": True}, "True"),
        ({"until": datetime(2030, 1, 1)}, "2030"),  # noqa: DTZ001 - the point
        ({"until": "2030-01-01"}, "'2030-01-01'"),
    ],
)
async def test_lengths_that_are_none(ground: Ground, arguments: dict[str, Any], named: str) -> None:
    """A typed error that names the value; nothing is saved."""

    async def work(hand: Hand) -> None:
        with pytest.raises(InvalidOption) as caught:
            await hand.sleep("nap", **arguments)
        ground.seen.append(str(caught.value))

    job_id = await ground.put(ground.job(work))
    assert await adrain(ground.app) == Drained(completed=1)
    assert named in ground.seen[0]
    assert await ground.client.list_steps(job_id) == []


async def test_names_that_are_used_twice(ground: Ground) -> None:
    """By whatever two of them: a typed error that says so."""
    double = doubling(ground)

    async def work(hand: Hand, which: int) -> None:
        await hand.step("same", int)
        if which == 1:
            await hand.sleep("same", 1)
        if which == 2:
            await hand.wait_signal("same")
        await hand.enqueue("same", double.call(number=1))

    handle = ground.job(work, retry=ONCE)
    for which in (1, 2, 3):
        job_id = await ground.put(handle, which=which)
        assert await adrain(ground.app) == Drained(dead=1)
        error = (await ground.get(job_id)).last_attempt_error
        assert error is not None
        assert (error.type, "'same'" in error.message) == ("DuplicateStep", True)
    assert ground.seen == []


async def test_names_that_mean_something_else_now(ground: Ground) -> None:
    """Code that has changed since the job fell asleep."""

    async def work(hand: Hand) -> None:
        if hand.lease_generation == 1:
            await hand.sleep("pause", 1)
        await hand.step("pause", int)

    job_id = await ground.put(ground.job(work, retry=ONCE))
    assert ground.clock is not None
    await adrain(ground.app)
    ground.clock.advance(1)
    assert await adrain(ground.app) == Drained(dead=1)
    error = (await ground.get(job_id)).last_attempt_error
    assert error is not None
    assert error.type == "StepChanged"
    assert "'pause' was saved as a sleep" in error.message


async def test_what_ends_the_run_is_no_exception_of_the_handler(ground: Ground) -> None:
    """`except Exception` lets it pass; who catches everything has failed, if he does not raise it again."""

    async def careful(hand: Hand) -> str:
        try:
            await hand.sleep("nap", 1)
        except Exception:  # noqa: BLE001 - the point
            return "never"
        finally:
            ground.seen.append("finally")
        return "rested"

    async def greedy(hand: Hand) -> str:
        try:
            await hand.sleep("nap", 1)
        except BaseException:  # noqa: BLE001 - the point
            return "never"
        return "rested"

    first = await ground.put(ground.job(careful))
    second = await ground.put(ground.job(greedy, retry=ONCE))
    assert ground.clock is not None
    assert await adrain(ground.app) == Drained(suspended=1, dead=1)
    ground.clock.advance(1)
    await adrain(ground.app)
    assert (await ground.get(first)).output == "rested"
    assert ground.seen == ["finally", "finally"]
    error = (await ground.get(second)).last_attempt_error
    assert error is not None
    assert error.type == "WaitSwallowed"


async def test_a_cancelled_job_does_not_fall_asleep(ground: Ground) -> None:
    """It ends as cancelled where it would wait."""

    async def work(hand: Hand) -> None:
        await _cancel(ground, hand.job.id)
        await hand.sleep("nap", 1)

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    assert (await ground.get(job_id)).status is Status.CANCELLED


async def _cancel(ground: Ground, job_id: str) -> None:
    ground.sql("UPDATE {job} SET cancel_requested_at = created_at WHERE id = :id", id=job_id)


# --- signals ------------------------------------------------------------------------------------------------------


async def test_a_signal_is_waited_for(ground: Ground) -> None:
    """However long; its payload comes back in the type that was asked for."""

    async def review(hand: Hand) -> str:
        verdict = await hand.wait_signal("verdict", payload=Verdict)
        assert isinstance(verdict, Verdict)
        return verdict.by

    job_id = await ground.put(ground.job(review))
    assert ground.clock is not None
    assert await adrain(ground.app) == Drained(suspended=1)
    job = await ground.get(job_id)
    assert (job.status, job.attempt) == (Status.BLOCKED, 0)
    ground.clock.advance(timedelta(days=1000))
    assert await adrain(ground.app) == Drained()
    await ground.client.signal(job_id, "verdict", Verdict("ada", is_good=True))
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "ada"


async def test_a_signal_that_comes_first_is_kept(ground: Ground) -> None:
    """Before the job has begun, it does not even wait; it is read once, whatever fails afterwards."""

    async def review(hand: Hand) -> Any:
        verdict = await hand.wait_signal("verdict")
        if hand.attempt == 1:
            raise RuntimeError("after the signal")
        return verdict

    job_id = await ground.put(ground.job(review, retry=Retry(max_attempts=2, initial=1, jitter=0)))
    assert ground.clock is not None
    await ground.client.signal(job_id, "verdict", ["early"])
    await ground.client.signal(job_id, "verdict", ["later"])
    assert await adrain(ground.app) == Drained(retried=1)
    ground.clock.advance(1)
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == ["early"]
    assert ground.sql("SELECT count(*) FROM {job_signal}") == [(1,)]


async def test_signals_of_one_name_are_taken_one_by_one(ground: Ground) -> None:
    """Each by a step of its own, in the order in which they were sent."""

    async def collect(hand: Hand) -> list[int]:
        return [await hand.wait_signal(f"item:{number}", signal="item") for number in range(4)]

    job_id = await ground.put(ground.job(collect))
    for number in range(3):
        await ground.client.signal(job_id, "item", number)
    assert await adrain(ground.app) == Drained(suspended=1)
    await ground.client.signal(job_id, "item", 3)
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == [0, 1, 2, 3]


async def test_later_code_waits_for_another_signal(ground: Ground) -> None:
    """What the code says now is what wakes it; the name that it waited for before does not, again and again."""
    names, limits = iter(["old", "new", "new"]), iter([None, 60, 60])

    async def review(hand: Hand) -> str:
        found: str = await hand.wait_signal("verdict", next(limits), signal=next(names), default="nobody")
        return found

    job_id = await ground.put(ground.job(review))
    assert await adrain(ground.app) == Drained(suspended=1)
    await ground.client.signal(job_id, "old", "this is for the code before")
    assert await adrain(ground.app) == Drained(suspended=1)
    assert await adrain(ground.app) == Drained()
    await ground.client.signal(job_id, "new", "this")
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "this"


async def test_a_time_set_for_one_wait_is_not_the_next_ones(ground: Ground) -> None:
    """Rescheduled far away, woken by its signal all the same, and by its child after that."""
    double = doubling(ground)

    async def parent(hand: Hand) -> int:
        await hand.wait_signal("go", timedelta(days=1))
        (output,) = await hand.gather(await hand.enqueue("part", double.call(number=4)))
        return int(output)

    job_id = await ground.put(ground.job(parent))
    assert await adrain(ground.app) == Drained(suspended=1)
    await ground.client.reschedule(job_id, delay=timedelta(days=30))
    await ground.client.signal(job_id, "go")
    assert await adrain(ground.app) == Drained(suspended=1, completed=2)
    assert (await ground.get(job_id)).output == 8


async def test_a_wait_that_is_over(ground: Ground) -> None:
    """Raises, or gives the default; a signal without a payload is something else."""

    async def review(hand: Hand, which: int) -> Any:
        if which == 1:
            try:
                return await hand.wait_signal("verdict", 60)
            except SignalTimeout as error:
                return str(error)
        return await hand.wait_signal("verdict", timedelta(minutes=1), default="nobody")

    handle = ground.job(review)
    raised, defaulted, answered = [await ground.put(handle, which=which) for which in (1, 2, 2)]
    assert ground.clock is not None
    assert await adrain(ground.app) == Drained(suspended=3)
    await ground.client.signal(answered, "verdict")
    assert await adrain(ground.app) == Drained(completed=1)
    ground.clock.advance(60)
    assert await adrain(ground.app) == Drained(completed=2)
    assert "'verdict' did not come in time" in (await ground.get(raised)).output
    assert (await ground.get(defaulted)).output == "nobody"
    assert (await ground.get(answered)).output is None


async def test_a_later_job_of_the_chain_hears_it(ground: Ground) -> None:
    """Signals are a chain's."""

    async def second(hand: Hand) -> Any:
        return await hand.wait_signal("word")

    following = ground.job(second)

    async def first(hand: Hand) -> Any:
        return await hand.continue_with(following.call())

    job_id = await ground.put(ground.job(first))
    await ground.client.signal(job_id, "word", "hello")
    assert await adrain(ground.app) == Drained(completed=2)
    assert (await ground.client.get_chain(job_id)).output == "hello"


async def test_the_slot_is_free_meanwhile(live_ground: Ground) -> None:
    """With one slot, ten jobs wait for signals of an eleventh that comes behind them."""
    ground = live_ground

    async def listen(hand: Hand) -> Any:
        return await hand.wait_signal("go", 600)

    handle = ground.job(listen)
    waiting = [await ground.put(handle) for _ in range(10)]

    async def speak(hand: Hand) -> None:
        for number, chain_id in enumerate(waiting):
            await _said(hand, chain_id, number)

    async with ground.app.worker(config=ALONE):
        await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE step = 'go'") == [(10,)])
        await ground.put(ground.job(speak))
        found = [await ground.until_status(job_id, "completed") for job_id in waiting]
    assert [job.output for job in found] == list(range(10))
    assert {job.attempt for job in found} == {1}


async def _said(hand: Hand, chain_id: str, payload: object) -> None:
    answer = hand.ctx.client.signal(chain_id, "go", payload)
    if answer is not None:
        await answer


async def test_a_short_sleep_among_others(live_ground: Ground) -> None:
    """By the clock of the database; a worker that is stopped meanwhile leaves the job to the next."""
    ground = live_ground

    async def nap(hand: Hand) -> str:
        await hand.sleep("first", 0.3)
        await hand.sleep("second", 0)
        return "rested"

    job_id = await ground.put(ground.job(nap))
    async with ground.app.worker(config=ALONE):
        await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE step = 'first'") == [(1,)])
    assert (await ground.get(job_id)).status in {Status.PENDING, Status.COMPLETED}
    async with ground.app.worker(config=ALONE):
        assert (await ground.until_status(job_id, "completed")).output == "rested"


# --- children -----------------------------------------------------------------------------------------------------


async def test_children_are_enqueued_once_and_gathered(ground: Ground) -> None:
    """However often the handler runs; outputs come in the order asked for."""
    double = doubling(ground)

    async def parent(hand: Hand) -> list[int]:
        ground.seen.append("parent")
        parts = [await hand.enqueue(f"part {number}", double.call(number=number)) for number in (1, 2, 3)]
        more = await hand.enqueue_many("more", [double.call(number=number) for number in (4, 5)])
        first, second = await hand.gather(parts[1], parts[0])
        return [first, second, *await hand.gather([*parts, *more])]

    job_id = await ground.put(ground.job(parent))
    assert await adrain(ground.app) == Drained(suspended=1, completed=6)
    job = await ground.get(job_id)
    assert (job.output, job.attempt) == ([4, 2, 2, 4, 6, 8, 10], 1)
    assert Counter(ground.seen) == {"parent": 2, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1}
    assert ground.sql("SELECT count(*) FROM {job}") == [(6,)]


async def test_a_child_behind_its_parent(ground: Ground) -> None:
    """In one ordered key neither could ever go on: refused, and nothing is left waiting."""
    double = doubling(ground)
    keys = [{"partition_key": "one"}, {"partition_key": "one", "ordering": "serial"}, {"partition_key": "two"}, {}]

    async def parent(hand: Hand, which: int) -> str:
        child = await hand.enqueue("part", double.call(number=which), **keys[which])
        try:
            await hand.gather(child)
        except InvalidOption as error:
            return str(error).replace(child.id, "CHILD")
        return "gathered"

    handle = ground.job(parent)
    for which, answer in enumerate(["children='CHILD': is behind this job", "gathered", "gathered", "gathered"]):
        chain = await ground.client.enqueue(handle.call(which=which), partition_key="one")
        await adrain(ground.app)
        assert (await ground.get(chain.id)).output.startswith(answer)
    assert ground.sql("SELECT count(*) FROM {job} WHERE status <> 'completed'") == [(0,)]


async def test_a_child_is_a_chain(ground: Ground) -> None:
    """It has ended when its last job has; its output is that one's."""

    async def last(hand: Hand) -> str:
        return "the end"

    ending = ground.job(last)

    async def beginning(hand: Hand) -> str:
        found: str = await hand.continue_with(ending.call())
        return found

    begun = ground.job(beginning)

    async def parent(hand: Hand) -> Any:
        child = await hand.enqueue("child", begun.call())
        return await hand.gather(child)

    job_id = await ground.put(ground.job(parent))
    await adrain(ground.app)
    assert (await ground.get(job_id)).output == ["the end"]


async def test_a_child_that_fails(ground: Ground) -> None:
    """Is raised by name; or returned; or waited for until it has been retried."""
    double = doubling(ground)

    async def parent(hand: Hand, which: int) -> Any:
        children = [await hand.enqueue(name, double.call(number=n)) for name, n in (("good", 1), ("bad", -which))]
        if which == 1:
            return await hand.gather(*children)
        if which == 2:
            good, bad = await hand.gather(*children, on_failure="return")
            assert isinstance(bad, ChildFailed)
            return [good, bad.name, bad.chain_id, bad.status, bad.error_type]
        return await hand.gather(*children, on_failure="wait")

    handle = ground.job(parent, retry=ONCE)
    raised, returned, waiting = [await ground.put(handle, which=which) for which in (1, 2, 3)]
    await adrain(ground.app)
    error = (await ground.get(raised)).last_attempt_error
    assert error is not None
    assert error.type == "ChildFailed"
    assert error.message.startswith("child 'bad' (chain ")
    assert error.message.endswith("is a dead letter: ValueError: -1 is below zero")
    good, name, chain_id, status, error_type = (await ground.get(returned)).output
    assert (good, name, status, error_type) == (2, "bad", "dead_letter", "ValueError")
    assert (await ground.get(chain_id)).status is Status.DEAD_LETTER
    assert (await ground.get(waiting)).status is Status.BLOCKED
    (child,) = [
        each.id for each in (await ground.client.list_jobs(status="dead_letter")).items if each.input == {"number": -3}
    ]
    await ground.client.retry(child)
    await ground.client.complete_job(child, 18)
    assert await adrain(ground.app) == Drained(completed=1)
    assert (await ground.get(waiting)).output == [2, 18]


async def test_a_child_from_the_archive(ground: Ground) -> None:
    """A key that was taken for ever gives a job a child that ended long ago: its output is found all the same."""
    double = doubling(ground)

    async def parent(hand: Hand) -> Any:
        child = await hand.enqueue("old", double.call(number=4), dedup=Dedup("four", scope="forever"))
        return await hand.gather(child)

    handle = ground.job(parent)
    first = await ground.put(handle)
    await adrain(ground.app)
    await ground.client.settings.set("archive", value=True)
    await ground.client.admin.prune(older_than=0)
    await ground.client.admin.prune(older_than=0)
    assert ground.sql("SELECT count(*) FROM {job}") == [(0,)]
    second = await ground.put(handle)
    await adrain(ground.app)
    assert [(await ground.get(each)).output for each in (first, second)] == [[8], [8]]


async def test_a_child_that_somebody_took_away(ground: Ground) -> None:
    """By SQL; the verbs refuse that."""
    double = doubling(ground)

    async def parent(hand: Hand) -> Any:
        child = await hand.enqueue("gone", double.call(number=1))
        if hand.lease_generation == 1:
            await hand.sleep("nap", 1)
        (found,) = await hand.gather(child, on_failure="return")
        return str(found)

    job_id = await ground.put(ground.job(parent))
    assert ground.clock is not None
    await adrain(ground.app)
    ground.sql("DELETE FROM {job} WHERE id <> :id", id=job_id)
    ground.clock.advance(1)
    await adrain(ground.app)
    assert (await ground.get(job_id)).output.endswith("was deleted")


async def test_what_cannot_be_gathered(ground: Ground) -> None:
    """Chains that are no children of this job, and policies that do not exist: typed errors."""
    double = doubling(ground)

    async def parent(hand: Hand) -> None:
        stranger = await ground.client.enqueue(double.call(number=1)) if ground.kind == "async" else "stranger"
        child = await hand.enqueue("child", double.call(number=2))
        for children, options in (((stranger,), {}), ((child.id,), {}), ((child,), {"on_failure": "panic"})):
            with pytest.raises(InvalidOption) as caught:
                await hand.gather(*children, **options)
            ground.seen.append(caught.value.option)
        with pytest.raises(InvalidOption):
            await hand.enqueue("bad", "no call")
        assert await hand.gather() == ()
        assert await hand.gather([]) == ()

    job_id = await ground.put(ground.job(parent, retry=ONCE))
    await adrain(ground.app)
    assert (await ground.get(job_id)).status is Status.COMPLETED
    assert [each for each in ground.seen if isinstance(each, str)] == ["children", "children", "on_failure"]


async def test_children_share_the_transactions_fate(ground: Ground) -> None:
    """Rolled back: no child; repeated and committed: one, which later runs find."""
    double = doubling(ground)

    async def parent(hand: Hand) -> Any:
        async with hand.connection() as tx:
            await tx.write(1)
            await hand.enqueue("child", double.call(number=1), tx=tx.tx)
            await tx.rollback()
        async with hand.connection() as tx:
            await tx.write(2)
            child = await hand.enqueue("child", double.call(number=2), tx=tx.tx)
            await tx.commit()
        return await hand.gather(child)

    async def work(hand: Hand) -> Any:
        if hand.lease_generation == 1:
            return await parent(hand)
        async with hand.connection() as tx:
            child = await hand.enqueue("child", double.call(number=2), tx=tx.tx)
        return await hand.gather(child)

    job_id = await ground.put(ground.job(work))
    await adrain(ground.app)
    assert (await ground.get(job_id)).output == [4]
    assert ground.orders() == [2]
    assert ground.seen == [2]


async def test_children_that_are_there_already(ground: Ground) -> None:
    """A call with a dedup key may find a chain that somebody else has enqueued; it is a child as well."""
    double = doubling(ground)
    other = await ground.client.enqueue(double.call(number=5), dedup="five", delay=10)

    async def parent(hand: Hand) -> Any:
        child = await hand.enqueue("five", double.call(number=5), dedup="five")
        ground.seen.append((child.id == other.id, child.outcome))
        return await hand.gather(child)

    job_id = await ground.put(ground.job(parent))
    assert ground.clock is not None
    assert await adrain(ground.app) == Drained(suspended=1)
    ground.clock.advance(10)
    assert await adrain(ground.app) == Drained(completed=2)
    assert (await ground.get(job_id)).output == [10]
    assert ground.seen == [(True, "kept"), 5, (True, "kept")]


async def test_a_lost_job_enqueues_nothing(ground: Ground) -> None:
    """The fence comes before the child."""
    double = doubling(ground)

    async def parent(hand: Hand) -> None:
        if hand.lease_generation > 1:
            return
        ground.sql("UPDATE {job} SET lease_generation = lease_generation + 1, leased_by = 'another'")
        await hand.enqueue("child", double.call(number=1))

    await ground.put(ground.job(parent))
    async with ground.app.worker(config=ALONE):
        await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE leased_by = 'another'") == [(1,)])
        await asyncio.sleep(0.2)
    assert ground.sql("SELECT count(*) FROM {job}") == [(1,)]
    ground.sql("DELETE FROM {job}")


# --- where nobody can wait ----------------------------------------------------------------------------------------


async def test_batches_do_not_wait() -> None:
    """One job of a call cannot give back the slot of all."""
    with temporary_app() as app:

        @app.job(batch=10, retry=ONCE)
        async def many(batch: Batch[int]) -> None:
            await batch[0].ctx.sleep("nap", 1)

        async with app.async_client() as client:
            chain = await client.enqueue(many.call(1))
            await adrain(app)
            error = (await client.get_job(chain.id)).last_attempt_error
    assert error is not None
    assert error.type == "WaitInBatch"


async def test_task_groups_pass_it_on() -> None:
    """A wait inside a task group ends the run as well."""
    with temporary_app() as app:

        @app.job(retry=ONCE)
        async def grouped(ctx: Context) -> str:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.sleep("nap", 0))
            return "rested"

        async with app.async_client() as client:
            chain = await client.enqueue(grouped.call())
            await adrain(app)
            assert (await client.get_job(chain.id)).output == "rested"


def test_suspended_is_no_exception() -> None:
    """So that handlers which catch exceptions need not know of it."""
    assert not issubclass(Suspended, Exception)
    assert issubclass(Suspended, BaseException)
