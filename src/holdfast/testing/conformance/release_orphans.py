"""release_orphans: what a worker holds without knowing it goes back."""

from __future__ import annotations

from holdfast.model.call import Extras
from holdfast.model.status import Status
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.release_jobs import release_orphans
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, ids_of

CASES = Cases("release_orphans")


async def _release(h: Harness, *known: str, worker: str = "w1") -> set[str]:
    return set((await h.run(lambda: release_orphans(worker, known))).jobs)


@CASES
async def gives_back_what_the_worker_does_not_know(h: Harness) -> None:
    """Unknown jobs become pending at their old place with the attempt refunded; known ones stay."""
    leases = await h.put_and_claim(3)
    h.clock.advance(5)
    assert await _release(h, leases[1].id) == {leases[0].id, leases[2].id}
    job = await h.job(leases[0].id)
    assert (job.status, job.attempt, job.lease_generation, job.leased_by) == (Status.PENDING, 0, 1, None)
    assert job.ready_at == job.created_at
    assert (await h.job(leases[1].id)).status is Status.RUNNING
    assert ids_of(await h.claim()) == [leases[0].id, leases[2].id]


@CASES
async def knowing_nothing_gives_back_all(h: Harness) -> None:
    """An empty list of known jobs is not a list of none to release."""
    leases = await h.put_and_claim(3)
    assert await _release(h) == set(ids_of(leases))


@CASES
async def leaves_other_workers_jobs(h: Harness) -> None:
    """Only the asking worker's own."""
    leases = await h.put_and_claim(2, worker="w2")
    assert await _release(h, worker="w1") == set()
    assert (await h.job(leases[0].id)).leased_by == "w2"


@CASES
async def leaves_finished_jobs(h: Harness) -> None:
    """Completed, failed and waiting jobs are not held."""
    done, failed = await h.put_and_claim(2)
    await h.complete(done)
    await h.fail(failed)
    await h.put()
    assert await _release(h) == set()
    assert (await h.job(failed.id)).attempt == 1


@CASES.on_postgres
async def locked_jobs_wait_for_the_next_time(h: Harness) -> None:
    """A row that somebody has locked is passed over."""
    first, second = await h.put_and_claim(2)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=first.id):
        assert await _release(h) == {second.id}
    assert await _release(h) == {first.id}


@CASES
async def tells_whose_queue_has_work_again(h: Harness) -> None:
    """That of what went back; and of who waited for what was cancelled instead."""
    plain, asked = [await h.put_one(queue=queue) for queue in ("a", "b")]
    assert len(await h.claim(queues=["a", "b"])) == 2
    waiting = document(queue="c", more=Extras(blockers=[asked], on_blocker_failure="run"))
    await h.run(lambda: enqueue_guarded([waiting], None))
    h.sql("UPDATE {job} SET cancel_requested_at = created_at WHERE id = :id", id=asked)
    jobs, woken, cancelled = await h.run(lambda: release_orphans("w1", ()))
    assert (set(jobs), woken, cancelled) == ({plain, asked}, {"a", "b", "c"}, {asked})
    assert await h.run(lambda: release_orphans("w1", ())) == ([], set(), set())
