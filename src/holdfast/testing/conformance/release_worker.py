"""list_workers, release_worker: who works here, and taking everything from one of them."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.operating import WorkerRecord, WorkerRelease
from holdfast.model.status import Status
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.control import Orders
from holdfast.operations.leadership import acquire_leadership
from holdfast.operations.list_workers import list_workers
from holdfast.operations.release_worker import release_worker
from holdfast.operations.worker_life import WorkerIdentity, forget_workers, register_worker
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, Harness, ids_of

CASES = Cases("release_worker")


async def _list(h: Harness) -> list[WorkerRecord]:
    return await h.run(list_workers, read_only=True)


async def _release(h: Harness, worker: str = "w1") -> WorkerRelease:
    return (await h.run(lambda: release_worker(worker, "ada"))).release


def _audit(h: Harness) -> list[tuple[object, ...]]:
    text = "SELECT actor, verb, outcome, CAST(job_id AS text), CAST(detail AS text) FROM {audit} ORDER BY seq"
    return [tuple(row) for row in h.sql(text)]


@CASES
async def lists_who_works_here(h: Harness) -> None:
    """What each said of itself, how long it has been silent, what it holds, and which one leads."""
    identity = WorkerIdentity(id="w1", version="1.2.3", queues=["mail", "naïve ✓"], metadata={"host": "a", "pid": 7})
    await h.run(lambda: register_worker(identity))
    began = h.now
    h.clock.advance(2)
    await h.register("w2")
    await h.put_and_claim(3, worker="w2")
    await h.run(lambda: acquire_leadership("w2", timedelta(seconds=15)))
    h.clock.advance(1)
    first, second = await _list(h)
    assert first == WorkerRecord(
        id="w1",
        status="alive",
        started_at=began,
        last_seen_at=began,
        version="1.2.3",
        queues=["mail", "naïve ✓"],
        metadata={"host": "a", "pid": 7},
        running=0,
        is_leader=False,
        silent_ms=3000,
    )
    assert (second.id, second.running, second.is_leader, second.silent_ms) == ("w2", 3, True, 1000)
    h.clock.advance(15)
    assert not any(worker.is_leader for worker in await _list(h))


@CASES
async def its_jobs_go_back_untouched(h: Harness) -> None:
    """Attempt refunded, place kept, under the old generation; those of others stay, and it is on record who did it."""
    await h.register("w1", "w2")
    mine = await h.put_and_claim(2)
    other = await h.put_and_claim(1, worker="w2")
    release = await _release(h)
    assert release == WorkerRelease(worker_id="w1", is_known=True, released=sorted(ids_of(mine)), locked=[])
    job = await h.job(mine[0].id)
    assert (job.status, job.attempt, job.lease_generation, job.leased_by) == (Status.PENDING, 0, 1, None)
    assert (await h.job(other[0].id)).leased_by == "w2"
    assert sorted(_audit(h), key=str) == [
        ("ada", "release_workers", "released", job_id, '{"worker":"w1"}') for job_id in sorted(ids_of(mine))
    ]
    assert sorted(ids_of(await h.claim(worker="w2"))) == sorted(ids_of(mine))


@CASES
async def the_former_holder_is_fenced(h: Harness) -> None:
    """Before and after somebody else has claimed the job, what the worker sends of it is refused."""
    await h.register("w1")
    (lease,) = await h.put_and_claim(1)
    await _release(h)
    assert (await h.complete(lease)).lost == {lease.id}
    assert (await h.renew(lease)).lost == {lease.id}
    (again,) = await h.claim(worker="w2")
    assert again.lease_generation == 2
    assert (await h.complete(lease)).lost == {lease.id}
    assert (await h.job(lease.id)).leased_by == "w2"


@CASES
async def a_worker_that_lives_stays_registered(h: Harness) -> None:
    """What it claims next is not to be taken for a dead worker's; a dead one's row goes."""
    await h.register("w1")
    await h.put_and_claim(1)
    await _release(h)
    assert [worker.status for worker in await _list(h)] == ["alive"]
    h.clock.advance(DEAD_AFTER * 2)
    await h.run(lambda: forget_workers(DEAD_AFTER))
    assert [worker.status for worker in await _list(h)] == ["dead"]
    assert (await _release(h)).released == []
    assert await _list(h) == []


@CASES
async def a_worker_without_a_row_may_hold_jobs(h: Harness) -> None:
    """They are found by its name all the same."""
    (lease,) = await h.put_and_claim(1, worker="ghost")
    assert (await _release(h, "ghost")).released == [lease.id]


@CASES
async def nobody_of_that_name(h: Harness) -> None:
    """Said, and put on record."""
    assert await _release(h, "w9") == WorkerRelease(worker_id="w9", is_known=False, released=[], locked=[])
    assert _audit(h) == [("ada", "release_workers", "not_found", None, '{"worker":"w9"}')]


@CASES
async def cancelled_jobs_do_not_go_back(h: Harness) -> None:
    """What somebody asked to cancel is cancelled."""
    await h.register("w1")
    (lease,) = await h.put_and_claim(1)
    await h.run(lambda: cancel_jobs([lease.id], Orders()))
    assert (await _release(h)).released == [lease.id]
    assert (await h.job(lease.id)).status is Status.CANCELLED


@CASES.on_postgres
async def locked_jobs_are_named(h: Harness) -> None:
    """A row that somebody has locked is not waited for."""
    await h.register("w1")
    first, second = await h.put_and_claim(2)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=first.id):
        release = await _release(h)
    assert (release.released, release.locked) == ([second.id], [first.id])
    assert (await _release(h)).released == [first.id]
