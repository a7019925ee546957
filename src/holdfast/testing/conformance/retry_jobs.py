"""retry_jobs: dead letters and cancelled jobs begin anew, if nobody else has their keys."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial

from holdfast.errors import BatchRefused
from holdfast.model.call import Extras
from holdfast.model.ids import new_id
from holdfast.model.job import JobError, Outcome
from holdfast.model.status import Status
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.continue_jobs import go_on
from holdfast.testing.conformance.deduplication import keyed
from holdfast.testing.conformance.harness import ERROR, Harness, lease_of, refused
from holdfast.testing.conformance.people import (
    HASTY,
    ORDERS,
    STRICT,
    audit,
    cancel,
    column,
    dead_letter,
    delete,
    outcomes,
    retry,
    send_one,
)
from holdfast.testing.conformance.settle_chains import behind

CASES = Cases("retry_jobs")

_RACES = 30


@CASES
async def dead_letter_begins_anew(h: Harness) -> None:
    """Pending now, behind who waits already, with all attempts; generation, history and the last error stay."""
    job_id = await dead_letter(h)
    h.clock.advance(10)
    waiting = await h.put_one()
    h.clock.advance(10)
    batch = await retry(h, job_id)
    assert (outcomes(batch), batch.woken) == (["retried"], {"default"})
    job = await h.job(job_id)
    assert (job.status, job.ready_at, job.attempt, job.crash_count) == (Status.PENDING, h.now, 0, 0)
    assert (job.finished_at, job.last_attempt_error, job.lease_generation) == (None, ERROR, 1)
    assert len(await h.attempts(job_id)) == 1
    assert [(claimed.id, claimed.attempt, claimed.lease_generation) for claimed in await h.claim()] == [
        (waiting, 1, 1),
        (job_id, 1, 2),
    ]


@CASES
async def all_attempts_are_there_again(h: Harness) -> None:
    """The job may fail as often as at first before it is a dead letter again; each attempt has its record."""
    job_id = await h.put_one(max_attempts=2)
    for round_ in (1, 2):
        for _ in (1, 2):
            await h.fail(await h.claim_one())
        assert (await h.job(job_id)).status is Status.DEAD_LETTER
        assert len(await h.attempts(job_id)) == 2 * round_
        await retry(h, job_id)


@CASES
async def cancelled_job_begins_anew(h: Harness) -> None:
    """Also one that was asked to end while it ran, or that had expired: neither ends it again."""
    job_id = await h.put_one()
    await cancel(h, job_id, reason="no")
    h.sql("UPDATE {job} SET cancel_requested_at = finished_at, expires_at = finished_at WHERE id = :id", id=job_id)
    assert outcomes(await retry(h, job_id)) == ["retried"]
    assert (column(h, "cancel_requested_at", job_id), column(h, "expires_at", job_id)) == (None, None)
    assert (await h.job(job_id)).last_attempt_error == JobError("Cancelled", "no")
    assert [claimed.id for claimed in await h.claim()] == [job_id]


@CASES
async def stale_holder_stays_fenced_off(h: Harness) -> None:
    """Whoever ran the job before its end cannot complete it after the retry."""
    (lease,) = await h.put_and_claim()
    await h.fail(lease, is_final=True)
    await retry(h, lease.id)
    assert (await h.complete(lease)).lost == {lease.id}
    await h.claim_one(worker="w2")
    assert (await h.complete(lease)).lost == {lease.id}
    assert (await h.job(lease.id)).status is Status.RUNNING


@CASES
async def steps_survive(h: Harness) -> None:
    """What was saved is not done again."""
    job_id = await dead_letter(h)
    h.sql(
        "INSERT INTO {job_step} (job_id, name, result, lease_generation, saved_at) "
        "SELECT id, 'charge', '1', 1, created_at FROM {job}"
    )
    await retry(h, job_id)
    assert h.count("job_step") == 1


@CASES
async def others_are_reported(h: Harness) -> None:
    """What waits, runs or has completed is left alone."""
    (done,) = await h.put_and_claim()
    await h.complete(done)
    (running,) = await h.put_and_claim()
    pending, nobody = await h.put_one(), new_id()
    batch = await retry(h, done.id, running.id, pending, nobody)
    assert outcomes(batch) == ["wrong_status", "wrong_status", "wrong_status", "not_found"]
    assert ((await h.job(done.id)).status, (await h.job(running.id)).status) == (Status.COMPLETED, Status.RUNNING)


@CASES
async def acts_on_the_tail(h: Harness) -> None:
    """The chain's last job begins anew, the finished ones before it stay."""
    (lease,) = await h.put_and_claim()
    following = new_id()
    await go_on(h, lease, id=following)
    await h.fail(await h.claim_one(), is_final=True)
    batch = await retry(h, lease.id)
    assert [(result.outcome, result.job_id) for result in batch.results] == [("retried", following)]
    assert [claimed.id for claimed in await h.claim()] == [following]


@CASES
async def blocked_again_while_it_waits(h: Harness) -> None:
    """A cancelled job whose blocker has not ended waits for it again, and runs after it."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id))
    await cancel(h, waiting)
    batch = await retry(h, waiting)
    assert (outcomes(batch), batch.woken) == (["retried"], set())
    assert (await h.job(waiting)).status is Status.BLOCKED
    await h.complete(lease)
    assert (await h.job(waiting)).status is Status.PENDING


@CASES
async def blocker_that_completed_meanwhile(h: Harness) -> None:
    """What a cancelled job waited for counts even while it is cancelled."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id))
    await cancel(h, waiting)
    await h.complete(lease)
    await retry(h, waiting)
    assert (await h.job(waiting)).status is Status.PENDING


@CASES
async def graph_resumes(h: Harness) -> None:
    """The retried blocker completes: who waited for it runs; who was cancelled with it runs when retried too."""
    (lease,) = await h.put_and_claim()
    patient = await send_one(h, behind(lease.id))
    cautious = await send_one(h, behind(lease.id, on_failure="cancel"))
    await h.fail(lease, is_final=True)
    assert (await h.job(cautious)).status is Status.CANCELLED
    assert outcomes(await retry(h, lease.id, cautious)) == ["retried", "retried"]
    assert [(await h.job(job_id)).status for job_id in (patient, cautious)] == [Status.BLOCKED, Status.BLOCKED]
    await h.complete(await h.claim_one())
    assert [(await h.job(job_id)).status for job_id in (patient, cautious)] == [Status.PENDING, Status.PENDING]


@CASES
async def blocker_that_is_gone(h: Harness) -> None:
    """A job that would wait for a deleted chain is not retried: it would wait for ever."""
    blocker = await h.put_one()
    waiting = await send_one(h, behind(blocker))
    await cancel(h, waiting)
    await delete(h, blocker)
    batch = await retry(h, waiting)
    assert outcomes(batch) == ["blocker_gone"]
    assert blocker in (batch.results[0].why or "")
    assert (await h.job(waiting)).status is Status.CANCELLED


async def _circle(h: Harness, length: int) -> list[str]:
    """Chains of which each waits for the one before; the last is cancelled, and the first put behind it."""
    ids = [await send_one(h, keyed())]
    for _ in range(length - 1):
        ids.append(await send_one(h, behind(ids[-1])))
    await cancel(h, ids[-1])
    assert await send_one(h, keyed(on_conflict="replace", blockers=[ids[-1]])) == ids[0]
    return ids


async def _cycle(h: Harness, length: int) -> None:
    ids = await _circle(h, length)
    batch = await retry(h, ids[-1])
    assert (outcomes(batch), batch.woken) == (["blocker_cycle"], set())
    assert ids[-2] in (batch.results[0].why or "")
    assert (await h.job(ids[-1])).status is Status.CANCELLED
    assert audit(h)[-1] == ("ada", "retry", ids[-1], ids[-1], "blocker_cycle")
    # The way out that the refusal names.
    await cancel(h, ids[-2])
    assert outcomes(await retry(h, ids[-1])) == ["retried"]


for _length in (2, 3, 5):
    CASES.add(
        f"cycle_of_{_length}_is_refused",
        "A cancelled job is not put back behind a chain that waits for it meanwhile.",
        partial(_cycle, length=_length),
    )


@CASES
async def cycle_within_a_batch(h: Harness) -> None:
    """Of two that would wait for each other the first named waits, and the second is refused; strict does neither."""
    first, second = await _circle(h, 2)
    await cancel(h, first)
    await refused(BatchRefused, retry(h, second, first, orders=STRICT))
    assert outcomes(await retry(h, second, first)) == ["retried", "blocker_cycle"]
    assert [(await h.job(each)).status for each in (first, second)] == [Status.CANCELLED, Status.BLOCKED]


@CASES
async def cycle_of_a_later_job(h: Harness) -> None:
    """What a chain waits for further on counts too."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id))
    await cancel(h, waiting)
    await go_on(h, lease, more=Extras(blockers=[waiting]))
    assert outcomes(await retry(h, waiting)) == ["blocker_cycle"]


@CASES
async def cycle_over_one_that_was_told(h: Harness) -> None:
    """Who runs however it ends was told that it had; now it would wait again, and be waited for."""
    (lease, other) = await h.put_and_claim(2)
    retried = await send_one(h, behind(lease.id))
    await cancel(h, retried)
    waiting = await send_one(h, behind(retried, other.id, on_failure="run"))
    await go_on(h, lease, more=Extras(blockers=[waiting]))
    assert outcomes(await retry(h, retried)) == ["blocker_cycle"]
    assert (column(h, "waiting_for", waiting), (await h.job(retried)).status) == (1, Status.CANCELLED)


@CASES
async def blocker_that_has_failed(h: Harness) -> None:
    """Who is cancelled when a blocker fails is not retried to be cancelled again; with the blocker he is."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id, on_failure="cancel"))
    behind_it = await send_one(h, behind(waiting, on_failure="cancel"))
    await h.fail(lease, is_final=True)
    batch = await retry(h, waiting, behind_it)
    assert (outcomes(batch), batch.woken) == (["blocker_failed"] * 2, set())
    assert lease.id in str(batch.results[0].why)
    assert waiting in str(batch.results[1].why)
    assert (await h.job(waiting)).status is Status.CANCELLED
    assert audit(h)[0] == ("ada", "retry", waiting, waiting, "blocker_failed")
    error = await refused(BatchRefused, retry(h, waiting, orders=STRICT))
    assert list(error.refused) == [waiting]
    assert outcomes(await retry(h, behind_it, waiting, lease.id)) == ["retried"] * 3
    statuses = [(await h.job(each)).status for each in (lease.id, waiting, behind_it)]
    assert statuses == [Status.PENDING, Status.BLOCKED, Status.BLOCKED]
    await h.complete(await h.claim_one())
    assert (await h.job(waiting)).status is Status.PENDING


@CASES
async def blocker_that_has_failed_further_on(h: Harness) -> None:
    """The last job of the blocker's chain counts; who waits in any case waits."""
    (lease,) = await h.put_and_claim()
    cautious = await send_one(h, behind(lease.id, on_failure="cancel"))
    patient = await send_one(h, behind(lease.id, on_failure="wait"))
    await cancel(h, patient)
    await go_on(h, lease)
    await h.fail(await h.claim_one(), is_final=True)
    assert outcomes(await retry(h, cautious, patient)) == ["blocker_failed", "retried"]


@CASES
async def two_ways_to_one_chain_are_no_cycle(h: Harness) -> None:
    """Nor is a chain that waits for another one."""
    (lease,) = await h.put_and_claim()
    left, right = await send_one(h, behind(lease.id)), await send_one(h, behind(lease.id))
    bottom = await send_one(h, behind(left, right))
    await cancel(h, bottom, left)
    assert outcomes(await retry(h, bottom, left)) == ["retried", "retried"]


async def _key(h: Harness, scope: str) -> None:
    first = await send_one(h, keyed(scope=scope))
    await h.fail(await h.claim_one(), is_final=True)
    assert outcomes(await retry(h, first)) == ["retried"]
    again = await h.run(lambda: enqueue_guarded([keyed(scope=scope)], None))
    # A claim ends the scope `pending` for good.
    assert again[0].outcome is (Outcome.CREATED if scope == "pending" else Outcome.KEPT)


for _scope in ("pending", "unfinished", "forever"):
    CASES.add(f"takes_its_key_{_scope}", "A free key is held again.", partial(_key, scope=_scope))


@CASES
async def key_that_another_has_taken(h: Harness) -> None:
    """`key_taken` names the other; when that one has ended, the key goes over."""
    first = await send_one(h, keyed())
    await h.fail(await h.claim_one(), is_final=True)
    second = await send_one(h, keyed())
    assert second != first
    before = await h.state(first)
    batch = await retry(h, first)
    assert outcomes(batch) == ["key_taken"]
    assert second in (batch.results[0].why or "")
    assert await h.state(first) == before
    await h.complete(await h.claim_one())
    assert outcomes(await retry(h, first)) == ["retried"]
    assert await send_one(h, keyed()) == first


@CASES
async def key_of_a_renamed_type(h: Harness) -> None:
    """Another chain that holds it under another name of the type is seen; free, it is taken under all of them."""
    renaming = replace(ORDERS, aliases={"new": ("old",), "old": ("new",)})
    dead = await send_one(h, keyed(type_name="new"))
    await h.fail(await h.claim_one(), is_final=True)
    other = await send_one(h, keyed(type_name="old"))
    batch = await retry(h, dead, orders=renaming)
    assert (outcomes(batch), other in (batch.results[0].why or "")) == (["key_taken"], True)
    await h.complete(await h.claim_one())
    assert outcomes(await retry(h, dead, orders=renaming)) == ["retried"]
    assert {await send_one(h, keyed(type_name=name)) for name in ("old", "new")} == {dead}


@CASES
async def one_key_twice_in_a_batch(h: Harness) -> None:
    """Two dead letters of one key: the first named gets it, the second is told."""
    first = await send_one(h, keyed())
    await h.fail(await h.claim_one(), is_final=True)
    second = await send_one(h, keyed())
    await h.fail(await h.claim_one(), is_final=True)
    assert outcomes(await retry(h, first, second)) == ["retried", "key_taken"]
    assert await send_one(h, keyed()) == first


@CASES
async def key_of_a_chain_further_on(h: Harness) -> None:
    """The key is the chain's, so it is looked up for a later job too."""
    first = await send_one(h, keyed())
    await go_on(h, await h.claim_one())
    await h.fail(await h.claim_one(), is_final=True)
    other = await send_one(h, keyed())
    assert outcomes(await retry(h, first)) == ["key_taken"]
    await cancel(h, other)
    assert outcomes(await retry(h, first)) == ["retried"]
    assert await send_one(h, keyed()) == first


@CASES
async def key_without_a_row(h: Harness) -> None:
    """A key that nobody remembers is entered again; refused, nothing of that is left."""
    first = await send_one(h, keyed())
    await h.fail(await h.claim_one(), is_final=True)
    h.sql("DELETE FROM {deduplication}")
    await refused(BatchRefused, retry(h, first, new_id(), orders=STRICT))
    assert h.count("deduplication") == 0
    assert (await h.job(first)).status is Status.DEAD_LETTER
    assert outcomes(await retry(h, first)) == ["retried"]
    assert await send_one(h, keyed()) == first


@CASES
async def unused_entries_are_taken_back(h: Harness) -> None:
    """A job that is not retried for another reason does not take its key."""
    first = await send_one(h, keyed(scope="forever"))
    await h.complete(await h.claim_one())
    h.sql("DELETE FROM {deduplication}")
    assert outcomes(await retry(h, first)) == ["wrong_status"]
    assert h.count("deduplication") == 0


@CASES
async def strict_is_all_or_nothing(h: Harness) -> None:
    """One that cannot be retried, and none is."""
    dead, pending = await dead_letter(h), await h.put_one()
    error = await refused(BatchRefused, retry(h, dead, pending, orders=STRICT))
    assert list(error.refused) == [pending]
    assert (await h.job(dead)).status is Status.DEAD_LETTER
    assert audit(h) == []


@CASES
async def is_recorded(h: Harness) -> None:
    """Who retried what."""
    dead = await dead_letter(h)
    await retry(h, dead)
    assert audit(h) == [("ada", "retry", dead, dead, "retried")]


@CASES
async def races_enqueues_with_the_key(h: Harness) -> None:
    """Against enqueues with the same key: never two that hold it."""
    stores = h.neighbours(3)
    for number in range(_RACES):
        key = f"k{number}"
        dead = await send_one(h, keyed(key))
        await h.fail(await h.claim_one(), is_final=True)
        batch, first, second = await asyncio.gather(
            stores[0].run(partial(retry_jobs, [dead], ORDERS)),
            stores[1].run(partial(enqueue_guarded, [keyed(key)], None)),
            stores[2].run(partial(enqueue_guarded, [keyed(key)], None)),
        )
        holders = {results[0].id for results in (first, second)}
        assert len(holders) == 1
        retried = outcomes(batch) == ["retried"]
        assert (holders == {dead}) is retried
        living = h.sql("SELECT count(*) FROM {job} WHERE deduplication_key = :key AND status = 'pending'", key=key)
        assert living[0][0] == 1
        await h.complete(*(lease_of(claimed) for claimed in await h.claim()))


@CASES
async def races_itself(h: Harness) -> None:
    """Retried by several at once: one does it, and it runs once."""
    stores = h.neighbours(3)
    for _ in range(_RACES // 3):
        dead = await dead_letter(h)
        batches = await asyncio.gather(*(store.run(partial(retry_jobs, [dead], ORDERS)) for store in stores))
        assert sorted(outcome for batch in batches for outcome in outcomes(batch)) == [
            "retried",
            "wrong_status",
            "wrong_status",
        ]
        await h.complete(await h.claim_one())


@CASES
async def races_the_blockers_end(h: Harness) -> None:
    """Against the completion of what it waits for: never blocked for good."""
    stores = h.neighbours(2)
    for _ in range(_RACES // 2):
        (lease,) = await h.put_and_claim()
        waiting = await send_one(h, behind(lease.id, queue="later"))
        await cancel(h, waiting)
        _, settlement = await asyncio.gather(
            stores[0].run(partial(retry_jobs, [waiting], ORDERS)),
            h.complete(lease),
        )
        if settlement.locked:
            await h.complete(lease)
        assert (await h.job(waiting)).status is Status.PENDING


async def haste_passes_locked_rows(h: Harness) -> None:
    """Jobs and keys that somebody has locked are reported, the others retried."""
    ids = [await dead_letter(h) for _ in range(3)]
    ids.append(await send_one(h, keyed("busy")))
    await h.fail(await h.claim_one(), is_final=True)
    with (
        h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=ids[1]),
        h.holding("SELECT key FROM {deduplication} FOR UPDATE"),
    ):
        assert outcomes(await retry(h, *ids, orders=HASTY)) == ["retried", "locked", "retried", "locked"]
    assert outcomes(await retry(h, ids[1], ids[3], orders=HASTY)) == ["retried", "retried"]


CASES.on_postgres(haste_passes_locked_rows)


@CASES
async def future_time_stays(h: Harness) -> None:
    """A job that was cancelled before its time is retried for that time."""
    job_id = await h.put_one(at=h.now + timedelta(days=1))
    await cancel(h, job_id)
    await retry(h, job_id)
    assert await h.claim() == []
    job = await h.job(job_id)
    assert (job.status, job.ready_at, job.scheduled_at) == (Status.PENDING, job.scheduled_at, h.now + timedelta(days=1))
    h.clock.advance(timedelta(days=1))
    assert [claimed.id for claimed in await h.claim()] == [job_id]
