"""What handlers do once, by keys of their own."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from holdfast.model.clock import milliseconds
from holdfast.operations.fence import admitted
from holdfast.operations.lease import Lease
from holdfast.operations.statement import Operation, Statement

KEEP_PROCESSED = timedelta(days=30)


def process_once(
    lease: Lease, type_name: str, key: str, keep: timedelta = KEEP_PROCESSED, *, aliases: Iterable[str] = ()
) -> Operation[bool]:
    """Fenced; whether this is the first transaction with the key among those that committed within `keep`.

    The key is written under every name of the type, so that code which knows only one of them finds it too.
    """
    names = sorted({type_name, *aliases})
    rows = yield Statement(
        "process_once",
        {
            "id": lease.id,
            "lease_generation": lease.lease_generation,
            "type_names": msgspec.json.encode(names).decode(),
            "key": key,
            "keep_ms": milliseconds(keep),
        },
    )
    outcome = rows[0][0]
    admitted(lease, outcome)
    return bool(outcome == "first")


def forget_processed(limit: int = 500, keep: timedelta = KEEP_PROCESSED) -> Operation[int]:
    """Drop one batch of keys that are older than `keep`; how many there were."""
    rows = yield Statement("forget_processed", {"keep_ms": milliseconds(keep)}, literals={"limit": limit})
    return int(rows[0][0])
