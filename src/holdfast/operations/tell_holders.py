"""Let the holders of jobs know that something has happened to these."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement


def tell_holders(job_ids: Iterable[str]) -> Operation[set[str]]:
    """Before the jobs are changed, in the same transaction; a hint, sent with the commit to whoever holds one then.

    Returns what is to be sent after the commit, to those whom the database cannot reach.
    """
    rows = yield Statement("tell_holders", {"jobs": to_json(sorted(set(job_ids))).decode()})
    return {letter for (letter,) in rows if letter is not None}
