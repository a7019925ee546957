"""Connections that are cut, delayed or half open: the worker recovers by itself."""

from __future__ import annotations

import random
import time
from urllib.parse import urlsplit

import pytest

from tests.crew.accounts import Accounts, load, settle
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew
from tests.crew.proxy import proxy_to
from tests.crew.report import say
from tests.crew.waiting import wait_for

ON_POSTGRES = pytest.mark.parametrize("database", ["pg18"], indirect=True)


def port_of(database: Database) -> int:
    port = urlsplit(database.url).port
    assert port is not None
    return port


@ON_POSTGRES
def test_cuts_and_delays(crew: Crew, database: Database, dice: random.Random) -> None:
    """Everything between the workers and PostgreSQL is reset at random, and slow in between."""
    with proxy_to(port_of(database)) as proxy:
        workers = [crew.start(STEADY, url=proxy.url(database.url)) for _ in range(2)]
        with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0.01, 0.2]))) as storm:
            until = time.monotonic() + 7
            while time.monotonic() < until:
                proxy.delay = dice.choice([0.0, 0.005, 0.05])
                time.sleep(dice.uniform(0.1, 1.0))
                proxy.cut()
        proxy.delay = 0.0

        accounts = settle(crew, database, storm.enqueued)

        say(f"{len(storm.enqueued)} jobs, {accounts}")
        assert accounts == Accounts(lost=0, doubled=0, stuck=0)
        assert [worker.stop() for worker in workers] == [0, 0]


@ON_POSTGRES
def test_half_open_connections(crew: Crew, database: Database, dice: random.Random) -> None:
    """What is open swallows bytes for ever and never says so; new connections work. One worker, nobody to help it."""
    with proxy_to(port_of(database)) as proxy:
        worker = crew.start(STEADY, url=proxy.url(database.url))
        with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0.01]))) as storm:
            crew.ledger.wait("finished", 50)
            # Heartbeats have a connection of their own; it too is to be open by now.
            wait_for(lambda: database.query("SELECT FROM holdfast.worker WHERE last_seen_at > started_at"), "heartbeat")
            # More than once: those verbs of the engine that find a fresh connection do not notice.
            for _ in range(2):
                proxy.stall()
                time.sleep(0.5)
                crew.ledger.wait("finished", len(crew.ledger.read("finished")) + 50)

        accounts = settle(crew, database, storm.enqueued)

        say(f"{len(storm.enqueued)} jobs, {accounts}")
        assert accounts == Accounts(lost=0, doubled=0, stuck=0)
        assert worker.stop() == 0
