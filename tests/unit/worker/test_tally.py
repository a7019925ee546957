"""Counting how attempts end."""

from __future__ import annotations

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.stats import OutcomeCount
from holdfast.worker.tally import Tally


def _claimed(type_name: str = "sum", queue: str = "default") -> ClaimedJob:
    unused = dict.fromkeys(ClaimedJob._fields, None)
    return ClaimedJob(**{**unused, "type_name": type_name, "queue": queue})  # type: ignore[arg-type]  # the rest is not looked at


def test_counts_by_queue_and_type() -> None:
    tally = Tally()
    tally.completed([_claimed()])
    tally.failed([_claimed()])
    tally.completed([_claimed("mail")])
    tally.failed([_claimed(queue="slow")])
    assert sorted(tally.take(), key=str) == sorted(
        [
            OutcomeCount("default", "sum", 1, 1),
            OutcomeCount("default", "mail", 1, 0),
            OutcomeCount("slow", "sum", 0, 1),
        ],
        key=str,
    )
    assert tally.take() == []


def test_a_report_that_failed_is_not_lost() -> None:
    tally = Tally()
    tally.completed([_claimed()])
    taken = tally.take()
    tally.completed([_claimed()])
    tally.put_back(taken)
    assert tally.take() == [OutcomeCount("default", "sum", 2, 0)]
