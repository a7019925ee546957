"""Find those who wait for chains that have ended, because somebody died before telling them; or for themselves."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.operations.cycles import Wait
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

_PAGE = 500


class Swept(NamedTuple):
    """One page: where the next one begins (None = at the beginning), what was done, and who waits for a blocked job."""

    next_after: tuple[str, int] | None
    settled: int
    woken: set[str]
    waits: list[Wait]
    #: chains that somebody of the page waits for
    awaited: set[str]


def sweep_blockers(after: tuple[str, int] | None) -> Operation[Swept]:
    """Settle what one page of waiting jobs should have been told."""
    yield ATOMICALLY
    after_job, after_index = after or (None, None)
    parameters = {"after_job": after_job, "after_index": after_index}
    rows = yield Statement("find_unsettled", parameters, literals={"limit": _PAGE})
    ended = {chain_id for _, _, chain_id, is_over, _ in rows if is_over}
    woken = yield from settle_chains(ended, patient=False)
    awaited = {chain_id for _, _, chain_id, is_over, _ in rows if not is_over}
    waits = [Wait(own, job_id, chain_id) for job_id, _, chain_id, _, own in rows if own is not None]
    return Swept((rows[-1][0], rows[-1][1]) if len(rows) == _PAGE else None, len(ended), woken, waits, awaited)
