"""Wake workers."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement


def notify_work(channel: str, queues: Iterable[str], *, is_alone: bool = False) -> Operation[None]:
    """A hint that there is work in `queues`; alone in its transaction, it need not wait for the disk."""
    parameters = {"channel": channel, "queues": to_json(sorted(queues)).decode(), "is_alone": is_alone}
    yield Statement("notify_work", parameters)
