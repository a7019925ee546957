"""Wake workers."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement


def notify_work(channel: str, queues: Iterable[str]) -> Operation[None]:
    """A hint that there is work in `queues`."""
    yield Statement("notify_work", {"channel": channel, "queues": to_json(sorted(queues)).decode()})
