"""See how chains stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.model.payload import to_json
from holdfast.model.status import TERMINAL
from holdfast.operations.statement import Operation, Statement


class Sight(NamedTuple):
    """A chain at one moment; without a status there is none. What its last job left behind is told when it is over."""

    chain_id: str
    status: str | None
    job_id: str | None = None
    type_name: str | None = None
    chain_type_name: str | None = None
    output: str | None = None
    error: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether waiting any longer is of no use."""
        return self.status is None or self.status in TERMINAL


def look_at_chains(chain_ids: Iterable[str]) -> Operation[list[Sight]]:
    """In no particular order."""
    rows = yield Statement("look_at_chains", {"chains": to_json(sorted(set(chain_ids))).decode()})
    return [Sight(*row) for row in rows]


def look_at_chain(chain_id: str) -> Operation[Sight]:
    """The same for one."""
    (sight,) = yield from look_at_chains([chain_id])
    return sight
