"""A user's transaction keeps rows locked for longer than leases last: everything else goes on, and no lease is lost."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from holdfast import WorkerConfig
from tests.crew.accounts import Accounts, load, settle
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew
from tests.crew.report import say
from tests.crew.waiting import wait_for

#: rows are locked for two of these, as the default's would be for two minutes
LEASE = timedelta(seconds=1.5)
TWO_MINUTES = timedelta(minutes=2)


def leased_until(database: Database, job_id: str) -> datetime:
    """Until when, or never again if the lease was lost."""
    found = database.query(f"SELECT leased_until FROM {database.job} WHERE id = '{job_id}'")[0][0]
    return found or datetime.max.replace(tzinfo=UTC)


def wait_for_renewal(database: Database, job_id: str) -> None:
    until = leased_until(database, job_id)
    wait_for(lambda: leased_until(database, job_id) > until, "renewal")


def unwritten(database: Database, job_ids: list[str]) -> list[str]:
    """Those of the jobs whose completion is not in the database."""
    listed = ", ".join(f"'{job_id}'" for job_id in job_ids)
    query = f"SELECT id FROM {database.job} WHERE id IN ({listed}) AND status <> 'completed'"
    return [str(job_id) for (job_id,) in database.query(query)]


@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_locked_rows_hold_up_nobody(crew: Crew, database: Database, dice: random.Random) -> None:
    """Of two running jobs one wants to complete and the other to be renewed; both rows are locked, three times."""
    config = replace(STEADY, lease=LEASE)
    workers = [crew.start(config) for _ in range(2)]
    finishing, renewing = crew.gate("finishing"), crew.gate("renewing")
    with crew.jobs.app.client() as client:
        first = client.enqueue(crew.jobs.hold.call(number=-1, gate=str(finishing)))
        second = client.enqueue(crew.jobs.hold.call(number=-2, gate=str(renewing)))
    holder = crew.ledger.wait("started", number=-1)[0].pid
    crew.ledger.wait("started", 2)
    with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0.01, 0.2]))) as storm:
        for turn in range(3):
            with psycopg.connect(database.url) as user:
                user.execute("SELECT FROM holdfast.job WHERE id = ANY (%s::uuid[]) FOR UPDATE", [[first.id, second.id]])
                if turn == 2:
                    finishing.touch()
                seen = len(crew.ledger.read("finished"))
                time.sleep(2 * LEASE.total_seconds())
                # Nobody waited for the two, nor did what their own worker finished meanwhile.
                finished = crew.ledger.read("finished")[seen:]
                assert len(finished) > 100
                neighbours = [entry.job_id for entry in finished if entry.pid == holder and entry.number >= 0][:50]
                assert neighbours
                assert unwritten(database, neighbours) == []
                user.rollback()
            wait_for_renewal(database, second.id)
        database.wait_status(first.id, "completed")
        renewing.touch()

    accounts = settle(crew, database, storm.enqueued | {-1, -2})

    say(f"{len(storm.enqueued)} jobs, {accounts}")
    assert accounts == Accounts(lost=0, doubled=0, stuck=0)
    assert {row.lease_generation for row in database.jobs()} == {1}
    assert database.query(f"SELECT count(*) FROM {database.table('job_attempt')}") == [(0,)]
    assert [worker.stop() for worker in workers] == [0, 0]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("database", ["pg18"], indirect=True)
def test_a_row_that_is_locked_for_two_minutes(crew: Crew, database: Database) -> None:
    """With the settings that are the default, whose leases end after one: both jobs stay their worker's, to the end."""
    workers = [crew.start(WorkerConfig()) for _ in range(2)]
    finishing, renewing = crew.gate("finishing"), crew.gate("renewing")
    with crew.jobs.app.client() as client:
        first = client.enqueue(crew.jobs.hold.call(number=-1, gate=str(finishing)))
        second = client.enqueue(crew.jobs.hold.call(number=-2, gate=str(renewing)))
        crew.ledger.wait("started", 2)
        with psycopg.connect(database.url) as user:
            user.execute("SELECT FROM holdfast.job WHERE id = ANY (%s::uuid[]) FOR UPDATE", [[first.id, second.id]])
            finishing.touch()
            crew.ledger.wait("finished", number=-1)
            until = time.monotonic() + TWO_MINUTES.total_seconds()
            number = 0
            while time.monotonic() < until:
                client.enqueue(crew.jobs.note.call(number=number))
                crew.ledger.wait("finished", number=number)
                number += 1
                time.sleep(1)
            user.rollback()
    database.wait_status(first.id, "completed")
    renewing.touch()
    assert database.wait_finished() == {"completed": number + 2}
    assert number > TWO_MINUTES.total_seconds() / 2
    assert {(row.attempt, row.lease_generation, row.crash_count) for row in database.jobs()} == {(1, 1, 0)}
    assert [worker.stop() for worker in workers] == [0, 0]
