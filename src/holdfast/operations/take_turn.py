"""Write to a job that others keep sharing: whoever puts jobs behind its chain, one after the other without a gap."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TypeVar

from holdfast.model.clock import milliseconds
from holdfast.model.payload import to_json
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

T = TypeVar("T")


def in_turn(job_id: str, patience: timedelta, operation: Operation[T]) -> Operation[T]:
    """Run `operation` when those who share the job now are gone, and before those who come; DatabaseUnavailable if not.

    Who comes to wait for the job's chain, or for one of a few others, is held up meanwhile, no longer than `patience`.
    """
    yield ATOMICALLY
    yield _take_turn([job_id], patience)
    try:
        statement = next(operation)
        if statement is ATOMICALLY:
            statement = operation.send(())
        while True:
            statement = operation.send((yield statement))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value is not typed
    finally:
        operation.close()


def find_starved(chain_ids: Collection[str]) -> Operation[list[str]]:
    """Last jobs of these chains that should have been claimed, and cannot be because others share them."""
    rows = yield Statement("find_starved", {"chains": to_json(sorted(chain_ids)).decode()})
    return [job_id for (job_id,) in rows]


def keep_free(job_ids: Collection[str], patience: timedelta, pause: timedelta) -> Operation[None]:
    """For the length of a pause, once those who share these jobs now are gone; DatabaseUnavailable if they stay."""
    yield _take_turn(job_ids, patience, pause)


def _take_turn(job_ids: Collection[str], patience: timedelta, pause: timedelta = timedelta(0)) -> Statement:
    return Statement(
        "take_turn",
        {
            "jobs": to_json(sorted(job_ids)).decode(),
            "patience_ms": milliseconds(patience),
            "pause_ms": milliseconds(pause),
        },
    )
