"""A quarter of all verbs of a worker fail, before or after they have happened: it makes sense of all of them."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.crew.accounts import Accounts, settle
from tests.crew.database import Database
from tests.crew.flaky_store import FlakyStore
from tests.crew.process import STEADY, Crew
from tests.crew.report import say

JOBS = 300


@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_flaky_store(crew: Crew, database: Database, dice: random.Random) -> None:
    """Two workers share jobs that succeed, fail, go on and take their time."""
    jobs = crew.jobs
    calls = [
        [
            jobs.note.call(number=number, pause=dice.choice([0, 0.01, 1.0])),
            jobs.note_sync.call(number=number, pause=dice.choice([0, 0.01])),
            jobs.fail.call(number=number, times=dice.choice([1, 2])),
        ][number % 3]
        for number in range(JOBS)
    ]
    with jobs.app.client() as client:
        client.enqueue_many(calls)
    # A worker whose heartbeats fail at random is not to look dead: then its jobs would rightly run again.
    config = replace(STEADY, dead_after=timedelta(seconds=6))
    workers = [crew.start(config, fault=FlakyStore(dice.randrange(2**32))) for _ in range(2)]

    accounts = settle(crew, database, set(range(JOBS)))

    say(accounts)
    assert accounts == Accounts(lost=0, doubled=0, stuck=0)
    assert "the dice cut the connection after the verb" in crew.said
    assert {row.crash_count for row in database.jobs()} == {0}
    assert [worker.stop() for worker in workers] == [0, 0]
