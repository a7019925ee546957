"""Say how much of a queue may run at a time, and how fast."""

from __future__ import annotations

from dataclasses import asdict

from holdfast.model.queue import QueueLimits, QueueSettings
from holdfast.operations.queue_settings import queue_settings, record_setting
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


def limit_queue(queue: str, limits: QueueLimits, actor: str | None) -> Operation[QueueSettings]:
    """These limits and no others, from now on."""
    yield ATOMICALLY
    yield Statement("limit_queue", {"queue": queue, **asdict(limits)})
    yield Statement("enter_shares", {"queue": queue})
    settings = yield from queue_settings(queue)
    yield from record_setting("limit_queue", queue, actor, "limited", asdict(limits))
    return settings
