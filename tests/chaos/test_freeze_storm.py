"""SIGSTOP and SIGCONT at random, past leases and heartbeats: late writes are refused, and nothing is lost."""

from __future__ import annotations

import random
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
def test_freeze_storm(crew: Crew, database: Database, dice: random.Random) -> None:
    """Three workers, of which one or two stand still for anything between a moment and longer than dead_after."""
    workers = [crew.start(FEW) for _ in range(3)]

    def call(number: int) -> object:
        kind = dice.choice([crew.jobs.note, crew.jobs.note_sync])
        return kind.call(number=number, pause=dice.choice([0, 0.01, 0.1]))

    with load(crew, call) as storm:  # type: ignore[arg-type]  # a call is a call
        until = time.monotonic() + STORM_SECONDS
        while time.monotonic() < until:
            frozen = dice.sample(workers, dice.choice([1, 2]))
            for worker in frozen:
                worker.freeze()
            time.sleep(dice.choice([0.1, 0.5, 1.0, 2.5]))
            for worker in frozen:
                worker.thaw()
            time.sleep(dice.uniform(0.0, 0.5))

    accounts = settle(crew, database, storm.enqueued)

    say(f"{len(storm.enqueued)} jobs, {accounts}")
    assert accounts == Accounts(lost=0, doubled=0, stuck=0)
    assert [worker.stop() for worker in workers] == [0, 0, 0]
