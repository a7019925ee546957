"""How far a job is."""

from __future__ import annotations

from holdfast.operations.fence import admitted
from holdfast.operations.lease import Lease
from holdfast.operations.statement import Operation, Statement


def save_progress(lease: Lease, progress: str) -> Operation[bool]:
    """Fenced; False if somebody has the job locked just now."""
    rows = yield Statement(
        "save_progress", {"id": lease.id, "lease_generation": lease.lease_generation, "progress": progress}
    )
    return admitted(lease, rows[0][0])
