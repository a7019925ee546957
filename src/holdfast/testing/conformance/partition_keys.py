"""partition_keys: jobs of one key have one holder at a time, in their order, whatever becomes of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.model.call import Extras, JobDocument
from holdfast.model.clock import iso
from holdfast.model.ring import bucket_of
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.complete_outside import OutsideCompletion, complete_outside
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.expire_jobs import expire_jobs
from holdfast.operations.find_ahead import find_ahead
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.operations.sweep_keys import find_stranded, free_keys
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, LEASE, Harness, document, ids_of, lease_of
from holdfast.testing.conformance.people import cancel, delete, reschedule, retry, send, send_one

CASES = Cases("partition_keys")


def keyed(key: str = "k", *, ordering: str = "fifo", held: bool = False, **more: object) -> Extras:
    return Extras(partition_key=key, partition_bucket=bucket_of(key), ordering=ordering, held=held, **more)  # type: ignore[arg-type]  # by name


async def put_keyed(
    h: Harness, count: int = 1, key: str = "k", *, ordering: str = "fifo", **fields: object
) -> list[str]:
    """One after the other, as single enqueues do it."""
    return [await h.put_one(more=keyed(key, ordering=ordering), **fields) for _ in range(count)]


async def only(h: Harness, job_id: str) -> ClaimedJob:
    """Nothing but this job can be claimed."""
    claimed = await _all_claimable(h)
    assert ids_of(claimed) == [job_id]
    return claimed[0]


async def _all_claimable(h: Harness) -> list[ClaimedJob]:
    """Everything, until a claim finds nothing to claim or to set aside."""
    claimed: list[ClaimedJob] = []
    for _ in range(20):
        claim = await h.claim()
        claimed += claim
        if not claim and not getattr(claim, "aside", 0):
            return claimed
    raise AssertionError("claims find no end")


# --- order ------------------------------------------------------------------------------------------------------------


@CASES
async def first_in_first_out(h: Harness) -> None:
    """One at a time; the next when the one before it has completed; others are not held up."""
    ids = await put_keyed(h, 3)
    other = await h.put_one()
    claimed = await _all_claimable(h)
    assert ids_of(claimed) == [ids[0], other]
    for done, following in zip(ids, [*ids[1:], None], strict=True):
        job = next(job for job in claimed if job.id == done)
        await h.complete(lease_of(job))
        claimed = await _all_claimable(h)
        assert ids_of(claimed) == ([following] if following else [])


@CASES
async def prefetch_that_only_sets_aside_is_not_marked(h: Harness) -> None:
    """Nobody would know that there is a mark to drop: there would be more and more of them."""
    first, second = await put_keyed(h, 2)
    await only(h, first)
    h.sql("UPDATE {job} SET held = false WHERE id = :id", id=second)
    claim = await h.claim(prefetch=True)
    assert claim == []
    assert claim.aside == 1
    assert h.count("prefetch") == 0


@CASES
async def priority_does_not_count(h: Harness) -> None:
    """Within a key; a later job with a better priority waits."""
    first = await h.put_one(more=keyed(), priority=5)
    second = await h.put_one(more=keyed(), priority=-5)
    await h.complete(lease_of(await only(h, first)))
    await only(h, second)


@CASES
async def keys_belong_to_their_queues(h: Harness) -> None:
    """The same key elsewhere is another one."""
    here = await h.put_one(more=keyed())
    there = await h.put_one(more=keyed(), queue="mail")
    assert ids_of(await h.claim(queues=("default",))) == [here]
    assert ids_of(await h.claim(queues=("mail",))) == [there]


async def _waits_for(h: Harness, what: str) -> None:
    """Whatever keeps the one in front."""
    first = await _in_front[what](h)
    second = await h.put_one(more=keyed())
    assert await _all_claimable(h) == []
    job = await h.job(second)
    assert (job.status, job.held) == (Status.PENDING, True)
    await cancel(h, first)
    await only(h, second)


async def _future(h: Harness) -> str:
    return await h.put_one(more=keyed(), delay_ms=60_000)


async def _blocked(h: Harness) -> str:
    waiting_for = await h.put_one(queue="elsewhere")
    return await send_one(h, document(more=keyed(blockers=[waiting_for], on_blocker_failure="wait")))


async def _retrying(h: Harness) -> str:
    job_id = await h.put_one(more=keyed())
    await h.fail(await h.claim_one(), delay=timedelta(minutes=1))
    return job_id


async def _snoozing(h: Harness) -> str:
    job_id = await h.put_one(more=keyed())
    lease = await h.claim_one()
    await h.run(lambda: snooze_jobs([Postponement(lease.id, lease.lease_generation, delay_ms=60_000)]))
    return job_id


_in_front: dict[str, Callable[[Harness], Awaitable[str]]] = {
    "future": _future, "blocked": _blocked, "retrying": _retrying, "snoozing": _snoozing,
}  # fmt: skip
for _what in _in_front:
    CASES.add(
        f"waits_for_a_{_what}_one",
        "A later job waits, whatever keeps the one in front.",
        partial(_waits_for, what=_what),
    )


@CASES
async def a_released_one_goes_first(h: Harness) -> None:
    """It keeps its place in the key."""
    first, second = await put_keyed(h, 2)
    await h.release(lease_of(await only(h, first)))
    await h.complete(lease_of(await only(h, first)))
    await only(h, second)


@CASES
async def a_retried_one_goes_first(h: Harness) -> None:
    """The others wait for its next attempt."""
    first, second = await put_keyed(h, 2)
    await h.fail(lease_of(await only(h, first)), delay=timedelta(seconds=1))
    assert await _all_claimable(h) == []
    h.clock.advance(2)
    await h.complete(lease_of(await only(h, first)))
    await only(h, second)


@CASES
async def a_dead_letter_holds_up_nobody(h: Harness) -> None:
    """And goes back to its place when it is retried."""
    first, second, third = await put_keyed(h, 3)
    await h.fail(lease_of(await only(h, first)), is_final=True)
    lease = lease_of(await only(h, second))
    await retry(h, first)
    assert await _all_claimable(h) == []
    await h.complete(lease)
    await h.complete(lease_of(await only(h, first)))
    await only(h, third)


@CASES
async def serial_ones_pass(h: Harness) -> None:
    """One that waits for its next attempt; but not one that runs."""
    first, second = await put_keyed(h, 2, ordering="serial")
    lease = lease_of(await only(h, first))
    await h.fail(lease, delay=timedelta(minutes=1))
    lease = lease_of(await only(h, second))
    h.clock.advance(61)
    assert await _all_claimable(h) == []
    await h.complete(lease)
    await only(h, first)


@CASES
async def serial_ones_go_in_claim_order(h: Harness) -> None:
    """Priority first, however many wait."""
    ids = [await h.put_one(more=keyed(ordering="serial"), priority=-number) for number in range(6)]
    for job_id in reversed(ids):
        await h.complete(lease_of(await only(h, job_id)))


@CASES
async def both_orderings_in_one_key(h: Harness) -> None:
    """Never two at once; a fifo job waits for every earlier one, a serial one for nobody but a running one."""
    first = await h.put_one(more=keyed(), delay_ms=60_000)
    behind = await h.put_one(more=keyed())
    passing = await h.put_one(more=keyed(ordering="serial"))
    lease = lease_of(await only(h, passing))
    h.clock.advance(61)
    assert await _all_claimable(h) == []
    await h.complete(lease)
    await h.complete(lease_of(await only(h, first)))
    await only(h, behind)


# --- whatever ends the one in front ---------------------------------------------------------------------------------


async def _frees(h: Harness, how: str) -> None:
    """The next one may run."""
    first, second, third = await put_keyed(h, 3)
    lease = lease_of(await only(h, first))
    await _endings[how](h, first, lease)
    assert (await h.job(third)).held
    await h.complete(lease_of(await only(h, second)))
    await only(h, third)


async def _completed(h: Harness, _: str, lease: object) -> None:
    await h.complete(lease)  # type: ignore[arg-type]  # a lease


async def _dead(h: Harness, _: str, lease: object) -> None:
    await h.fail(lease, is_final=True)  # type: ignore[arg-type]  # a lease


async def _cancelled(h: Harness, job_id: str, lease: object) -> None:
    await h.release(lease)  # type: ignore[arg-type]  # a lease
    await cancel(h, job_id)


async def _deleted(h: Harness, job_id: str, _: object) -> None:
    await delete(h, job_id)


async def _completed_outside(h: Harness, job_id: str, _: object) -> None:
    await h.run(lambda: complete_outside(OutsideCompletion(job_id, False, (), lambda _: None)))  # noqa: FBT003 - a job


async def _crashed(h: Harness, job_id: str, _: object) -> None:
    h.sql("UPDATE {job} SET crash_count = 2 WHERE id = :id", id=job_id)
    await h.register("w1")
    h.clock.advance(LEASE + DEAD_AFTER)
    await h.register("reaper")
    await h.reap()
    assert (await h.job(job_id)).status is Status.DEAD_LETTER


_endings: dict[str, Callable[[Harness, str, object], Awaitable[None]]] = {
    "completed": _completed, "dead": _dead, "cancelled": _cancelled, "deleted": _deleted,
    "completed_outside": _completed_outside, "crashed": _crashed,
}  # fmt: skip
for _how in _endings:
    CASES.add(f"{_how}_frees_the_key", "Whatever ends the one in front, the next may run.", partial(_frees, how=_how))


@CASES
async def one_that_was_yet_to_come_leaves(h: Harness) -> None:
    """The next may run at once, not at the time of that one, and whoever serves its queue is told; else nobody is."""
    for take_away in (cancel, delete):
        (future,) = await put_keyed(h, delay_ms=3_600_000)
        _, behind = await put_keyed(h, 2)
        assert await _all_claimable(h) == []
        assert (await take_away(h, behind)).woken == set()
        assert (await take_away(h, future)).woken == {"default"}
        (job,) = await _all_claimable(h)
        await h.complete(lease_of(job))
        assert (await take_away(h, await h.put_one())).woken == set()


@CASES
async def one_that_is_cancelled_with_what_it_waits_for_leaves(h: Harness) -> None:
    """Whoever serves its queue is told by what ended the other; also of what is cancelled because of this."""
    (lease,) = await h.put_and_claim()
    first = document(queue="a", more=keyed(blockers=[lease.id], on_blocker_failure="cancel"))
    second = document(queue="b", more=keyed(blockers=[first.id], on_blocker_failure="cancel"))
    plain = document(queue="c", more=Extras(blockers=[first.id], on_blocker_failure="cancel"))
    await send(h, first)
    await send(h, second, plain)
    behind = [await h.put_one(queue=queue, more=keyed()) for queue in ("a", "b")]
    assert await h.claim(queues=["a", "b", "c"]) == []
    settlement = await h.fail(lease, is_final=True)
    assert settlement.woken == {"a", "b"}
    assert sorted(ids_of(await h.claim(queues=["a", "b", "c"]))) == sorted(behind)


@CASES
async def one_that_expires_leaves(h: Harness) -> None:
    """By the sweep, or because somebody takes its deduplication key."""
    for sweep in (True, False):
        more = keyed(expires_at=iso(h.now + timedelta(minutes=1)), deduplication_key="d", deduplication_scope="pending")
        await send_one(h, document(queue="a", more=more, delay_ms=3_600_000))
        behind = await h.put_one(queue="a", more=keyed())
        assert await h.claim(queues=["a"]) == []
        h.clock.advance(timedelta(minutes=1))
        if sweep:
            assert (await h.run(expire_jobs)).woken == {"a"}
        else:
            woken: set[str] = set()
            successor = document(queue="b", more=Extras(deduplication_key="d", deduplication_scope="pending"))
            await h.run(lambda: enqueue_guarded([successor], None, woken=woken))  # noqa: B023 - run at once
            assert woken == {"a"}
        (job,) = await h.claim(queues=["a"])
        assert job.id == behind
        await h.complete(lease_of(job))


@CASES
async def one_that_is_replaced_leaves(h: Harness) -> None:
    """For another queue, or another key: those behind it may run, and whoever serves its queue is told."""

    def first(queue: str, key: str | None, **fields: Any) -> JobDocument:
        rule: dict[str, Any] = {
            "deduplication_key": "d",
            "deduplication_scope": "pending",
            "on_conflict": "replace",
        }
        return document(queue=queue, more=Extras(**rule) if key is None else keyed(key, **rule), **fields)

    async def replaced(job: JobDocument) -> set[str]:
        woken: set[str] = set()
        await h.run(lambda: enqueue_guarded([job], None, woken=woken))
        return woken

    await send_one(h, first("a", "k", delay_ms=3_600_000))
    (one, two) = [await h.put_one(queue="a", more=keyed(key)) for key in ("k", "l")]
    holder = await h.claim(queues=["a"])
    assert ids_of(holder) == [two]
    assert await replaced(first("a", "k", delay_ms=1_800_000)) == set()
    assert await replaced(first("a", "l", delay_ms=3_600_000)) == {"a"}
    (job,) = await h.claim(queues=["a"])
    assert job.id == one
    assert await replaced(first("b", "l", delay_ms=3_600_000)) == {"a"}
    assert await replaced(first("c", None, delay_ms=3_600_000)) == {"b"}
    assert await replaced(first("d", None)) == set()


@CASES
async def any_of_a_key_can_be_completed_outside(h: Harness) -> None:
    """One that waits behind a running one, seen or not yet; the first, the middle and the last of a run."""
    for number in range(5):
        ids = await put_keyed(h, 5, key := f"k{number}")
        run = await h.claim(3, run=2)
        assert {job.partition_key for job in run} == {key}
        await _completed_outside(h, ids[number], None)
        rest = [job_id for job_id in ids if job_id != ids[number]]
        held = [job for job in _in_place(run) if job.id != ids[number]]
        if held:
            assert await _all_claimable(h) == []
            await h.complete(*map(lease_of, held))
        for job_id in rest[len(held) :]:
            await h.complete(lease_of(await only(h, job_id)))


@CASES
async def a_dead_one_of_a_run_can_be_retried(h: Harness) -> None:
    """It waits for nobody any more."""
    (first, _) = await put_keyed(h, 2)
    run = _in_place(await h.claim(run=1))
    await h.fail(lease_of(run[0]), is_final=True)
    await h.complete(lease_of(run[1]))
    await retry(h, first)
    await only(h, first)


@CASES
async def expiry_frees_the_key(h: Harness) -> None:
    """Of one that was not started in time."""
    first = await h.put_one(more=keyed(expires_ms=1_000), delay_ms=60_000)
    second = await h.put_one(more=keyed())
    assert await _all_claimable(h) == []
    h.clock.advance(2)
    await h.run(lambda: expire_jobs(10))
    assert (await h.job(first)).status is Status.CANCELLED
    await only(h, second)


@CASES
async def rescheduling_frees_nobody(h: Harness) -> None:
    """The order stays; sooner or later."""
    first, second = await put_keyed(h, 2)
    await reschedule(h, first, delay=timedelta(minutes=1))
    assert await _all_claimable(h) == []
    await reschedule(h, first)
    await h.complete(lease_of(await only(h, first)))
    await only(h, second)


# --- chains, keys, replacing ----------------------------------------------------------------------------------------


@CASES
async def a_chain_is_one_item(h: Harness) -> None:
    """Its next job takes the place of the one before it; the others wait for the end of the chain."""
    first, second = await put_keyed(h, 2)
    lease = lease_of(await only(h, first))
    following = document(type_name="next")
    await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, following)]))
    job = await only(h, following.id)
    assert job.partition_key == "k"
    await h.complete(lease_of(job))
    await only(h, second)


@CASES
async def a_continuation_may_leave_its_key(h: Harness) -> None:
    """For one that it was given."""
    first, second = await put_keyed(h, 2)
    lease = lease_of(await only(h, first))
    following = document(type_name="next", more=keyed("other", has_own_key=True))
    await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, following)]))
    assert sorted(ids_of(await _all_claimable(h))) == sorted([second, following.id])


@CASES
async def a_replaced_job_keeps_its_place(h: Harness) -> None:
    """In the same key; in another one it comes last, and those behind it go on."""

    def job(key: str) -> JobDocument:
        return document(more=keyed(key, deduplication_key="d", deduplication_scope="unfinished", on_conflict="replace"))

    (result,) = await send(h, job("k"))
    (second,) = await put_keyed(h)
    (third,) = await put_keyed(h, key="other")
    await send(h, job("k"))
    assert ids_of(await h.claim(1, lanes=await h.lanes())) == [result.id]
    await h.release(lease_of((await _running(h))[0]))
    await send(h, job("other"))
    assert sorted(ids_of(await _all_claimable(h))) == sorted([second, third])
    assert (await h.job(result.id)).held


@CASES
async def nobody_gets_the_place_of_one_that_moved(h: Harness) -> None:
    """Several move to a key in one call and in several, and others come after them: one after the other may run."""

    def job(key: str, number: int) -> JobDocument:
        more = keyed(key, deduplication_key=f"d{number}", deduplication_scope="unfinished", on_conflict="replace")
        return document(more=more)

    moved = [result.id for result in await send(h, *(job("other", number) for number in range(4)))]
    await send(h, job("k", 0))
    await send(h, job("k", 1), job("k", 2))
    await send(h, job("k", 3))
    after = await put_keyed(h, 2)
    for expected in [*moved, *after]:
        await h.complete(lease_of(await only(h, expected)))


async def _running(h: Harness) -> list[ClaimedJob]:
    rows = h.sql("SELECT id, lease_generation FROM {job} WHERE status = 'running'")
    return [ClaimedJob(str(row[0]), row[1], *[None] * 23) for row in rows]  # type: ignore[arg-type]  # only the lease counts


# --- runs -----------------------------------------------------------------------------------------------------------


@CASES
async def runs_are_what_comes_next(h: Harness) -> None:
    """Behind a first one, in order, no further than asked; the rest is held until the last of them has ended."""
    ids = await put_keyed(h, 5)
    run = await h.claim(run=2)
    assert [(job.id, job.standing == "follows") for job in _in_place(run)] == [
        (ids[0], False), (ids[1], True), (ids[2], True),
    ]  # fmt: skip
    assert await _all_claimable(h) == []
    first, second, third = map(lease_of, _in_place(run))
    await h.complete(first, second)
    assert await _all_claimable(h) == []
    await h.complete(third)
    await only(h, ids[3])


def _in_place(claim: list[ClaimedJob]) -> list[ClaimedJob]:
    return sorted(claim, key=lambda job: job.partition_seq or 0)


@CASES
async def runs_share_the_limit(h: Harness) -> None:
    """As many keys as there are, then evenly behind them."""
    for key in ("a", "b"):
        await put_keyed(h, 5, key)
    claim = await h.claim(6, run=100)
    assert len(claim) <= 6
    keys = [job.partition_key for job in claim]
    assert set(keys) == {"a", "b"}


@CASES
async def runs_may_have_more_room_than_first_jobs(h: Harness) -> None:
    """Followers come on top of the limit, evenly, up to the room for all together; jobs without a key do not."""
    for count in (1, 4):
        for key in ("a", "b"):
            await put_keyed(h, count, key)
    await h.put(5, queue="other")
    claim = await h.claim(2, run=100, room=7)
    assert sorted(str(job.partition_key) for job in claim) == ["a"] * 3 + ["b"] * 3
    assert len(await h.claim(2, queues=["other"], run=100, room=7)) == 2


async def _breaks(h: Harness, what: str) -> None:
    """At the first that cannot be started right away."""
    (first,) = await put_keyed(h)
    if what == "future":
        await h.put_one(more=keyed(), delay_ms=60_000)
    elif what == "serial":
        await h.put_one(more=keyed(ordering="serial"), delay_ms=60_000)
    elif what == "blocked":
        await _blocked(h)
    else:
        (job_id,) = await put_keyed(h)
        h.sql("UPDATE {job} SET attempt = 1 WHERE id = :id", id=job_id)
    await put_keyed(h, 2)
    assert ids_of(await h.claim(run=100)) == [first]


for _what in ("future", "blocked", "retried", "serial"):
    CASES.add(f"runs_break_at_a_{_what}_one", "A run has no gaps.", partial(_breaks, what=_what))


@CASES
async def a_run_that_broke_off_goes_back(h: Harness) -> None:
    """The one that failed is the next, then those behind it."""
    ids = await put_keyed(h, 4)
    run = [lease_of(job) for job in _in_place(await h.claim(run=3))]
    await h.complete(run[0])
    await h.fail(run[1], delay=timedelta(seconds=1))
    await h.release(run[2], run[3])
    assert await _all_claimable(h) == []
    h.clock.advance(2)
    for job_id in ids[1:]:
        await h.complete(lease_of(await only(h, job_id)))


@CASES
async def the_last_of_a_run_may_leave_first(h: Harness) -> None:
    """The key has its holder all the same, until all have left."""
    ids = await put_keyed(h, 4)
    run = [lease_of(job) for job in _in_place(await h.claim(run=2))]
    await h.release(run[2])
    assert await _all_claimable(h) == []
    assert len(h.sql("SELECT id FROM {job} WHERE status = 'running' AND held = false")) == 1
    await h.release(run[1])
    await h.complete(run[0])
    for job_id in ids[1:]:
        await h.complete(lease_of(await only(h, job_id)))


@CASES
async def nothing_is_completed_before_what_is_in_front(h: Harness) -> None:
    """Where somebody has the first of a run locked, those behind it wait; on SQLite nobody can."""
    await put_keyed(h, 3)
    run = _in_place(await h.claim(run=2))
    jobs = [Completion(job.id, job.lease_generation, line=7, place=place) for place, job in enumerate(run)]
    if h.dialect == "postgres":
        with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=run[0].id):
            settlement = await h.run(lambda: complete_jobs("w1", jobs))
            assert settlement.locked == set(ids_of(run))
    settlement = await h.run(lambda: complete_jobs("w1", jobs))
    assert not settlement.locked
    assert [(await h.job(job.id)).status for job in run] == [Status.COMPLETED] * 3


@CASES
async def a_crashed_run_is_claimed_one_by_one(h: Harness) -> None:
    """In its order: whichever killed its worker is found."""
    ids = await put_keyed(h, 3)
    await h.register("w1")
    assert len(await h.claim(run=2)) == 3
    h.clock.advance(LEASE + DEAD_AFTER)
    await h.register("reaper")
    await h.reap()
    h.clock.advance(3600)
    for job_id in ids:
        assert await _all_claimable(h) == []
        # Those that are due before it are found first, and set aside.
        found = [suspect for _ in ids for suspect in await h.claim_suspect()]
        assert ids_of(found) == [job_id]
        await h.complete(lease_of(found[0]))


@CASES
async def who_is_in_the_way(h: Harness) -> None:
    """The one that runs, else the first in front; of serial ones only one that runs."""
    first, second, third = await put_keyed(h, 3)
    assert await h.run(lambda: find_ahead(first), read_only=True) is None
    assert await h.run(lambda: find_ahead(third), read_only=True) == (first, Status.PENDING)
    lease = lease_of(await only(h, first))
    assert await h.run(lambda: find_ahead(third), read_only=True) == (first, Status.RUNNING)
    assert await h.run(lambda: find_ahead(first), read_only=True) is None
    await h.complete(lease)
    assert await h.run(lambda: find_ahead(third), read_only=True) == (second, Status.PENDING)
    one, other = await put_keyed(h, 2, "s", ordering="serial")
    assert await h.run(lambda: find_ahead(other), read_only=True) is None
    await _all_claimable(h)
    assert await h.run(lambda: find_ahead(other), read_only=True) == (one, Status.RUNNING)


# --- races ----------------------------------------------------------------------------------------------------------


@CASES
async def one_holder_among_many_claimers(h: Harness) -> None:
    """However many claim at once, and however many jobs the key has."""
    stores = h.neighbours(4)
    ids = await put_keyed(h, 12)
    done: list[str] = []
    for _ in range(200):
        lanes = await h.lanes()
        claims = await asyncio.gather(*(h.try_claim(store, lanes, f"w{n}") for n, store in enumerate(stores)))
        claimed = [job for claim in claims for job in claim]
        assert len(claimed) <= 1
        if claimed:
            done += ids_of(claimed)
            await h.complete(lease_of(claimed[0]))
        if len(done) == len(ids):
            break
    assert done == ids


@CASES
async def who_sets_aside_and_who_frees_do_not_miss_each_other(h: Harness) -> None:
    """A job found behind one that ends at this moment is never left behind."""
    stores = h.neighbours(2)
    for _ in range(20):
        first, second = await put_keyed(h, 2)
        lease = await h.claim_one()
        lanes = await h.lanes()
        completion = [Completion(lease.id, lease.lease_generation)]
        _, claim = await asyncio.gather(
            stores[0].run(lambda: complete_jobs("w0", completion)),  # noqa: B023 - awaited in this round
            h.try_claim(stores[1], lanes, "w1"),
        )
        if (await h.job(first)).status is not Status.COMPLETED:
            await h.complete(lease)
        claimed = claim or await _all_claimable(h)
        assert ids_of(claimed) == [second]
        await h.complete(lease_of(claimed[0]))


@CASES
async def the_sweep_puts_back_what_is_held_behind_nothing(h: Harness) -> None:
    """Whoever freed the key could not lock it then; what is held for a reason stays."""
    (busy,) = await put_keyed(h, key="busy")
    lease = await h.claim_one()
    (behind,) = await put_keyed(h, key="busy")
    stranded = await put_keyed(h, 3)
    (serial,) = await put_keyed(h, key="s", ordering="serial")
    await _all_claimable(h)
    h.sql(
        "UPDATE {job} SET status = 'pending', leased_by = NULL, leased_until = NULL "
        "WHERE status = 'running' AND id <> :id",
        id=busy,
    )
    h.sql("UPDATE {job} SET held = true WHERE status = 'pending'")
    swept = await h.run(lambda: find_stranded(None), read_only=True)
    assert sorted(swept.stranded) == [("default", "k"), ("default", "s")]
    assert await h.run(lambda: free_keys(swept.stranded)) == {"default"}
    assert sorted(ids_of(await _all_claimable(h))) == sorted([stranded[0], serial])
    assert (await h.job(behind)).held
    await h.complete(lease)
    await only(h, behind)
