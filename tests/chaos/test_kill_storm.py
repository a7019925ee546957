"""kill -9 of several workers under load, again and again: lost 0, doubled 0, stuck 0."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import replace

import pytest

from tests.crew.accounts import Accounts, load, settle
from tests.crew.database import Database
from tests.crew.process import BRISK, Crew
from tests.crew.report import say

STORM_SECONDS = 7.0
FEW = replace(BRISK, concurrency=4)


@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_kill_storm(crew: Crew, database: Database, dice: random.Random) -> None:
    """Three workers; every now and then one dies in the middle of whatever it does, and another takes its place."""
    workers = [crew.start(FEW) for _ in range(3)]
    kills = 0
    with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0, 0.01, 0.1]))) as storm:
        until = time.monotonic() + STORM_SECONDS
        while time.monotonic() < until:
            time.sleep(dice.uniform(0.05, 0.7))
            place = dice.randrange(3)
            workers[place].send(signal.SIGKILL)
            workers[place].join()
            workers[place] = crew.start(FEW)
            kills += 1

    accounts = settle(crew, database, storm.enqueued)

    say(f"{len(storm.enqueued)} jobs, {kills} kills, {accounts}")
    assert accounts == Accounts(lost=0, doubled=0, stuck=0)
    assert accounts.condemned <= kills // 10
    assert kills > 10
    assert [worker.stop() for worker in workers] == [0, 0, 0]
