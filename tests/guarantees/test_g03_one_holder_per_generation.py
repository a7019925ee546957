"""G3: Two workers never hold the same job under the same generation."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.lease import Lease
from holdfast.operations.release_jobs import release_jobs
from tests.crew.database import Database
from tests.crew.process import BRISK, Crew

LEASE = timedelta(seconds=60)


def test_threads_with_connections_of_their_own_claim_disjoint_jobs(crew: Crew) -> None:
    """Eight claimers start at one barrier, claim in small batches, and give every third batch back."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(400)])
    barrier = threading.Barrier(8)

    def claimer(name: str) -> list[tuple[str, int]]:
        store = crew.jobs.app.store.sync()
        claimed: list[tuple[str, int]] = []
        barrier.wait()
        for turn in range(1000):
            found = store.run(lambda: find_lanes(["default"]), read_only=True)
            if not found:
                break
            lanes = [Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1) for lane in found]
            batch = store.run(partial(claim_jobs, name, lanes, 5, LEASE))
            claimed += [(job.id, job.lease_generation) for job in batch]
            if turn % 3 == 0:
                leases = [Lease(job.id, job.lease_generation) for job in batch]
                store.run(partial(release_jobs, leases))
        store.close()
        return claimed

    with ThreadPoolExecutor(8) as pool:
        claims = [claim for claimed in pool.map(claimer, [f"w{n}" for n in range(8)]) for claim in claimed]

    assert set(Counter(claims).values()) == {1}
    assert len({job_id for job_id, _ in claims}) == 400
    assert len(claims) > 400


def test_worker_processes_share_one_backlog_without_sharing_a_job(crew: Crew, database: Database) -> None:
    """Four processes; every (job, generation) is delivered once, and undisturbed work is delivered once altogether."""
    with crew.jobs.app.client() as client:
        client.enqueue_many([crew.jobs.note.call(number=number) for number in range(1500)])
    for _ in range(4):
        crew.start(BRISK)

    statuses = database.wait_finished()

    assert statuses == {"completed": 1500}
    assert crew.ledger.started_twice() == []
    assert sorted(entry.number for entry in crew.ledger.read("finished")) == list(range(1500))
    assert len({entry.pid for entry in crew.ledger.read("started")}) > 1
