"""Where lists look: along seq, or where an index leads to what is asked for."""

from __future__ import annotations

from typing import Final

from holdfast.model.job_filter import JobFilter
from holdfast.model.status import Status
from holdfast.operations.statement import Operation, Statement

BY_SEQ: Final = "by_seq"
BY_ID: Final = "by_id"
BY_TENANT: Final = "by_tenant"
#: whoever looks there meets jobs of every state
BY_NO_STATE: Final = frozenset({BY_SEQ, BY_ID, BY_TENANT})

#: so many are read and sorted in no time; where there are more, a walk along seq meets them soon
_FEW_PENDING: Final = 5000


def choose_sources(chosen: JobFilter) -> Operation[tuple[str, ...]]:
    """Names of the parts of `list_jobs` and `list_chains` that lead to everything the filter means.

    Jobs of a state that most jobs leave at once are found through the index of that state.  Completed jobs have none,
    because it would cost every job something; the latest of them lie along seq.
    """
    if chosen.ids is not None or chosen.chain_ids is not None:
        return (BY_ID,)
    states = chosen.status
    if states is not None and Status.COMPLETED not in states:
        if Status.PENDING not in states:
            return states
        rows = yield Statement("count_pending", literals={"limit": _FEW_PENDING + 1})
        if rows[0][0] <= _FEW_PENDING:
            return states
    return (BY_SEQ,) if chosen.tenant is None else (BY_TENANT,)
