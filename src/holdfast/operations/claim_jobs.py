"""Take jobs to run: the claim, its lanes, and the time until there is more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from holdfast.model.clock import milliseconds
from holdfast.model.payload import to_json
from holdfast.model.scan_position import Instant, Lane
from holdfast.operations.statement import Operation, Rows, Statement


class ClaimedJob(NamedTuple):
    """A job under lease, as the claim returned it: times and JSON stay undecoded until somebody looks.

    What is nearly always the same is None then; `claim_jobs.sql` says what each None stands for.
    """

    id: str
    lease_generation: int
    type_name: str
    input: bytes | str
    attempt: int
    queue: str
    priority: int
    ready_at: Instant
    seq: int
    timeout_ms: int | None
    claimed_at: Instant | None
    crash_count: int | None
    chain_id: str | None
    chain_index: int | None
    chain_type_name: str | None
    created_at: Instant | None
    scheduled_at: Instant | None
    max_attempts: int | None
    last_attempt_error: bytes | str | None
    tenant: str | None
    headers: bytes | str | None
    has_blockers: bool | None


class FoundLane(NamedTuple):
    """A (queue, priority) with its first job."""

    queue: str
    priority: int
    ready_at: Instant
    seq: int
    due_in_ms: int
    is_suspect: bool


def claim_jobs(
    worker_id: str,
    lanes: Sequence[Lane],
    limit: int,
    lease: timedelta,
    *,
    prefetch: bool = False,
    start: Instant | None = None,
    drops: Sequence[Instant] = (),
) -> Operation[list[ClaimedJob]]:
    """Up to `limit` jobs in claim order.

    `prefetch` marks them as not started; `start` is the `claimed_at` of an earlier prefetched batch that may be
    started once this has committed, `drops` are those of batches of which nothing waits any more.
    """
    rows = yield Statement(
        "claim_jobs",
        {
            "worker": worker_id,
            "lanes": to_json(lanes).decode(),
            "lease_ms": milliseconds(lease),
            "prefetch": prefetch,
            "start_at": start,
            "drops": to_json(list(drops)).decode(),
        },
        literals={"limit": limit},
    )
    return _in_claim_order(rows)


def claim_suspect(worker_id: str, queues: Sequence[str], lease: timedelta) -> Operation[list[ClaimedJob]]:
    """At most one job whose earlier worker died."""
    rows = yield Statement(
        "claim_suspect",
        {"worker": worker_id, "queues": to_json(list(queues)).decode(), "lease_ms": milliseconds(lease)},
    )
    return _in_claim_order(rows)


def find_lanes(queues: Sequence[str]) -> Operation[list[FoundLane]]:
    """Where claimable jobs are, now and later."""
    rows = yield Statement("find_lanes", {"queues": to_json(list(queues)).decode()})
    return [
        FoundLane(queue, priority, ready_at, seq, due, bool(suspect))
        for queue, priority, ready_at, seq, due, suspect in rows
    ]


def next_due(queues: Sequence[str]) -> Operation[timedelta | None]:
    """The time until the next job is due: zero if one is, None if there is none."""
    lanes = yield from find_lanes(queues)
    return min((timedelta(milliseconds=lane.due_in_ms) for lane in lanes), default=None)


def _in_claim_order(rows: Rows) -> list[ClaimedJob]:
    # The databases return updated rows in no particular order.
    claimed = list(map(ClaimedJob._make, rows))
    claimed.sort(key=_claim_order)
    return claimed


def _claim_order(job: ClaimedJob) -> tuple[int, Any, int]:
    return job.priority, job.ready_at, job.seq
