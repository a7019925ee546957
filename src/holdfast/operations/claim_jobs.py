"""Take jobs to run: the claim, its lanes, and the time until there is more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.model.clock import milliseconds
from holdfast.model.payload import to_json
from holdfast.model.scan_position import Instant, Lane
from holdfast.model.tenant_turns import WINDOW, TenantLane
from holdfast.operations.statement import Operation, Rows, Statement

#: the first digits of the sizes that claims come in
_SIZES = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_EXACT = 10


def claim_size(limit: int) -> int:
    """The next smaller of some thirty sizes.

    A claim's limit stands in its text, so each has a plan of its own, and making one takes longer than most claims.
    """
    if limit <= _EXACT:
        return limit
    unit = 10 ** (len(str(limit)) - 1)
    return int(max(size for size in _SIZES if size * unit <= limit) * unit)


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
    partition_key: str | None
    partition_seq: int | None
    #: 'first' of those of its key in this claim, or 'follows'
    standing: str | None


class Claim(list[ClaimedJob]):
    """The jobs that a claim brought, in claim order; and what it met besides."""

    #: the short way was tried in vain, because of partition keys or limits
    was_not_plain = False
    #: jobs that were found behind others of their partition keys, and are out of the way now
    aside = 0
    #: the last places of lanes in which jobs were left because somebody is changing what stands in front of them
    passed: tuple[ClaimedJob, ...] = ()
    #: by tenant, in a claim by turns, how many were found and not claimed
    left: Mapping[str | None, int] = MappingProxyType({})


class FoundLane(NamedTuple):
    """A (queue, priority) with its first job; or the first of those jobs of a queue that go by tenant."""

    queue: str
    priority: int
    ready_at: Instant
    seq: int
    due_in_ms: int
    is_suspect: bool
    is_fair: bool = False


def claim_jobs(
    worker_id: str,
    lanes: Sequence[Lane],
    limit: int,
    lease: timedelta,
    *,
    prefetch: bool = False,
    start: Instant | None = None,
    drops: Sequence[Instant] = (),
    run: int = 0,
    room: int = 0,
    taste: str | None = None,
    most: int | None = None,
    plain: bool = False,
) -> Operation[Claim]:
    """Up to `limit` jobs in claim order; behind the first one of a partition key up to `run` that come next.

    With these there may be more than `limit`, but no more than `room` in all.

    `taste` says what is left to others, see `model/taste.py`; `most` how many are taken of each lane, where these
    have tenants.
    `prefetch` marks them as not started; `start` is the `claimed_at` of an earlier prefetched batch that may be
    started once this has committed, `drops` are those of batches of which nothing waits any more.
    `plain`: there are probably neither keys nor limits in these lanes, without tenants and taste; where the store
    `claims_plainly`, a shorter statement does if there are none.
    """
    asked = {
        "worker": worker_id,
        "lanes": to_json(lanes).decode(),
        "lease_ms": milliseconds(lease),
        "prefetch": prefetch,
        "start_at": start,
        "drops": to_json(list(drops)).decode(),
    }
    if plain:
        marks = prefetch or start is not None or bool(drops)
        rows = yield Statement("claim_plain", asked, literals={"limit": limit, "marks": int(marks)})
        if not rows or rows[-1][0] is not None:
            return _in_order(rows)
    rest = {"run": run, "room": max(room, limit), "taste": taste, "most": most}
    rows = yield Statement("claim_jobs", asked | rest, literals={"limit": limit})
    claimed = _sorted_out(rows)
    claimed.was_not_plain = plain
    return claimed


def claim_suspect(
    worker_id: str, queues: Sequence[str], lease: timedelta, taste: str | None = None, passed: Sequence[int] = ()
) -> Operation[Claim]:
    """At most one job whose earlier worker died; none of those with the seqs in `passed`."""
    rows = yield Statement(
        "claim_suspect",
        {
            "worker": worker_id,
            "queues": to_json(list(queues)).decode(),
            "lease_ms": milliseconds(lease),
            "taste": taste,
            "passed": to_json(list(passed)).decode(),
        },
    )
    return _sorted_out(rows)


def find_lanes(queues: Sequence[str], taste: str | None = None) -> Operation[list[FoundLane]]:
    """Where claimable jobs are, now and later."""
    rows = yield Statement("find_lanes", {"queues": to_json(list(queues)).decode(), "taste": taste})
    return [
        FoundLane(queue, priority, ready_at, seq, due, bool(suspect), bool(fair))
        for queue, priority, ready_at, seq, due, suspect, fair in rows
    ]


def find_tenants(queue: str, after: str = "", taste: str | None = None) -> Operation[list[TenantLane]]:
    """The next tenants behind `after` that have jobs that go by tenant, and where these are."""
    rows = yield Statement("find_tenants", {"queue": queue, "after": after, "taste": taste}, literals={"limit": WINDOW})
    return [TenantLane._make(row) for row in rows]


def next_due(queues: Sequence[str]) -> Operation[timedelta | None]:
    """The time until the next job is due: zero if one is, None if there is none."""
    lanes = yield from find_lanes(queues)
    return min((timedelta(milliseconds=lane.due_in_ms) for lane in lanes), default=None)


#: ClaimedJob._make, without the call of a Python function that each job would pay for
_make: Callable[[Sequence[Any]], ClaimedJob] = partial(tuple.__new__, ClaimedJob)
_claim_order = attrgetter("priority", "ready_at", "seq")


def _sorted_out(rows: Rows) -> Claim:
    left = [_make(row) for row in rows if row[0] is None]
    claim = _in_order([row for row in rows if row[0] is not None] if left else rows)
    claim.aside = sum(lane.lease_generation for lane in left)
    if left:
        counts: Counter[str | None] = Counter()
        for lane in left:
            counts[lane.tenant] += lane.lease_generation + (lane.timeout_ms or 0)
        claim.left = counts
    claim.passed = tuple(lane for lane in left if lane.timeout_ms)
    return claim


def _in_order(rows: Rows) -> Claim:
    """The databases return updated rows in no particular order."""
    claim = Claim(map(_make, rows))
    claim.sort(key=_claim_order)
    return claim
