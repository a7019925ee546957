"""What a lease holder sends with every write, and what it learns back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Self

import msgspec

from holdfast.operations.statement import Rows


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The fence: a job and the generation under which its holder may write."""

    id: str
    lease_generation: int


@dataclass(slots=True)
class Settlement:
    """What became of a batch of writes by holders: all went through but these."""

    lost: set[str] = field(default_factory=set)
    locked: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, rows: Rows) -> Self:
        settlement = cls()
        for job_id, outcome in rows:
            if outcome == "lost":
                settlement.lost.add(job_id)
            elif outcome == "locked":
                settlement.locked.add(job_id)
        return settlement


def document(items: Iterable[msgspec.Struct]) -> str:
    """The one JSON parameter of a batch, sorted by id: one lock order everywhere."""
    return msgspec.json.encode(sorted(items, key=_by_id)).decode()


_by_id = attrgetter("id")
