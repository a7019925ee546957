"""An old snapshot keeps every dead row and its index entries; a claim that remembers its place does not walk them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from msgspec import structs

from holdfast.model.scan_position import ScanPosition
from holdfast.operations.claim_jobs import ClaimedJob, claim_jobs, find_lanes
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.statement import Operation
from holdfast.stores.open import StoreConfig, open_store
from tests.contract.backlog import EACH, QUEUES
from tests.contract.cost import Cost, explain

WORKER = "claimer"
BATCH = 100
#: claimed and completed while the snapshot was open, and batches that were marked and started meanwhile
GONE_BY = EACH - 5_000
MARKS = 10_000
LEASE = timedelta(seconds=60)

#: what a batch may touch, snapshot or not: a claim 1,500, completions 3,600, a claim from the beginning 42,000
BUFFERS = 60 * BATCH


class Aftermath(NamedTuple):
    connection: psycopg.Connection[Any]
    position: ScanPosition
    claimed: list[ClaimedJob]


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
        try:
            yield Aftermath(connection, position, claimed)
        finally:
            store.close()


def test_claim_from_the_remembered_place(aftermath: Aftermath) -> None:
    """Neither the dead entries of the claim index nor those of the marks for prefetched batches are walked.

    What the holder then writes goes by id, and is no dearer either.
    """
    lanes, mark = aftermath.position.lanes, aftermath.claimed[0].claimed_at
    assert mark is not None
    plain = _explain(aftermath, claim_jobs(WORKER, lanes, BATCH, LEASE))
    assert plain.rows_read >= BATCH, plain
    assert plain.buffers <= BUFFERS, plain
    marking = _explain(aftermath, claim_jobs(WORKER, lanes, BATCH, LEASE, prefetch=True, start=mark))
    assert marking.buffers <= BUFFERS, marking
    assert marking.touched_by_scans_of("prefetch") <= 20, marking

    completions = [Completion(job.id, job.lease_generation) for job in aftermath.claimed]
    completing = _explain(aftermath, complete_jobs(WORKER, completions))
    assert completing.buffers <= BUFFERS, completing

    everything = next(claim_jobs(WORKER, [structs.replace(lane, ready_at=0, seq=0) for lane in lanes], BATCH, LEASE))
    assert explain(aftermath.connection, everything).buffers > 3 * BUFFERS, "the snapshot kept nothing alive"


def _let_pass(connection: psycopg.Connection[Any]) -> None:
    """The first jobs in claim order are finished, in one statement, and the marks of their batches come and go."""
    connection.execute(
        """CREATE TEMPORARY TABLE passed AS
           SELECT id FROM holdfast.job
           WHERE status = 'pending' AND NOT held AND crash_count = 0 AND ready_at <= now()
           ORDER BY priority, ready_at, seq LIMIT %s""",
        [GONE_BY],
    )
    connection.execute(
        "UPDATE holdfast.job SET status = 'completed', finished_at = now() FROM passed WHERE job.id = passed.id"
    )
    connection.execute(
        f"""INSERT INTO holdfast.prefetch
            SELECT '{WORKER}', now() + n * interval '1 ms' FROM generate_series(1, {MARKS}) AS n"""
    )
    connection.execute("DELETE FROM holdfast.prefetch")


def _explain(aftermath: Aftermath, operation: Operation[Any]) -> Cost:
    return explain(aftermath.connection, next(operation))
