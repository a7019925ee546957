"""Functions of the database read no more rows than the statements they are made of, whatever lies around.

What happens inside a function is in no plan of its caller, so PostgreSQL's own counters are asked.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.contract.backlog import PostgresFill, job_id
from tests.contract.conftest import STATISTICS

#: a call, and how many rows of the job table it may read
CALLS: dict[str, tuple[str, int]] = {
    "enqueue": ("SELECT holdfast.enqueue('report')", 100),
    "enqueue with a key": ("SELECT holdfast.enqueue('report', dedup => 'k', on_conflict => 'replace')", 100),
    "enqueue behind a chain": (f"SELECT holdfast.enqueue('report', blockers => ARRAY['{job_id(1)}']::uuid[])", 100),
    "claim one": ("SELECT holdfast.claim('w', '{default,mail,bulk}')", 300),
    "claim many": ("SELECT holdfast.claim('w', '{default,mail,bulk}', 100)", 600),
    "renew": (f"SELECT holdfast.renew('{job_id(1)}', 1)", 100),
    "complete": (f"SELECT holdfast.complete('{job_id(1)}', 1)", 100),
    "fail": (f"SELECT holdfast.fail('{job_id(1)}', 1, 'no')", 100),
    "snooze": (f"SELECT holdfast.snooze('{job_id(1)}', 1, '1 hour')", 100),
    "release": (f"SELECT holdfast.release('{job_id(1)}', 1)", 100),
    "cancel": (f"SELECT holdfast.cancel('{job_id(1)}')", 100),
}
_READ = """
SELECT coalesce(sum(seq_tup_read), 0)::integer, coalesce(sum(idx_tup_fetch), 0)::integer
FROM pg_stat_xact_user_tables WHERE schemaname = 'holdfast' AND relname = 'job'
"""
EXECUTIONS = 7


def rows_read(connection: psycopg.Connection[Any], call: str) -> tuple[int, int]:
    """By scans of the whole table, and by indexes."""
    with connection.transaction(force_rollback=True):
        # What the connection did just before may not have been reported yet, and counts too.
        before, _, after = (connection.execute(text.encode()).fetchone() for text in (_READ, call, _READ))
        assert before is not None
        assert after is not None
        return after[0] - before[0], after[1] - before[1]


def check(connection: psycopg.Connection[Any], name: str) -> None:
    call, limit = CALLS[name]
    scanned, fetched = rows_read(connection, call)
    assert scanned == 0, f"{name} read {scanned} rows from end to end"
    assert fetched <= limit, f"{name} read {fetched} rows"


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("name", CALLS)
def test_rows_read(private_backlog: str, name: str) -> None:
    """Again and again on one connection, where plans are kept."""
    with psycopg.connect(private_backlog, autocommit=True) as connection:
        for _ in range(EXECUTIONS):
            check(connection, name)


def test_plans_outlive_a_small_table(empty_postgres: str) -> None:
    """What a worker's connection has planned on its first day still does when the backlog has come."""
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute("SELECT holdfast.register_type('report')")
        connection.execute("SELECT holdfast.enqueue('report') FROM generate_series(1, 3)")
        connection.execute("ANALYZE holdfast.job")
        first = connection.execute("SELECT id FROM holdfast.claim('w')").fetchone()
        assert first is not None
        for call, _ in CALLS.values():
            for _ in range(EXECUTIONS):
                with connection.transaction(force_rollback=True):
                    connection.execute(call.replace(job_id(1), str(first[0])).encode())
        connection.execute("DELETE FROM holdfast.job; DELETE FROM holdfast.job_type; DELETE FROM holdfast.worker")
        fill = PostgresFill("holdfast.job", each=5_000)
        for statement in (*fill.people, fill.finished, *fill.unfinished):
            connection.execute(statement.encode())
        for name in CALLS:
            check(connection, name)
