"""What a worker costs that has nothing to do."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path

from holdfast import WorkerConfig
from tests.crew.database import Database
from tests.crew.process import crew_on
from tools.postgres_server import PostgresServer

CONFIG = WorkerConfig()
SECONDS = 40
#: of one core
CPU_SHARE = 0.01

_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]+): (.{0,40})")


def test_idle_follower(own_server: PostgresServer, tmp_path: Path) -> None:
    """At most one statement per second, and less than 1 % of a core, with default settings.

    Somebody else leads: the leader's services come on top of this, once per database.
    """
    database = Database(own_server.create_database("idle"))
    with crew_on(database.url, tmp_path) as crew:
        with crew.jobs.app.client() as client:
            client.list_jobs()
        database.query(
            "INSERT INTO holdfast.leader (name, term, worker_id, elected_at, leased_until) "
            "VALUES ('maintenance', 1, 'somebody', now(), now() + interval '1 hour')"
        )
        database.query("ALTER DATABASE idle SET log_statement = 'all'")
        worker = crew.start(CONFIG)
        database.wait_registered(worker.pid)
        time.sleep(CONFIG.dead_after.total_seconds() + 1)  # until then a reaper holds still, and costs less
        logged, cpu = len(own_server.log), _cpu_seconds(worker.pid)
        time.sleep(SECONDS)  # the idle time itself
        statements = Counter(_STATEMENT.findall(own_server.log[logged:]))
        spent = _cpu_seconds(worker.pid) - cpu

    assert 0 < statements.total() <= SECONDS, statements
    assert spent < CPU_SHARE * SECONDS


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process, with its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
