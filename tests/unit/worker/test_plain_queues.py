"""Which queues are tried the short way."""

from __future__ import annotations

from holdfast.worker.plain_queues import PlainQueues


def test_all_queues_at_first() -> None:
    assert PlainQueues().are_worth_a_try(["a", "b"])


def test_not_after_it_was_in_vain() -> None:
    """Nor together with others; others alone are as they were."""
    queues = PlainQueues()
    queues.were_not_plain(["a"])
    assert not queues.are_worth_a_try(["a"])
    assert not queues.are_worth_a_try(["b", "a"])
    assert queues.are_worth_a_try(["b"])


def test_again_after_fifty_claims() -> None:
    queues = PlainQueues()
    queues.were_not_plain(["a"])
    assert [queues.are_worth_a_try(["a", "a"]) for _ in range(51)] == [False] * 50 + [True]
