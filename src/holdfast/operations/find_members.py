"""Who takes part in the hash ring of each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from holdfast.model.clock import milliseconds
from holdfast.operations.statement import Operation, Statement

_queues = msgspec.json.Decoder(list[str])


def find_members(dead_after: timedelta) -> Operation[Mapping[str, frozenset[str]]]:
    """By queue, the workers that serve it, are heard, do not drain, and want to share its buckets."""
    rows = yield Statement("find_members", {"dead_after_ms": milliseconds(dead_after)})
    members: defaultdict[str, set[str]] = defaultdict(set)
    for worker_id, queues in rows:
        for queue in _queues.decode(queues):
            members[queue].add(worker_id)
    return {queue: frozenset(workers) for queue, workers in members.items()}
