"""Extend leases, and learn what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from holdfast.model.clock import milliseconds
from holdfast.operations.fence import REASONS
from holdfast.operations.lease import Lease, Settlement, document
from holdfast.operations.statement import Operation, Rows, Statement


@dataclass(slots=True)
class LeaseNews(Settlement):
    """Also says why each lost job was lost, and which holders are asked to stop."""

    reasons: dict[str, str] = field(default_factory=dict)
    cancel_requested: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, rows: Rows) -> Self:
        news = cls()
        for job_id, outcome in rows:
            if outcome in REASONS:
                news.lost.add(job_id)
                news.reasons[job_id] = REASONS[outcome]
            elif outcome == "locked":
                news.locked.add(job_id)
            else:
                news.cancel_requested.add(job_id)
        return news


def renew_leases(leases: Sequence[Lease], lease: timedelta) -> Operation[LeaseNews]:
    """All of a worker's leases in one statement."""
    rows = yield Statement("renew_leases", {"leases": document(leases), "lease_ms": milliseconds(lease)})
    return LeaseNews.of(rows)


def check_leases(leases: Sequence[Lease]) -> Operation[LeaseNews]:
    """The same news, without renewing anything."""
    rows = yield Statement("check_leases", {"leases": document(leases)})
    return LeaseNews.of(rows)
