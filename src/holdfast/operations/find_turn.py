"""How far a job is from its turn, in a queue that is fair by tenant."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.tenant_turns import WINDOW
from holdfast.operations.claim_jobs import find_tenants
from holdfast.operations.statement import Operation, Statement

#: so many in front of it are looked at
MOST_AHEAD = 100


class Turn(NamedTuple):
    """What a job waits for whose tenant takes turns with others.

    - `tenants`: how many have something due, its own among them; `is_more`: there may be others.
    - `ahead`: how many jobs of its own tenant come before it; `is_far`: there may be others.
    """

    tenants: int
    is_more: bool
    ahead: int
    is_far: bool


def find_turn(job_id: str, queue: str) -> Operation[Turn | None]:
    """None for a job that does not take turns, or waits for something else first."""
    rows = yield Statement("find_turn", {"id": job_id}, literals={"limit": MOST_AHEAD})
    if not rows:
        return None
    ahead, is_far = rows[0]
    lanes = yield from find_tenants(queue)
    due = {lane.tenant for lane in lanes if lane.due_in_ms == 0}
    return Turn(max(len(due), 1), len({lane.tenant for lane in lanes}) >= WINDOW, ahead, bool(is_far))
