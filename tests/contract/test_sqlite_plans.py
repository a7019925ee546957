"""SQLite finds jobs by the intended index, and the cost of a batch does not grow with the file.

The file holds 100,000 jobs each of pending, future, held and finished; cost is counted in instructions of SQLite's
virtual machine, which do not depend on the machine or its load.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.operations.prune_chains import Place, find_finished
from holdfast.operations.statement import Statement
from holdfast.sql import SqlLibrary, Style
from tests.contract.samples import sample

LIBRARY = SqlLibrary("sqlite", "main", "holdfast_", Style.NAMED, "text")
NOW = "strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'"
BATCH = 100
#: when all have ended, in one test
INSTANT = "2000-01-01T00:00:00.000000Z"

BY_ID = "sqlite_autoindex_holdfast_job_1"
BY_SEQ = "INTEGER PRIMARY KEY"
BY_LANE = "holdfast_job_claim_idx"
BY_TENANT = "holdfast_job_fair_idx"
BY_TIME = "holdfast_job_fair_due_idx"
BY_SUSPICION = "holdfast_job_suspect_idx"
BY_HOLDER = "holdfast_job_lease_idx"
BY_CHAIN = "holdfast_job_chain_idx"
BY_EXPIRY = "holdfast_job_expiry_idx"
BY_END = "holdfast_job_finished_idx"
BY_ASIDE = "holdfast_job_aside_idx"

#: verb -> the ways into the job table that its parts take
WAYS = {
    "claim_jobs": {BY_LANE, BY_TENANT, BY_SEQ},
    "claim_jobs by turns": {BY_LANE, BY_TENANT, BY_SEQ},
    "find_tenants": {BY_TENANT, BY_SEQ},
    "claim_suspect": {BY_SUSPICION, BY_SEQ},
    "find_lanes": {BY_LANE, BY_SUSPICION, BY_TIME, BY_SEQ},
    "renew_leases": {BY_ID},
    "complete_jobs": {BY_ID},
    "fail_jobs": {BY_ID, BY_SEQ},
    "release_jobs": {BY_ID},
    "expire_holders": {BY_ID},
    "release_orphans": {BY_HOLDER, BY_SEQ},
    "find_reapable": {BY_HOLDER},
    "reap_jobs": {BY_ID, BY_SEQ},
    "forget_workers": {BY_HOLDER},
    "enqueue_jobs": {BY_ID},
    "insert_job": set(),
    "insert_jobs": set(),
    "get_job": {BY_ID},
    "lock_jobs": {BY_ID},
    "cancel_jobs": {BY_ID},
    "retry_jobs": {BY_ID},
    "reschedule_jobs": {BY_ID},
    "find_keys": {BY_ID},
    "guard_blockers": {BY_ID},
    "reopen_blockers": {BY_ID},
    "find_given": {BY_ID},
    "find_waits": {BY_ID, BY_CHAIN},
    "break_cycle": {BY_ID},
    "lock_chains": {BY_ID, BY_CHAIN},
    "find_blocking_chains": {BY_CHAIN},
    "find_dependants": {BY_ID},
    "delete_chains": {BY_ID},
    "find_targets": {BY_SEQ},
    "find_target_chains": {BY_SEQ},
    "snooze_jobs": {BY_ID},
    "suspend_jobs": {BY_ID},
    "wake_signalled": {BY_ID},
    "await_children": {BY_ID},
    "save_children": {BY_ID},
    "take_signal": {BY_ID},
    "refuse_jobs": {BY_ID, BY_SEQ},
    "check_leases": {BY_ID},
    "write_logs": {BY_ID},
    "look_at_chains": {BY_ID},
    "seize_job": {BY_ID},
    "save_step": {BY_ID},
    "save_progress": {BY_ID},
    "hold_lease": {BY_ID},
    "process_once": {BY_ID},
    "expire_jobs": {BY_EXPIRY, BY_SEQ},
    "find_queues": {BY_LANE, BY_TIME, BY_SEQ},
    "count_queue": {BY_LANE, BY_TIME},
    "count_aside": {BY_HOLDER, BY_SUSPICION, BY_ASIDE},
    "list_workers": {BY_HOLDER},
    "find_held": {BY_HOLDER},
    "find_finished": {BY_END},
    "find_needed": {BY_ID},
    "archive_chains": {BY_ID},
}
#: these look at all running jobs, which are few, or walk an index up to a limit
SCANS = {"find_reapable", "forget_workers", "find_queues", "count_aside"}
#: what was found is sorted, not the table
SORTS = {
    "claim_jobs",
    "claim_jobs by turns",
    "find_lanes",
    "find_tenants",
    "find_reapable",
    "find_held",
    "list_workers",
    "find_finished",
}

_WAY = re.compile(r"(SEARCH|SCAN) job\b(?: USING (?:(?:COVERING )?INDEX (\w+)|(INTEGER PRIMARY KEY)))?")


@pytest.mark.parametrize("statistics", ["never", "analyzed"])
@pytest.mark.parametrize("verb", WAYS)
def test_ways_into_the_table(sqlite_backlogs: dict[str, Path], statistics: str, verb: str) -> None:
    """No walk over the job table, no sort of it."""
    with opened(sqlite_backlogs[statistics]) as connection:
        plan = run(connection, sample("sqlite", verb, BATCH), explain=True)
    found = [match for line in plan if (match := _WAY.match(line))]
    assert {match[2] or match[3] for match in found} == WAYS[verb], plan
    assert verb in SCANS or {match[1] for match in found} <= {"SEARCH"}, plan
    assert verb in SORTS or not [line for line in plan if "TEMP B-TREE FOR ORDER BY" in line], plan


@pytest.mark.parametrize("statistics", ["never", "analyzed"])
@pytest.mark.parametrize("verb", WAYS)
def test_cost_does_not_grow(sqlite_backlogs: dict[str, Path], statistics: str, verb: str) -> None:
    """A batch of 100 costs the same among 400,000 jobs as among 1,000."""
    statement = sample("sqlite", verb, BATCH)
    small, large = (instructions(sqlite_backlogs[name], statement) for name in ("small", statistics))
    assert large <= 1.5 * small + 500


def test_equal_ends(sqlite_backlogs: dict[str, Path]) -> None:
    """Where thousands ended at the same instant, a walk goes on in their midst without those before its place."""
    with opened(sqlite_backlogs["never"]) as connection:
        connection.execute(
            "UPDATE holdfast_job SET finished_at = ? WHERE finished_at IS NOT NULL AND seq < ?", [INSTANT, 200 * BATCH]
        )
        ended = [seq for (seq,) in connection.execute("SELECT seq FROM holdfast_job WHERE finished_at = ?", [INSTANT])]
        middle = Place(INSTANT, sorted(ended)[len(ended) // 2])
        first, later = (
            instructions_on(connection, next(find_finished(place, timedelta(minutes=1), BATCH)))
            for place in (None, middle)
        )
    assert len(ended) > 100 * BATCH
    assert later <= 1.5 * first + 500


def instructions(path: Path, statement: Statement) -> int:
    with opened(path) as connection:
        return instructions_on(connection, statement)


def instructions_on(connection: sqlite3.Connection, statement: Statement) -> int:
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(tick, 10)
    run(connection, statement)
    connection.set_progress_handler(None, 10)
    return 10 * count


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that leaves no trace."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        yield connection
        connection.execute("ROLLBACK")


def run(connection: sqlite3.Connection, statement: Statement, *, explain: bool = False) -> list[str]:
    """Run every part as the store does; with `explain`, return what SQLite says of each first."""
    (now,) = connection.execute(f"SELECT {NOW}").fetchone()
    values: dict[str, Any] = {"now": now, **statement.parameters}
    plans = []
    for part in LIBRARY.script(statement.name, statement.literals, statement.slots).parts:
        chosen = {name: values[name] for name in part.parameters}
        if explain:
            plans += [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + part.text, chosen)]
        rows = connection.execute(part.text, chosen).fetchall()
        if rows:
            values[part.name] = rows[0][0]
    return plans
