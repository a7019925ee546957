"""Blockers: a blocked job never starts before its blockers allow it, and never stays blocked after."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.errors import BlockerCycle, ChainNotFound, InvalidOption
from holdfast.model.call import Extras, JobDocument
from holdfast.model.clock import iso
from holdfast.model.ids import new_id
from holdfast.model.job import Outcome
from holdfast.model.status import Status
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.enqueue_guarded import Enqueued, enqueue_guarded
from holdfast.operations.lease import Lease
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.sweep_blockers import sweep_blockers
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, refused
from holdfast.testing.conformance.people import cancel, retry

CASES = Cases("settle_chains")

_RACES = 40


def behind(*blockers: str, on_failure: str | None = None, **fields: Any) -> JobDocument:
    """A job that waits for these chains."""
    return document(more=Extras(blockers=list(blockers), on_blocker_failure=on_failure), **fields)


async def send(h: Harness, *jobs: JobDocument) -> list[Enqueued]:
    return await h.run(lambda: enqueue_guarded(jobs, None))


async def _status(h: Harness, job_id: str) -> Status:
    return (await h.job(job_id)).status


async def _waits_for(h: Harness, job_id: str) -> int:
    return int(h.sql("SELECT waiting_for FROM {job} WHERE id = :id", id=job_id)[0][0])


@CASES
async def waits_and_wakes(h: Harness) -> None:
    """Blocked until its blocker has completed; then due at once, behind what was due before."""
    (lease,) = await h.put_and_claim()
    (blocked,) = await send(h, behind(lease.id))
    assert (blocked.outcome, blocked.status) == (Outcome.CREATED, Status.BLOCKED)
    assert await h.claim() == []
    h.clock.advance(1)
    due_before = await h.put_one()
    h.clock.advance(1)
    settlement = await h.complete(lease)
    assert (settlement.woken, settlement.unsettled) == ({"default"}, set())
    job = await h.job(blocked.id)
    assert (job.status, job.ready_at) == (Status.PENDING, h.now)
    assert [claimed.id for claimed in await h.claim()] == [due_before, blocked.id]


@CASES
async def finished_blocker_does_not_block(h: Harness) -> None:
    """It runs at once; a mixed batch gets each of its jobs right."""
    done, open_ = await h.put_and_claim(2)
    await h.complete(done)
    results = await send(h, behind(done.id), behind(done.id, open_.id), document(), behind(open_.id))
    assert [result.status for result in results] == ["pending", "blocked", "pending", "blocked"]
    assert [await _waits_for(h, result.id) for result in results] == [0, 1, 0, 1]


@CASES
async def future_time_stays(h: Harness) -> None:
    """An unblocked job keeps a future time."""
    (lease,) = await h.put_and_claim()
    later = h.now + timedelta(hours=1)
    (blocked,) = await send(h, behind(lease.id, at=later))
    await h.complete(lease)
    job = await h.job(blocked.id)
    assert (job.status, job.ready_at) == (Status.PENDING, later)


@CASES
async def several_and_shared(h: Harness) -> None:
    """All blockers must end; one that is shared wakes all who wait for it."""
    first, second = await h.put_and_claim(2)
    results = await send(h, behind(first.id, second.id), behind(first.id), behind(second.id, first.id))
    await h.complete(first)
    assert [await _status(h, result.id) for result in results] == ["blocked", "pending", "blocked"]
    await h.complete(second)
    assert [await _status(h, result.id) for result in results] == ["pending"] * 3


@CASES
async def both_in_one_batch(h: Harness) -> None:
    """Two blockers of a job that end in one statement count twice."""
    leases = await h.put_and_claim(2)
    (blocked,) = await send(h, behind(*(lease.id for lease in leases)))
    await h.complete(*leases)
    assert (await _status(h, blocked.id), await _waits_for(h, blocked.id)) == (Status.PENDING, 0)


@CASES
async def chain_counts_when_it_ends(h: Harness) -> None:
    """A blocker that goes on with another job has not ended."""
    (lease,) = await h.put_and_claim()
    (blocked,) = await send(h, behind(lease.id))
    following = document(type_name="next")
    await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, following)]))
    assert await _status(h, blocked.id) is Status.BLOCKED
    (another,) = await send(h, behind(lease.id))
    assert another.status is Status.BLOCKED
    await h.complete(await h.claim_one())
    assert [await _status(h, each.id) for each in (blocked, another)] == ["pending", "pending"]


@CASES
async def chain_of_the_same_batch(h: Harness) -> None:
    """It may come before or after the job that waits for it."""
    first, last = new_id(), new_id()
    results = await send(h, behind(last, id=new_id()), document(id=last), document(id=first), behind(first, last))
    assert [result.status for result in results] == ["blocked", "pending", "pending", "blocked"]
    for job in await h.claim():
        await h.complete(Lease(job.id, job.lease_generation))
    assert [await _status(h, results[place].id) for place in (0, 3)] == ["pending", "pending"]


async def _failure(h: Harness, policy: str | None, expected: str, when: str) -> None:
    (lease,) = await h.put_and_claim()
    if when == "before":
        await h.fail(lease, is_final=True)
    (job,) = await send(h, behind(lease.id, on_failure=policy))
    (dependant,) = await send(h, behind(job.id, on_failure="cancel", queue="other"))
    if when == "after":
        await h.fail(lease, is_final=True)
    assert await _status(h, job.id) == expected
    cascaded = Status.CANCELLED if expected == "cancelled" else Status.BLOCKED
    assert await _status(h, dependant.id) is cascaded
    if expected == "cancelled":
        error = (await h.job(job.id)).last_attempt_error
        assert error is not None
        assert error.type == "BlockerFailed"
        assert (await h.job(job.id)).finished_at == h.now


for _policy, _expected in ((None, "blocked"), ("wait", "blocked"), ("cancel", "cancelled"), ("run", "pending")):
    for _when in ("before", "after"):
        CASES.add(
            f"dead_blocker_{_policy or 'default'}_{_when}",
            "A blocker that ends as a dead letter: wait, cancel (and so on along the graph), or run, as asked.",
            partial(_failure, policy=_policy, expected=_expected, when=_when),
        )


@CASES
async def retried_blocker_resumes_the_graph(h: Harness) -> None:
    """Dead, sent back, completed: whoever waited goes on."""
    (lease,) = await h.put_and_claim()
    (job,) = await send(h, behind(lease.id))
    await h.fail(lease, is_final=True)
    assert await _status(h, job.id) is Status.BLOCKED
    h.sql("UPDATE {job} SET status = 'pending', finished_at = NULL, attempt = 0 WHERE id = :id", id=lease.id)
    await h.complete(await h.claim_one())
    assert await _status(h, job.id) is Status.PENDING


@CASES
async def settling_again_changes_nothing(h: Harness) -> None:
    """And chains that have not ended, or that nobody waits for, are passed over."""
    done, open_ = await h.put_and_claim(2)
    (job,) = await send(h, behind(done.id, open_.id))
    await h.complete(done)
    for _ in range(2):
        assert await h.run(lambda: settle_chains([done.id, open_.id, new_id()])) == set()
    assert (await _status(h, job.id), await _waits_for(h, job.id)) == (Status.BLOCKED, 1)


@CASES
async def unknown_blocker(h: Harness) -> None:
    """A typed error that names it; nothing is written. A later job's id is not a chain's."""
    (lease,) = await h.put_and_claim()
    following = document(type_name="next")
    await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, following)]))
    for wrong in (new_id(), following.id):
        error = await refused(ChainNotFound, send(h, document(), behind(wrong)))
        assert error.chain_id == wrong
    assert h.count("job") == 2


@CASES
async def cycles_are_refused(h: Harness) -> None:
    """A job behind itself, or two behind each other."""
    one, two = new_id(), new_id()
    await refused(BlockerCycle, send(h, behind(one, id=one)))
    await refused(BlockerCycle, send(h, behind(two, id=one), behind(one, id=two)))
    keyed = document(id=one, more=Extras(deduplication_key="k", deduplication_scope="unfinished"))
    await refused(InvalidOption, send(h, keyed, behind(one)))
    assert (h.count("job"), h.count("job_blocker"), h.count("deduplication")) == (0, 0, 0)


@CASES
async def replacing_into_a_cycle_is_refused(h: Harness) -> None:
    """A waiting job cannot be put behind one that waits for it."""

    def keyed(*blockers: str) -> JobDocument:
        extras = Extras(deduplication_key="k", deduplication_scope="unfinished", on_conflict="replace")
        extras.blockers = list(blockers) or None
        return document(more=extras)

    (first,) = await send(h, keyed())
    (second,) = await send(h, behind(first.id))
    error = await refused(BlockerCycle, send(h, keyed(second.id)))
    assert error.chain_id == first.id
    assert await _status(h, first.id) is Status.PENDING


def _replacing(key: str, *blockers: str) -> JobDocument:
    extras = Extras(deduplication_key=key, deduplication_scope="unfinished", on_conflict="replace")
    extras.blockers = list(blockers) or None
    return document(more=extras)


@CASES
async def replacing_each_other_into_a_cycle_is_refused(h: Harness) -> None:
    """Two jobs of one batch that take the places of others, each behind the other's: neither is written."""
    (first, second) = await send(h, _replacing("a"), _replacing("b"))
    batch = [_replacing("a", second.id), _replacing("b", first.id), _replacing("new"), document()]
    await refused(BlockerCycle, send(h, *batch))
    assert (h.count("job"), h.count("job_blocker"), h.count("deduplication")) == (2, 0, 2)
    assert [(await h.job(each.id)).revision for each in (first, second)] == [0, 0]


@CASES
async def replacing_behind_a_new_job_into_a_cycle_is_refused(h: Harness) -> None:
    """The same over a job that is new, and over one that is there."""
    (first,) = await send(h, _replacing("a"))
    (there,) = await send(h, behind(first.id))
    new = new_id()
    await refused(BlockerCycle, send(h, behind(first.id, id=new), _replacing("a", new)))
    await refused(BlockerCycle, send(h, behind(there.id, id=new), _replacing("a", new)))
    assert (h.count("job"), h.count("job_blocker"), h.count("deduplication")) == (2, 1, 1)


@CASES
async def replacing_turns_a_wait_round(h: Harness) -> None:
    """What a job waited for before it was replaced counts no more, in the same batch either."""
    (first, second) = await send(h, _replacing("a"), _replacing("b"))
    await send(h, _replacing("a", second.id))
    results = await send(h, _replacing("b", first.id), _replacing("a"))
    assert [(each.outcome, each.status) for each in results] == [("replaced", "blocked"), ("replaced", "pending")]
    await h.complete(await h.claim_one())
    assert await _status(h, second.id) is Status.PENDING


@CASES
async def retried_blocker_is_waited_for_again(h: Harness) -> None:
    """Who runs however its blockers end still waits for one that had ended and begins anew."""
    first, second = await h.put_and_claim(2)
    (waiting,) = await send(h, behind(first.id, second.id, on_failure="run"))
    await h.fail(first, is_final=True)
    assert await _waits_for(h, waiting.id) == 1
    await retry(h, first.id)
    assert await _waits_for(h, waiting.id) == 2
    await h.complete(second)
    assert await _status(h, waiting.id) is Status.BLOCKED
    again = await h.claim_one()
    assert again.id == first.id
    await h.complete(again)
    assert (await _status(h, waiting.id), await _waits_for(h, waiting.id)) == (Status.PENDING, 0)


@CASES
async def retried_blocker_is_not_waited_for_by_those_who_run(h: Harness) -> None:
    """Who was released when it ended is left alone; who was cancelled meanwhile waits for it if he is retried."""
    first, second = await h.put_and_claim(2)
    (released, cancelled) = await send(
        h, behind(first.id, on_failure="run"), behind(first.id, second.id, on_failure="run")
    )
    await h.fail(first, is_final=True)
    await cancel(h, cancelled.id)
    await retry(h, first.id, cancelled.id)
    assert [await _waits_for(h, each.id) for each in (released, cancelled)] == [0, 2]
    assert [await _status(h, each.id) for each in (released, cancelled)] == [Status.PENDING, Status.BLOCKED]


@CASES
async def sweep_finds_what_a_crash_left(h: Harness) -> None:
    """Ended, and nobody told: the sweep does. What waits rightly is left alone."""
    crashed, open_, dead = await h.put_and_claim(3)
    results = await send(h, behind(crashed.id), behind(open_.id), behind(dead.id), behind(dead.id, on_failure="run"))
    h.sql(
        "UPDATE {job} SET status = 'completed', finished_at = :now, leased_by = NULL, leased_until = NULL "
        "WHERE id = :id",
        now=iso(h.now),
        id=crashed.id,
    )
    h.sql(
        "UPDATE {job} SET status = 'dead_letter', finished_at = :now, leased_by = NULL, leased_until = NULL "
        "WHERE id = :id",
        now=iso(h.now),
        id=dead.id,
    )
    swept = await h.run(lambda: sweep_blockers(None))
    assert (swept.next_after, swept.settled, swept.woken) == (None, 2, {"default"})
    assert [await _status(h, each.id) for each in results] == ["pending", "blocked", "blocked", "pending"]


@CASES.on_postgres
async def locked_dependant_holds_up_nobody(h: Harness) -> None:
    """Somebody has a blocked job locked: its blocker completes all the same, and the sweep tells it later."""
    leases = await h.put_and_claim(3)
    results = await send(h, *(behind(lease.id) for lease in leases))
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=results[1].id):
        settlement = await h.complete(*leases)
        assert settlement.unsettled == {leases[1].id}
        assert [await _status(h, each.id) for each in results] == ["pending", "blocked", "pending"]
    assert await h.run(lambda: settle_chains([leases[1].id])) == {"default"}
    assert await _status(h, results[1].id) is Status.PENDING


@CASES
async def race_of_enqueue_and_completion(h: Harness) -> None:
    """Race: behind a chain that is just finishing, none stays blocked."""
    producer, worker = h.neighbours(2)
    leases = await h.put_and_claim(_RACES)
    blocked: list[str] = []
    for lease in leases:
        job = behind(lease.id, queue="dependants")
        await asyncio.gather(
            producer.run(partial(enqueue_guarded, [job], None)),
            _complete_until_done(worker, lease),
        )
        blocked.append(job.id)
    assert {await _status(h, job_id) for job_id in blocked} == {Status.PENDING}


@CASES
async def race_of_two_blockers(h: Harness) -> None:
    """Race: the last two blockers of a job end at the same moment."""
    stores = h.neighbours(2)
    for _ in range(_RACES // 2):
        pair = await h.put_and_claim(2)
        (job,) = await send(h, behind(pair[0].id, pair[1].id, queue="dependants"))
        settlements = await asyncio.gather(
            *(
                store.run(partial(complete_jobs, "w1", [Completion(lease.id, lease.lease_generation)]))
                for store, lease in zip(stores, pair, strict=True)
            )
        )
        unsettled = {chain_id for settlement in settlements for chain_id in settlement.unsettled}
        await h.run(partial(settle_chains, unsettled))
        assert await _status(h, job.id) is Status.PENDING


async def _complete_until_done(store: object, lease: Lease) -> None:
    """As a worker does: what is locked is tried again."""
    completions = [Completion(lease.id, lease.lease_generation)]
    while (await store.run(partial(complete_jobs, "w1", completions))).locked:  # type: ignore[attr-defined]  # noqa: ASYNC110 - as the worker
        await asyncio.sleep(0.001)
