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
    sights = [Sight(*row) for row in rows]
    if missing := [sight.chain_id for sight in sights if sight.status is None]:
        archived = yield from look_at_archive(missing)
        return [archived.get(sight.chain_id, sight) if sight.status is None else sight for sight in sights]
    return sights


def look_at_archive(chain_ids: Iterable[str]) -> Operation[dict[str, Sight]]:
    """Those of the chains that are in the archive, and there they have ended."""
    rows = yield Statement("look_at_archive", {"chains": to_json(sorted(set(chain_ids))).decode()})
    return {row[0]: Sight(*row) for row in rows}


def look_at_chain(chain_id: str) -> Operation[Sight]:
    """The same for one."""
    (sight,) = yield from look_at_chains([chain_id])
    return sight
