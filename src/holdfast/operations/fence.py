"""What a holder learns when a single write of his meets the fence."""

from __future__ import annotations

from holdfast.errors import LeaseLost
from holdfast.operations.lease import Lease
from holdfast.operations.statement import Operation, Statement

#: what a statement says of a job that is not its holder's, and what the holder is told
REASONS = {
    "lost": "lease_lost",
    "cancelled": "cancelled",
    "completed": "completed_elsewhere",
    "completed_here": "completed_here",
    "deleted": "deleted",
}


def admitted(lease: Lease, outcome: str) -> bool:
    """Whether the write went through; False if somebody has the row locked, LeaseLost if it is not the holder's."""
    if outcome in REASONS:
        raise LeaseLost(lease.id, lease.lease_generation, REASONS[outcome])
    return outcome != "locked"


def hold_lease(lease: Lease) -> Operation[bool]:
    """Keep the job its holder's until the transaction ends; False if somebody has it locked just now."""
    rows = yield Statement("hold_lease", {"id": lease.id, "lease_generation": lease.lease_generation})
    return admitted(lease, rows[0][0])


def spoil_transaction(reason: str) -> Operation[None]:
    """Make the transaction uncommittable; always raises whatever the driver makes of it."""
    yield Statement("spoil_transaction", {"reason": f"holdfast: {reason}; this transaction cannot be committed"})
