"""Which queue a worker that serves several looks into first."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.errors import InvalidOption
from holdfast.model.queue_order import Arrangement, checked_queue_order
from holdfast.model.scan_position import Lane

LANES = [Lane(queue, priority, 0, 0) for priority in (0, 5) for queue in ("a", "b", "c")]


def test_priority() -> None:
    """By priority, and of one priority the one that is furthest behind first."""
    lanes = [Lane("a", 0, 30, 1), Lane("b", 0, 10, 3), Lane("c", 0, 10, 2), Lane("a", 5, 0, 0)]
    arranged = Arrangement("priority", ["a", "b", "c"]).arrange(lanes)
    assert [(lane.queue, lane.priority) for lane in arranged] == [("c", 0), ("b", 0), ("a", 0), ("a", 5)]


def test_strict() -> None:
    """Queue by queue, in each by priority."""
    arranged = Arrangement("strict", ["b", "c", "a"]).arrange(LANES)
    assert [(lane.queue, lane.priority) for lane in arranged] == [
        ("b", 0), ("b", 5), ("c", 0), ("c", 5), ("a", 0), ("a", 5),
    ]  # fmt: skip


def test_weights() -> None:
    """First as often as the weights say; a queue without a weight has one of 1."""
    arrangement = Arrangement({"a": 6, "b": 3}, ["a", "b", "c"])
    firsts = Counter(arrangement.arrange(LANES)[0].queue for _ in range(3000))
    assert firsts["a"] == pytest.approx(1800, abs=200)
    assert firsts["b"] == pytest.approx(900, abs=200)
    assert firsts["c"] == pytest.approx(300, abs=150)


@pytest.mark.parametrize(
    "value", ["fair", 3, None, {}, {"a": 0}, {"a": -1}, {"a": True}, {"a": "3"}, {"": 1}, {"a": float("inf")}]
)
def test_refused(value: object) -> None:
    with pytest.raises(InvalidOption, match="queue_order"):
        checked_queue_order(value)
