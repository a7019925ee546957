"""Statements of the working day read no more than a few times their batch, whatever lies around.

Around lie 100,000 pending, 100,000 future, 100,000 held and 100,000 finished jobs.
"""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from holdfast.model.tenant_turns import WINDOW
from holdfast.operations.find_turn import MOST_AHEAD
from holdfast.operations.prune_chains import PAGE, Place, find_finished
from holdfast.stores.postgres import DIRECT_SETTINGS
from tests.contract.backlog import IDLE, PRIORITIES, QUEUES, RUNNING, PostgresFill
from tests.contract.conftest import STATISTICS
from tests.contract.cost import Cost, Prepared, explain
from tests.contract.samples import sample

#: a prepared one may have one plan for all from the sixth on; any may meet what those before it, rolled back, have left
EXECUTIONS = 7
SIZES = (1, 100, 500)
#: when all have ended, in one test
INSTANT = "2000-01-01T00:00:00.000000Z"
#: one row, or one per lane, whatever the batch
FIXED = ("claim_suspect", "find_lanes", "save_step", "save_progress", "hold_lease", "process_once", "read_blockers",
         "take_signal", "save_children", "find_turn",
         "find_queues", "find_tenants", "find_held", "list_workers", "heard_steadily", "find_members")  # fmt: skip
#: the limit is part of the text
LIMITED = (
    "claim_jobs",
    "claim_plain",
    "claim_jobs by turns",
    "find_reapable",
    "expire_jobs",
    "count_queue",
    "count_aside",
    "find_finished",
)
BATCHED = (
    "renew_leases",
    "complete_jobs",
    "fail_jobs",
    "release_jobs",
    "release_orphans",
    "reap_jobs",
    "enqueue_jobs",
    "insert_jobs",
    "continue_jobs",
    "settle_chains",
    "hold_chains",
    "take_keys",
    "judge_keys",
    "expire_holders",
    "complete_jobs again",
    "fail_jobs again",
    "release_jobs again",
    "renew_leases again",
    "snooze_jobs",
    "suspend_jobs",
    "wake_signalled",
    "await_children",
    "refuse_jobs",
    "check_leases",
    "write_logs",
    "look_at_chains",
    "lock_jobs",
    "cancel_jobs",
    "retry_jobs",
    "reopen_blockers",
    "reschedule_jobs",
    "find_keys",
    "guard_blockers",
    "find_given",
    "find_waits",
    "break_cycle",
    "lock_chains",
    "find_blocking_chains",
    "find_dependants",
    "find_needed",
    "archive_chains",
    "enqueue_jobs again",
)

#: beyond the batch: all running jobs of somebody, all workers, every lane
ALSO_READ = {
    "find_lanes": len(QUEUES) * len(PRIORITIES),
    "find_tenants": 2 * WINDOW,
    "find_turn": MOST_AHEAD,
    "claim_jobs by turns": WINDOW,
    "find_queues": len(QUEUES) * len(PRIORITIES),
    "count_aside": 2 * RUNNING,
    "find_held": RUNNING,
    "list_workers": 2 * RUNNING + IDLE,
    "find_reapable": 2 * RUNNING + IDLE,
    "reap_jobs": IDLE,
    "heard_steadily": 2 * IDLE,
    "find_members": IDLE,
    "release_orphans": RUNNING,
}


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("verb", [*FIXED, *LIMITED, *BATCHED])
def test_rows_read(private_backlog: str, verb: str) -> None:
    """As the store runs it, unprepared; and prepared by an outer driver.

    After five executions of a prepared statement the server may plan it for any parameters at all; that it must not do
    harm is also shown for a server that is told to.
    """
    sizes = (1,) if verb in FIXED else (100,) if verb.endswith(" again") else SIZES
    statements = [(size, sample("postgres", verb, size)) for size in sizes]
    with psycopg.connect(private_backlog, autocommit=True, prepare_threshold=None) as connection:
        for size, statement in statements:
            for _ in range(EXECUTIONS):
                check(explain(connection, statement), verb, size)
        for same_text in [[one] for one in statements] if verb in LIMITED else [statements]:
            prepared = Prepared(connection, same_text[0][1])
            for turn in range(EXECUTIONS):
                size, statement = same_text[turn % len(same_text)]
                check(prepared.explain(statement), verb, size)
            for size, statement in same_text:
                check(prepared.explain(statement, "force_generic_plan"), verb, size)


@pytest.mark.parametrize("verb", ["claim_jobs", "claim_plain", "claim_jobs by turns", "complete_jobs", "enqueue_jobs"])
def test_plans_outlive_an_empty_table(empty_postgres: str, verb: str) -> None:
    """What a worker prepared on its first day still does when the backlog has come and nobody has told the planner."""
    with psycopg.connect(empty_postgres, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(DIRECT_SETTINGS)
        prepared = Prepared(connection, sample("postgres", verb, 500))
        for mode in ("auto", "force_generic_plan"):
            for _ in range(EXECUTIONS):
                prepared.explain(sample("postgres", verb, 500), mode)
        fill = PostgresFill("holdfast.job", each=10_000)
        for statement in (*fill.people, fill.finished, *fill.unfinished):
            connection.execute(statement)
        for mode in ("auto", "force_generic_plan"):
            check(prepared.explain(sample("postgres", verb, 500), mode), verb, 500)


def test_equal_ends(empty_postgres: str) -> None:
    """Where thousands ended at the same instant, a walk goes on in their midst without those before its place."""
    fill = PostgresFill("holdfast.job", each=10_000)
    with psycopg.connect(empty_postgres, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(DIRECT_SETTINGS)
        connection.execute(fill.finished)
        connection.execute("UPDATE holdfast.job SET finished_at = %s", [INSTANT])
        connection.execute("VACUUM holdfast.job")
        (middle,) = connection.execute("SELECT (min(seq) + max(seq)) / 2 FROM holdfast.job").fetchone() or (0,)
        check(
            explain(connection, next(find_finished(Place(INSTANT, middle), timedelta(minutes=1)))),
            "find_finished",
            PAGE,
        )


def check(cost: Cost, verb: str, size: int) -> None:
    rows = 4 * size + 50 + 2 * ALSO_READ.get(verb, 0)
    assert not cost.scans_whole_table, f"{verb} of {size} scans the whole table: {cost}"
    assert cost.rows_read <= rows, f"{verb} of {size} may read {rows} rows: {cost}"
    assert cost.widest <= rows, f"{verb} of {size} may handle {rows} rows: {cost}"
    assert cost.buffers <= 16 * rows, f"{verb} of {size} may touch {16 * rows} buffers: {cost}"
