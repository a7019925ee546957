"""A page costs what a page costs, wherever among 400,000 jobs its items lie; and the filters that walk are known.

The jobs that stand aside lie between 100,000 finished ones and 300,000 others, so a walk from either end would be long.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.model.job_filter import JobFilter
from holdfast.operations.get_chain import get_chain
from holdfast.operations.get_job import get_job
from holdfast.operations.list_chains import list_chains
from holdfast.operations.list_jobs import list_blocked_jobs, list_jobs
from holdfast.operations.statement import Operation, Rows, Statement
from holdfast.sql import SqlLibrary, Style
from tests.contract.backlog import EACH, LATER, RUNNING, TENANT, PostgresFill, job_id
from tests.contract.conftest import STATISTICS
from tests.contract.cost import Cost, explain
from tests.contract.test_sqlite_plans import instructions

LIBRARY = SqlLibrary("postgres", "holdfast", "", Style.PYFORMAT)
LIMIT = 50
#: a page, and what is looked up for each of its items: itself, its first job, its last one
PAGE = 5 * (LIMIT + 1)

_FILL = PostgresFill("job")
CHAIN = job_id(_FILL.first_aside + 3_000)

#: filters that an index serves -> rows that may be read beyond the page
SERVED: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 0),
    "blocked": ({"status": "blocked"}, 3 * LATER),
    "dead letter": ({"status": "dead_letter"}, 3 * LATER),
    "cancelled": ({"status": "cancelled"}, 3 * LATER),
    "running": ({"status": "running"}, 4 * RUNNING),
    "few states": ({"status": ["blocked", "dead_letter", "cancelled", "running"]}, 4 * RUNNING + 9 * LATER),
    "dead letters of a type": ({"status": "dead_letter", "type_name": "report"}, 3 * LATER),
    "tenant": ({"tenant": TENANT}, 0),
    "dead letters of a tenant": ({"status": "dead_letter", "tenant": TENANT}, 1_500),
    "ids": ({"ids": [job_id(5), job_id(_FILL.first_open + 5), CHAIN]}, 0),
    "chain": ({"chain_ids": [CHAIN]}, 0),
    "completed": ({"status": "completed"}, 1_000),
}
LISTS: dict[str, Callable[..., Operation[Any]]] = {"list_jobs": list_jobs, "list_chains": list_chains}


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("verb", LISTS)
def test_pages_on_postgres(private_backlog: str, verb: str) -> None:
    """Whatever the planner knows, either way, the first page and the second; with and without sequential scans."""
    with psycopg.connect(private_backlog, autocommit=True, prepare_threshold=None) as connection:
        for name, (filters, more) in SERVED.items():
            for newest_first in (True, False):
                if name == "completed" and newest_first:
                    continue  # 300,000 others are newer: no index leads to completed jobs
                cursor = None
                for _ in range(2):
                    list_ = LISTS[verb](JobFilter(**filters), limit=LIMIT, cursor=cursor, newest_first=newest_first)
                    page, costs = run(connection, list_)
                    for cost in costs:
                        check(cost, f"{verb} of {name}, newest first: {newest_first}", PAGE + more)
                    if (cursor := page.next_cursor) is None:
                        break


@pytest.mark.parametrize("verb", LISTS)
def test_few_pending_jobs_on_postgres(private_backlog: str, verb: str) -> None:
    """Where they are few they are found by index, and where they are many a walk meets them soon."""
    with psycopg.connect(private_backlog, autocommit=True, prepare_threshold=None) as connection:
        page, costs = run(connection, LISTS[verb](JobFilter(status="pending"), limit=LIMIT))
        check(costs[-1], f"{verb} of many", PAGE)
        assert len(page.items) == LIMIT
        connection.execute(
            """UPDATE holdfast.job SET status = 'completed', finished_at = created_at, held = false
               WHERE status = 'pending' AND seq % 1000 > 0"""
        )
        connection.execute("VACUUM ANALYZE holdfast.job")
        for newest_first in (True, False):
            page, costs = run(
                connection, LISTS[verb](JobFilter(status="pending"), limit=LIMIT, newest_first=newest_first)
            )
            assert len(costs) == 2
            for cost in costs:
                check(cost, f"{verb} of few", PAGE + 1_000)
            assert len(page.items) == LIMIT


@pytest.mark.parametrize("statistics", STATISTICS)
def test_single_reads_on_postgres(private_backlog: str) -> None:
    """A job, a chain, their locks, and who waits: a handful of rows."""
    reads: list[Operation[Any]] = [
        get_job(job_id(5)), get_job(job_id(5), lock=True), get_chain(CHAIN), get_chain(CHAIN, lock=True),
        list_blocked_jobs(CHAIN),
    ]  # fmt: skip
    with psycopg.connect(private_backlog, autocommit=True, prepare_threshold=None) as connection:
        for read in reads:
            for cost in run(connection, read)[1]:
                check(cost, str(read), 20)


@pytest.mark.parametrize("statistics", ["never", "analyzed"])
@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("verb", LISTS)
def test_pages_on_sqlite(sqlite_backlogs: dict[str, Path], statistics: str, verb: str, name: str) -> None:
    """Among 400,000 jobs a page costs as many instructions as among 1,000."""
    filters, _ = SERVED[name]
    for newest_first in (True, False):
        if name in ("completed", "ids", "chain"):
            newest_first = False  # noqa: PLW2901 - from there on they are as far away in both files
        statement = next(LISTS[verb](JobFilter(**filters), limit=LIMIT, newest_first=newest_first))
        small, large = (instructions(sqlite_backlogs[which], statement) for which in ("small", statistics))
        assert large <= 1.5 * small + 1_000, f"newest first: {newest_first}"


@pytest.mark.parametrize("statistics", ["never", "analyzed"])
def test_single_reads_on_sqlite(sqlite_backlogs: dict[str, Path], statistics: str) -> None:
    """A job, a chain and who waits: the same in a large file."""
    for operation in (get_job(job_id(5)), get_chain(CHAIN), list_blocked_jobs(CHAIN)):
        statement = next(operation)
        small, large = (instructions(sqlite_backlogs[which], statement) for which in ("small", statistics))
        assert large <= 1.5 * small + 200, statement.name


@pytest.mark.parametrize("verb", LISTS)
def test_filters_that_walk(sqlite_backlogs: dict[str, Path], verb: str) -> None:
    """What the documentation says of them: without an index they pass by every job that does not match."""
    for field in ("type_name", "queue", "partition_key", "chain_type_name"):
        filters: dict[str, Any] = {field: "none"}
        statement = next(LISTS[verb](JobFilter(**filters), limit=LIMIT))
        assert instructions(sqlite_backlogs["analyzed"], statement) > 4 * EACH


def run(connection: psycopg.Connection[Any], operation: Operation[Any]) -> tuple[Any, list[Cost]]:
    """Drive a reading verb as the store does, and tell what each of its statements cost."""
    costs: list[Cost] = []
    try:
        statement = next(operation)
        while True:
            costs.append(explain(connection, statement))
            statement = operation.send(_rows(connection, statement))
    except StopIteration as end:
        return end.value, costs


def _rows(connection: psycopg.Connection[Any], statement: Statement) -> Rows:
    (part,) = LIBRARY.script(statement.name, statement.literals, statement.slots).parts
    return connection.execute(part.text, {name: statement.parameters[name] for name in part.parameters}).fetchall()


def check(cost: Cost, what: str, rows: int) -> None:
    assert not cost.scans_whole_table, f"{what} scans the whole table: {cost}"
    assert cost.rows_read <= rows, f"{what} may read {rows} rows: {cost}"
    assert cost.buffers <= 16 * rows, f"{what} may touch {16 * rows} buffers: {cost}"
