"""cancel_jobs: what waits ends at once, what runs is asked, what is over stays as it is."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from holdfast.errors import BatchRefused
from holdfast.model.control import ControlOutcome
from holdfast.model.ids import new_id, new_ids
from holdfast.model.job import JobError
from holdfast.model.status import Status
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.continue_jobs import go_on
from holdfast.testing.conformance.harness import Harness, document, lease_of, refused
from holdfast.testing.conformance.people import (
    EXACT,
    HASTY,
    ORDERS,
    STRICT,
    audit,
    cancel,
    column,
    dead_letter,
    outcomes,
    send,
    send_one,
)
from holdfast.testing.conformance.settle_chains import behind

CASES = Cases("cancel_jobs")

_RACES = 30


@CASES
async def pending_ends_at_once(h: Harness) -> None:
    """Cancelled, finished now, with the reason as its error; nobody claims it."""
    job_id, other = await h.put(2)
    h.clock.advance(3)
    batch = await cancel(h, job_id, reason="ordered twice")
    assert [(result.id, result.outcome, result.job_id) for result in batch.results] == [(job_id, "cancelled", job_id)]
    job = await h.job(job_id)
    assert (job.status, job.finished_at, job.attempt) == (Status.CANCELLED, h.now, 0)
    assert job.last_attempt_error == JobError("Cancelled", "ordered twice")
    assert column(h, "cancel_requested_at", job_id) is None
    assert [claimed.id for claimed in await h.claim()] == [other]


@CASES
async def blocked_ends_at_once(h: Harness) -> None:
    """And is not woken when its blocker completes later."""
    (lease,) = await h.put_and_claim()
    blocked = await send_one(h, behind(lease.id))
    assert outcomes(await cancel(h, blocked)) == ["cancelled"]
    assert (await h.job(blocked)).last_attempt_error == JobError("Cancelled", "cancelled by ada")
    await h.complete(lease)
    assert (await h.job(blocked)).status is Status.CANCELLED
    assert column(h, "waiting_for", blocked) == 0


@CASES
async def retrying_ends_at_once(h: Harness) -> None:
    """A job between two attempts waits like any other; its history stays."""
    (lease,) = await h.put_and_claim()
    await h.fail(lease)
    assert outcomes(await cancel(h, lease.id)) == ["cancelled"]
    assert ((await h.job(lease.id)).status, len(await h.attempts(lease.id))) == (Status.CANCELLED, 1)


@CASES
async def running_is_asked(h: Harness) -> None:
    """Its holder keeps it and may complete; the time of the first request stays."""
    (lease,) = await h.put_and_claim()
    asked_at = h.now
    assert outcomes(await cancel(h, lease.id)) == ["requested"]
    first = column(h, "cancel_requested_at", lease.id)
    assert first is not None
    h.clock.advance(5)
    assert outcomes(await cancel(h, lease.id)) == ["requested"]
    assert column(h, "cancel_requested_at", lease.id) == first
    job = await h.job(lease.id)
    assert (job.status, job.leased_by, job.finished_at) == (Status.RUNNING, "w1", None)
    assert asked_at < h.now
    assert not (await h.complete(lease)).lost
    assert (await h.job(lease.id)).status is Status.COMPLETED


@CASES
async def what_is_over_is_reported(h: Harness) -> None:
    """Finished jobs stay as they are, unknown ids are named, each in its place."""
    (lease,) = await h.put_and_claim()
    await h.complete(lease)
    dead = await dead_letter(h)
    nobody = new_id()
    before = [await h.state(job_id) for job_id in (lease.id, dead)]
    pending = await h.put_one()
    batch = await cancel(h, lease.id, nobody, pending, dead)
    assert outcomes(batch) == ["wrong_status", "not_found", "cancelled", "wrong_status"]
    assert [result.id for result in batch.results] == [lease.id, nobody, pending, dead]
    assert "completed" in (batch.results[0].why or "")
    assert [await h.state(job_id) for job_id in (lease.id, dead)] == before


@CASES
async def acts_on_the_tail(h: Harness) -> None:
    """A chain, and any job of it, names its last job; exactly one job is meant when that is said."""
    (lease,) = await h.put_and_claim()
    second, third = new_id(), new_id()
    await go_on(h, lease, id=second)
    await go_on(h, await h.claim_one(), id=third)
    assert outcomes(await cancel(h, lease.id, orders=EXACT)) == ["wrong_status"]
    batch = await cancel(h, lease.id, second)
    assert [(result.id, result.outcome, result.chain_id, result.job_id) for result in batch.results] == [
        (lease.id, "cancelled", lease.id, third),
        (second, "cancelled", lease.id, third),
    ]
    statuses = [(await h.job(job_id)).status for job_id in (lease.id, second, third)]
    assert statuses == [Status.COMPLETED, Status.COMPLETED, Status.CANCELLED]


async def _dependants(h: Harness, on_failure: str | None, expected: Status) -> None:
    blocker = await h.put_one(queue="elsewhere")
    direct = await send_one(h, behind(blocker, on_failure=on_failure, queue="woken"))
    behind_it = await send_one(h, behind(direct, on_failure="cancel"))
    batch = await cancel(h, blocker)
    assert (await h.job(direct)).status is expected
    is_cancelled = expected is Status.CANCELLED
    assert (await h.job(behind_it)).status is (Status.CANCELLED if is_cancelled else Status.BLOCKED)
    assert batch.woken == ({"woken"} if expected is Status.PENDING else set())


for _name, _on_failure, _expected in (
    ("wait", None, Status.BLOCKED),
    ("run", "run", Status.PENDING),
    ("cancel", "cancel", Status.CANCELLED),
):
    CASES.add(
        f"dependants_that_{_name}",
        "Whoever waits for a cancelled chain is told at once, along the graph.",
        partial(_dependants, on_failure=_on_failure, expected=_expected),
    )


@CASES
async def asking_tells_nobody(h: Harness) -> None:
    """A chain that is only asked to end has not ended."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id, on_failure="cancel"))
    await cancel(h, lease.id)
    assert (await h.job(waiting)).status is Status.BLOCKED


@CASES
async def strict_is_all_or_nothing(h: Harness) -> None:
    """One bad id, and nothing is changed, nor recorded; the error names it."""
    good, nobody = await h.put_one(), new_id()
    before = await h.state(good)
    error = await refused(BatchRefused, cancel(h, good, nobody, orders=STRICT))
    assert (error.verb, list(error.refused)) == ("cancel", [nobody])
    assert nobody in str(error)
    assert await h.state(good) == before
    assert audit(h) == []
    assert outcomes(await cancel(h, good, orders=STRICT)) == ["cancelled"]


@CASES
async def is_recorded(h: Harness) -> None:
    """Who, what, to which chain and job, and what came of it; the reason with it."""
    first, second = await h.put(2)
    nobody = new_id()
    await cancel(h, first, nobody, reason="spilt")
    await h.run(lambda: cancel_jobs([second, second], ORDERS))
    assert sorted(audit(h), key=str) == sorted(
        [
            ("ada", "cancel", first, first, "cancelled"),
            ("ada", "cancel", None, None, "not_found"),
            ("ada", "cancel", second, second, "cancelled"),
        ],
        key=str,
    )
    details = [row[0] for row in h.sql("SELECT detail FROM {audit} WHERE detail IS NOT NULL ORDER BY seq")]
    read = [json.loads(detail) if isinstance(detail, str) else detail for detail in details]
    assert {"reason": "spilt"} in read
    assert {"reason": "spilt", "asked": nobody} in read


@CASES
async def nothing_to_cancel(h: Harness) -> None:
    """An empty list is no error and leaves no record."""
    assert (await cancel(h)).results == []
    assert audit(h) == []


@CASES
async def large_batch(h: Harness) -> None:
    """Thousands in one call, each once."""
    ids = await h.put(2_000)
    assert set(outcomes(await cancel(h, *reversed(ids)))) == {"cancelled"}
    assert h.sql("SELECT count(*) FROM {job} WHERE status = 'cancelled'")[0][0] == 2_000
    assert h.count("audit") == 2_000


@CASES
async def races_claims(h: Harness) -> None:
    """Against a claim of the same job: cancelled and never run, or run and asked; nothing in between."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        job_id = await h.put_one()
        lanes = await h.lanes()
        batch, claimed = await asyncio.gather(
            stores[0].run(partial(cancel_jobs, [job_id], ORDERS)),
            h.claim(lanes=lanes),
        )
        (outcome,) = outcomes(batch)
        job = await h.job(job_id)
        if claimed:
            assert (outcome, job.status) == ("requested", Status.RUNNING)
            await h.complete(lease_of(claimed[0]))
        else:
            assert (outcome, job.status) == ("cancelled", Status.CANCELLED)


@CASES
async def races_completions(h: Harness) -> None:
    """Against the completion of the same job: the handler that finishes first wins, and whoever waits runs."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        (lease,) = await h.put_and_claim()
        waiting = await send_one(h, behind(lease.id, on_failure="cancel", queue="later"))
        batch, settlement = await asyncio.gather(
            stores[0].run(partial(cancel_jobs, [lease.id], ORDERS)),
            h.complete(lease),
        )
        assert outcomes(batch)[0] in {"requested", "wrong_status"}
        if settlement.locked:
            await h.complete(lease)
        assert (await h.job(lease.id)).status is Status.COMPLETED
        assert (await h.job(waiting)).status is Status.PENDING


@CASES
async def races_continuations(h: Harness) -> None:
    """Against the step to the next job of the chain: the next one is cancelled, or the first was asked before."""
    stores = h.neighbours(2)
    for _ in range(_RACES):
        (lease,) = await h.put_and_claim()
        following = new_id()
        batch, settlement = await asyncio.gather(
            stores[0].run(partial(cancel_jobs, [lease.id], ORDERS)),
            go_on(h, lease, id=following, queue="later"),
        )
        (result,) = batch.results
        if result.job_id == following:
            assert result.outcome == "cancelled"
            assert (await h.job(following)).status is Status.CANCELLED
        else:
            assert (result.outcome, result.job_id) == ("requested", lease.id)
            if settlement.locked:
                await go_on(h, lease, id=following, queue="later")


@CASES
async def opposite_batches(h: Harness) -> None:
    """Two that name the same chains in opposite order: no deadlock, each cancelled once.

    Who waits has a smaller id than what he waits for: to tell him only in the end would be against the order of locks.
    """
    stores = h.neighbours(2)
    for _ in range(10):
        made = new_ids(80)
        waiting, ids = made[:40], made[40:]
        await h.enqueue(*(document(id=job_id) for job_id in ids))
        places = zip(waiting, ids, strict=True)
        await send(h, *(behind(blocker, on_failure="cancel", id=job_id) for job_id, blocker in places))
        everything = [*ids, *waiting]
        batches = await asyncio.gather(
            stores[0].run(partial(cancel_jobs, everything, ORDERS)),
            stores[1].run(partial(cancel_jobs, ids[::-1], ORDERS)),
        )
        first, second = ([result.outcome for result in batch.results if result.id in set(ids)] for batch in batches)
        assert first.count(ControlOutcome.CANCELLED) + second.count(ControlOutcome.CANCELLED) == len(ids)
        states = {(await h.job(job_id)).status for job_id in everything}
        assert states == {Status.CANCELLED}


async def haste_passes_locked_rows(h: Harness) -> None:
    """One row of 500 is locked by somebody: the others are cancelled at once, and that one is reported as locked."""
    ids = await h.put(500)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=ids[7]):
        batch = await cancel(h, *ids, orders=HASTY)
    assert [result.id for result in batch.results if result.outcome == "locked"] == [ids[7]]
    assert outcomes(batch).count(ControlOutcome.CANCELLED) == 499
    assert outcomes(await cancel(h, *ids, orders=HASTY))[7] == "cancelled"
    assert h.count("audit") == 499 + 500


CASES.on_postgres(haste_passes_locked_rows)
