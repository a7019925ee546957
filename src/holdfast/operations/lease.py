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
    """What became of a batch of writes by holders: all went through but these.

    - `cancelled`: ended instead, for somebody had asked for that.
    - `woken`: queues that got work because somebody waited for what ended.
    - `unsettled`: chains whose dependants have not all been told, because somebody has one of them locked.
    """

    lost: set[str] = field(default_factory=set)
    locked: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    woken: set[str] = field(default_factory=set)
    unsettled: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, rows: Rows) -> Self:
        settlement = cls()
        sets = {
            "lost": settlement.lost,
            "locked": settlement.locked,
            "cancelled": settlement.cancelled,
            "woken": settlement.woken,
            "unsettled": settlement.unsettled,
        }
        for subject, outcome in rows:
            if outcome in sets:
                sets[outcome].add(subject)
        return settlement


def document(items: Iterable[msgspec.Struct]) -> str:
    """The one JSON parameter of a batch, sorted by id: one lock order everywhere."""
    return msgspec.json.encode(sorted(items, key=_by_id)).decode()


_by_id = attrgetter("id")
