"""PostgreSQL crashes, restarts and kills backends under load: workers survive without being restarted."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.crew.accounts import Accounts, load, settle
from tests.crew.database import Database
from tests.crew.process import STEADY, crew_on
from tests.crew.report import say
from tools.postgres_server import PostgresServer


def test_crashes_and_restarts(own_server: PostgresServer, tmp_path: Path, dice: random.Random) -> None:
    """Three times down, by a crash of every server process or in good order, and up again a little later."""
    database = Database(own_server.create_database("storm"))
    with crew_on(database.url, tmp_path) as crew:
        workers = [crew.start(STEADY) for _ in range(2)]
        with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0.01, 0.2]))) as storm:
            crew.ledger.wait("finished", 50)
            for down in dice.sample([own_server.crash, own_server.shut_down, own_server.crash], 3):
                seen = len(crew.ledger.read("finished"))
                down()
                time.sleep(dice.uniform(0.0, 2.0))
                own_server.start()
                crew.ledger.wait("finished", seen + 50)

        accounts = settle(crew, database, storm.enqueued)

        say(f"{len(storm.enqueued)} jobs, {accounts}")
        assert accounts == Accounts(lost=0, doubled=0, stuck=0)
        assert [worker.stop() for worker in workers] == [0, 0]


def test_backends_are_terminated(own_server: PostgresServer, tmp_path: Path, dice: random.Random) -> None:
    """pg_terminate_backend on a random session, sixty times."""
    database = Database(own_server.create_database("storm"))
    sessions = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with crew_on(database.url, tmp_path) as crew:
        workers = [crew.start(STEADY) for _ in range(2)]
        with load(crew, lambda number: crew.jobs.note.call(number=number, pause=dice.choice([0, 0.01, 0.2]))) as storm:
            crew.ledger.wait("finished", 50)
            for _ in range(60):
                pids = [pid for (pid,) in database.query(f"SELECT pid {sessions}")]
                if pids:
                    database.query(f"SELECT pg_terminate_backend({dice.choice(pids)})")
                time.sleep(dice.uniform(0.0, 0.2))

        accounts = settle(crew, database, storm.enqueued)

        say(f"{len(storm.enqueued)} jobs, {accounts}")
        assert accounts == Accounts(lost=0, doubled=0, stuck=0)
        assert [worker.stop() for worker in workers] == [0, 0]
