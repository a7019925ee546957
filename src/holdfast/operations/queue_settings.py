"""What people have set for queues, and the record of who did."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.model.payload import to_json
from holdfast.model.queue import QueueSettings
from holdfast.operations.statement import Operation, Statement

_settings = msgspec.json.Decoder(QueueSettings)


def read_queues(queue: str | None = None) -> Operation[list[QueueSettings]]:
    """Of one queue, or of all that are paused or limited, by name."""
    rows = yield Statement("read_queues", {"queue": queue})
    return [_settings.decode(document) for (document,) in rows]


def queue_settings(queue: str) -> Operation[QueueSettings]:
    """As they stand, which may be: nothing."""
    found = yield from read_queues(queue)
    return found[0] if found else QueueSettings(name=queue)


def record_setting(
    verb: str, queue: str, actor: str | None, outcome: str, detail: Mapping[str, object] | None = None
) -> Operation[None]:
    """Who set what, in the transaction that set it."""
    given = {name: value for name, value in (detail or {}).items() if value is not None}
    entry = {"chain_id": None, "job_id": None, "outcome": outcome, "detail": {"queue": queue, **given}}
    yield Statement("record_audit", {"actor": actor, "verb": verb, "entries": to_json([entry]).decode()})
