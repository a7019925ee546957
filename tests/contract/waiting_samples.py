"""Samples of the verbs of those who wait for chains, and of those who complete them from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from holdfast.model.job import Job
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.announce_waiters import announce_waiters, withdraw_waiters
from holdfast.operations.complete_outside import OutsideCompletion, complete_outside
from holdfast.operations.look_at_chains import look_at_chains
from holdfast.operations.statement import Statement
from tests.contract.backlog import job_id

_CHANNEL = "holdfast_chain_0011223344556677"


def _chains(size: int) -> list[str]:
    return [job_id(n) for n in range(1, size + 1)]


def _seize() -> list[Statement]:
    moment = datetime.now(UTC)
    id_ = job_id(1)
    job = Job(
        id=id_, seq=1, type_name="report", queue="default", priority=0, chain_id=id_, chain_type_name="report",
        chain_index=0, input={}, status=Status.PENDING, held=False, attempt=0, crash_count=0, created_at=moment,
        scheduled_at=moment, ready_at=moment, lease_generation=0,
    )  # fmt: skip
    operation = complete_outside(OutsideCompletion(id_, False, (), lambda _: None))
    next(operation)
    locked = operation.send(())
    read = operation.send([[id_, id_, id_, True, "pending", "default", 0, 0, 1, "report", None, True]])
    return [locked, read, operation.send([[to_json(job)]])]


WAITING_SAMPLES: Mapping[str, Callable[[str, int], list[Statement]]] = {
    "announce_waiters": lambda _, size: [next(announce_waiters(_CHANNEL, _chains(size)))],
    "look_at_chains": lambda _, size: [next(look_at_chains(_chains(size)))],
    "seize_job": lambda _, size: _seize(),
    "withdraw_waiters": lambda _, size: [next(withdraw_waiters(_CHANNEL, _chains(size)))],
}
