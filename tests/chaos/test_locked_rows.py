"""A user's transaction keeps rows locked for longer than leases last: everything else goes on, and no lease is lost."""

from __future__ import annotations

import random
import time

import psycopg
import pytest

from tests.crew.accounts import Accounts, load, settle
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_locked_rows_hold_up_nobody(crew: Crew, database: Database, dice: random.Random) -> None:
    """Of two running jobs one wants to complete and the other to be renewed; both rows are locked for 6 s."""
    workers = [crew.start(STEADY) for _ in range(2)]
    finishing, renewing = crew.gate("finishing"), crew.gate("renewing")
    with crew.jobs.app.client() as client:
        first = client.enqueue(crew.jobs.hold.call(number=-1, gate=str(finishing)))
        second = client.enqueue(crew.jobs.hold.call(number=-2, gate=str(renewing)))
    crew.ledger.wait("started", 2)
    with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0.01, 0.2]))) as storm:
        with psycopg.connect(database.url) as user:
            user.execute("SELECT FROM holdfast.job WHERE id = ANY (%s::uuid[]) FOR UPDATE", [[first.id, second.id]])
            finishing.touch()
            seen = len(crew.ledger.read("finished"))
            time.sleep(6)  # longer than the lease
            # Nobody waited for the two.
            assert len(crew.ledger.read("finished")) > seen + 200
            user.rollback()
        database.wait_status(first.id, "completed")
        time.sleep(2)  # several rounds of renewals and reapers
        renewing.touch()

    accounts = settle(crew, database, storm.enqueued | {-1, -2})

    print(f"{len(storm.enqueued)} jobs, {accounts}")
    assert accounts == Accounts(lost=0, doubled=0, stuck=0)
    assert {row.lease_generation for row in database.jobs()} == {1}
    assert database.query(f"SELECT count(*) FROM {database.table('job_attempt')}") == [(0,)]
    assert [worker.stop() for worker in workers] == [0, 0]
