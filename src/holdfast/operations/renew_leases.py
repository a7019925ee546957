"""Extend leases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from holdfast.model.clock import milliseconds
from holdfast.operations.lease import Lease, Settlement, document
from holdfast.operations.statement import Operation, Statement


def renew_leases(leases: Sequence[Lease], lease: timedelta) -> Operation[Settlement]:
    """All of a worker's leases in one statement."""
    rows = yield Statement("renew_leases", {"leases": document(leases), "lease_ms": milliseconds(lease)})
    return Settlement.of(rows)
