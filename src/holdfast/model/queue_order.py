"""Which queue a worker that serves several looks into first."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence

from holdfast.errors import InvalidOption
from holdfast.model.identifiers import checked_name
from holdfast.model.scan_position import Lane

#: "priority": the best priority of all queues first, then what has waited longest; "strict": a queue only when those
#: before it have nothing due
QueueOrder = str | Mapping[str, float]


def checked_queue_order(value: object) -> QueueOrder:
    """A word, or weights by queue."""
    if value in ("priority", "strict"):
        return str(value)
    if not isinstance(value, Mapping) or not value:
        raise InvalidOption("queue_order", value, "must be 'priority', 'strict' or weights: {'mail': 3, 'web': 1}")
    for queue, weight in value.items():
        checked_name("queue_order", queue)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise InvalidOption("queue_order", f"{queue}={weight!r}", "a weight must be a number above zero")
    return dict(value)


class Arrangement:
    """Puts lanes in the order in which a claim looks into them."""

    def __init__(self, order: QueueOrder, queues: Sequence[str]) -> None:
        if isinstance(order, Mapping) and (strange := sorted(order.keys() - set(queues))):
            served = ", ".join(map(repr, queues))
            raise InvalidOption("queue_order", f"{strange[0]}={order[strange[0]]!r}", f"this worker serves {served}")
        self._order = order
        self._queues = queues

    @property
    def is_weighted(self) -> bool:
        return isinstance(self._order, Mapping)

    def arrange(self, lanes: Iterable[Lane]) -> list[Lane]:
        if self._order == "priority":
            # Of one priority the queue that lags behind most, as if all were one: a queue that always came first would
            # leave nothing to the others as long as it has enough.
            return sorted(lanes, key=lambda lane: (lane.priority, lane.ready_at, lane.seq))
        queues = list(self._queues) if self._order == "strict" else self._drawn()
        rank = {queue: place for place, queue in enumerate(queues)}
        return sorted(lanes, key=lambda lane: (rank.get(lane.queue, len(rank)), lane.priority))

    def _drawn(self) -> list[str]:
        """Each queue is first as often as its weight says: the largest of random powers, as of a weighted lottery."""
        weights = self._order if isinstance(self._order, Mapping) else {}
        return sorted(self._queues, key=lambda queue: random.random() ** (1 / weights.get(queue, 1)), reverse=True)  # noqa: S311 - a lottery, no secret
