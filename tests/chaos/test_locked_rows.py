"""A user's transaction keeps rows locked for longer than leases last: everything else goes on, and no lease is lost."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.crew.accounts import Accounts, load, settle
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew
from tests.crew.report import say
from tests.crew.waiting import wait_for


def leased_until(database: Database, job_id: str) -> datetime:
    """Until when, or never again if the lease was lost."""
    found = database.query(f"SELECT leased_until FROM {database.job} WHERE id = '{job_id}'")[0][0]
    return found or datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_locked_rows_hold_up_nobody(crew: Crew, database: Database, dice: random.Random) -> None:
    """Of two running jobs one wants to complete and the other to be renewed; both rows are locked, three times."""
    config = replace(STEADY, lease=timedelta(seconds=1.5))
    workers = [crew.start(config) for _ in range(2)]
    finishing, renewing = crew.gate("finishing"), crew.gate("renewing")
    with crew.jobs.app.client() as client:
        first = client.enqueue(crew.jobs.hold.call(number=-1, gate=str(finishing)))
        second = client.enqueue(crew.jobs.hold.call(number=-2, gate=str(renewing)))
    crew.ledger.wait("started", 2)
    with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0.01, 0.2]))) as storm:
        for turn in range(3):
            with psycopg.connect(database.url) as user:
                user.execute("SELECT FROM holdfast.job WHERE id = ANY (%s::uuid[]) FOR UPDATE", [[first.id, second.id]])
                if turn == 2:
                    finishing.touch()
                seen = len(crew.ledger.read("finished"))
                time.sleep(2.5)  # longer than the lease
                # Nobody waited for the two.
                assert len(crew.ledger.read("finished")) > seen + 100
                user.rollback()
            until = leased_until(database, second.id)
            wait_for(lambda until=until: leased_until(database, second.id) > until, "renewal")  # type: ignore[misc]
        database.wait_status(first.id, "completed")
        renewing.touch()

    accounts = settle(crew, database, storm.enqueued | {-1, -2})

    say(f"{len(storm.enqueued)} jobs, {accounts}")
    assert accounts == Accounts(lost=0, doubled=0, stuck=0)
    assert {row.lease_generation for row in database.jobs()} == {1}
    assert database.query(f"SELECT count(*) FROM {database.table('job_attempt')}") == [(0,)]
    assert [worker.stop() for worker in workers] == [0, 0]
