"""Verbs on jobs of one partition key, on a store or within somebody's open transaction."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from holdfast import App
from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import Claim, ClaimedJob, claim_jobs, find_lanes
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.drive import drive
from holdfast.operations.lease import Lease
from holdfast.operations.statement import Verb
from holdfast.stores import SyncStore

LEASE = timedelta(seconds=600)


def due_lanes(store: SyncStore, queues: Iterable[str] = ("default",)) -> list[Lane]:
    """Where a worker that has just looked back would start."""
    found = store.run(lambda: find_lanes(list(queues)), read_only=True)
    return [
        Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1)
        for lane in found
        if lane.due_in_ms == 0 and not lane.is_suspect
    ]


def claim(store: SyncStore, limit: int = 100, *, worker: str = "w", run: int = 0, lease: timedelta = LEASE) -> Claim:
    lanes = due_lanes(store)
    return store.run(lambda: claim_jobs(worker, lanes, limit, lease, run=run)) if lanes else Claim()


def within(app: App, connection: Any, verb: Verb[Any]) -> Any:
    """The verb in the transaction of a borrowed connection, which stays open."""
    store = app.store.sync()
    try:
        return drive(verb(), store.borrow(connection).execute)
    finally:
        store.close()


def place_of(job: ClaimedJob) -> int:
    assert job.partition_seq is not None
    return job.partition_seq


def key_of(job: ClaimedJob) -> str:
    assert job.partition_key is not None
    return job.partition_key


def in_order(jobs: Iterable[ClaimedJob]) -> list[ClaimedJob]:
    """As they stand in their key."""
    return sorted(jobs, key=place_of)


def lease_of(job: ClaimedJob) -> Lease:
    return Lease(job.id, job.lease_generation)


def done(job: ClaimedJob) -> Completion:
    return Completion(job.id, job.lease_generation)
