"""An old snapshot keeps every dead row and its index entries; a claim that remembers its place does not walk them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from holdfast.model.scan_position import Instant, ScanPosition
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.statement import Operation
from holdfast.stores.open import StoreConfig, open_store
from msgspec import structs

from tests.contract.backlog import EACH, QUEUES
from tests.contract.cost import Cost, explain

WORKER = "claimer"
BATCH = 100
#: claimed and completed while the snapshot was open, and batches that were marked and started meanwhile
GONE_BY = EACH - 5_000
MARKS = 10_000
LEASE = timedelta(seconds=60)

#: what one claim of BATCH may touch, snapshot or not: measured 1,500
BUFFERS = 40 * BATCH


class Aftermath(NamedTuple):
    connection: psycopg.Connection[Any]
    position: ScanPosition
    mark: Instant


@pytest.fixture
def aftermath(private_backlog: str) -> Iterator[Aftermath]:
    """100,000 jobs later, with the snapshot from before still open, and a claimer that knows where it is."""
    store = open_store(private_backlog, StoreConfig()).sync()
    with psycopg.connect(private_backlog) as old, psycopg.connect(private_backlog, autocommit=True) as connection:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM holdfast.worker")
        _let_pass(connection)
        position = ScanPosition()
        found = store.run(lambda: find_lanes(QUEUES))
        position.look_back((lane for lane in found if not lane.is_suspect), 0, 0)
        claimed = store.run(lambda: claim_jobs(WORKER, position.lanes, BATCH, LEASE, prefetch=True))
        assert len(claimed) == BATCH
        position.advance(claimed)
        mark = claimed[0].claimed_at
        assert mark is not None
        try:
            yield Aftermath(connection, position, mark)
        finally:
            store.close()


def test_claim_from_the_remembered_place(aftermath: Aftermath) -> None:
    """Neither the dead entries of the claim index nor those of the marks for prefetched batches are walked."""
    lanes, mark = aftermath.position.lanes, aftermath.mark
    plain = _explain(aftermath, claim_jobs(WORKER, lanes, BATCH, LEASE))
    assert plain.rows_read >= BATCH, plain
    assert plain.buffers <= BUFFERS, plain
    marking = _explain(aftermath, claim_jobs(WORKER, lanes, BATCH, LEASE, prefetch=True, start=mark))
    assert marking.buffers <= plain.buffers + 50, marking

    everything = next(claim_jobs(WORKER, [structs.replace(lane, ready_at=0, seq=0) for lane in lanes], BATCH, LEASE))
    assert explain(aftermath.connection, everything).buffers > 3 * BUFFERS, "the snapshot kept nothing: prove it another way"


def _let_pass(connection: psycopg.Connection[Any]) -> None:
    """Claims and completions of the first jobs in claim order, as two statements, and the marks of their batches."""
    connection.execute(
        """CREATE TEMPORARY TABLE passed AS
           SELECT id FROM holdfast.job
           WHERE status = 'pending' AND NOT held AND crash_count = 0 AND ready_at <= now()
           ORDER BY priority, ready_at, seq LIMIT %s""",
        [GONE_BY],
    )
    running = "status = 'running', attempt = 1, lease_generation = 1, leased_by = 'w', leased_until = now()"
    completed = "status = 'completed', leased_by = NULL, leased_until = NULL, finished_at = now()"
    for change in (running, completed):
        connection.execute(f"UPDATE holdfast.job SET {change} FROM passed WHERE job.id = passed.id")
    connection.execute(
        f"INSERT INTO holdfast.prefetch SELECT '{WORKER}', now() + n * interval '1 ms' FROM generate_series(1, {MARKS}) AS n"
    )
    connection.execute("DELETE FROM holdfast.prefetch")


def _explain(aftermath: Aftermath, operation: Operation[Any]) -> Cost:
    return explain(aftermath.connection, next(operation))
