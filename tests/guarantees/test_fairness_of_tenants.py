"""Fairness: in a queue that is fair by tenant, tenants take turns, whichever processes work for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tests.crew.database import Database
from tests.crew.process import BRISK, Crew
from tests.crew.waiting import wait_for

#: one has thousands of jobs, five have a few; the number of a job tells whose it is
BACKLOG = 4_000
FEW = 120
TENANTS = 6
SLOTS = 10


def test_tenants_take_turns_across_processes(crew: Crew, database: Database) -> None:
    """Those who have few jobs and came last are done early; while all have some, each gets about as many starts."""
    gate = crew.gate()
    with crew.jobs.app.client() as client:
        client.queues.limit("default", fair_by="tenant")
        for tenant, count in enumerate([BACKLOG, *([FEW] * (TENANTS - 1))]):
            call = crew.jobs.hold.call(number=tenant, gate=str(gate)).options(tenant=f"tenant {tenant}")
            client.enqueue_many([call] * count)
    workers = [crew.start(replace(BRISK, concurrency=SLOTS)) for _ in range(2)]

    def starts() -> list[int]:
        return [entry.number for entry in crew.ledger.read("started")]

    # Both have all slots full of jobs that wait: none of them does the work alone, however slow the other is to start.
    wait_for(lambda: len(starts()) >= 2 * SLOTS, "both are at work")
    assert {entry.pid for entry in crew.ledger.read("started")} == {worker.pid for worker in workers}
    gate.touch()
    wait_for(lambda: all(Counter(starts())[tenant] >= FEW for tenant in range(1, TENANTS)), "the few are done")
    for worker in workers:
        worker.kill()

    order = starts()
    done = max(place for place, tenant in enumerate(order) if tenant)
    assert Counter(order[:done])[0] < BACKLOG / 4
    shares = Counter(order[: FEW * TENANTS // 2])
    assert min(shares[tenant] for tenant in range(TENANTS)) * 3 > max(shares.values()), shares
