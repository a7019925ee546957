"""Drop the record of what people did long ago."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from holdfast.model.clock import milliseconds
from holdfast.operations.statement import Operation, Statement

#: whoever repeats a verb after a lost answer looks at the record for what the first try did
_LEAST: Final = timedelta(minutes=1)


def forget_audit(keep: timedelta, limit: int = 500) -> Operation[int]:
    """The oldest entries, up to `limit` of them; how many went."""
    keep_ms = milliseconds(max(keep, _LEAST))
    rows = yield Statement("forget_audit", {"keep_ms": keep_ms}, literals={"limit": limit})
    return int(rows[0][0])
