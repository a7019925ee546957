"""Find those who wait for chains that have ended, because somebody died before he could tell them."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

_PAGE = 500


class Swept(NamedTuple):
    """One page: where the next one begins (None = at the beginning), and what was done."""

    next_after: tuple[str, int] | None
    settled: int
    woken: set[str]


def sweep_blockers(after: tuple[str, int] | None) -> Operation[Swept]:
    """Settle what one page of waiting jobs should have been told."""
    yield ATOMICALLY
    after_job, after_index = after or (None, None)
    parameters = {"after_job": after_job, "after_index": after_index}
    rows = yield Statement("find_unsettled", parameters, literals={"limit": _PAGE})
    ended = {chain_id for _, _, chain_id, is_over in rows if is_over}
    woken = yield from settle_chains(ended, patient=False)
    return Swept((rows[-1][0], rows[-1][1]) if len(rows) == _PAGE else None, len(ended), woken)
