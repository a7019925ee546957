"""Statements of a running worker and its handlers, for `samples.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw

from holdfast.model.job import JobError
from holdfast.operations.expire_jobs import expire_jobs
from holdfast.operations.fence import hold_lease, spoil_transaction
from holdfast.operations.lease import Lease
from holdfast.operations.process_once import forget_processed, process_once
from holdfast.operations.read_blockers import read_blockers
from holdfast.operations.refuse_jobs import Refusal, refuse_jobs
from holdfast.operations.renew_leases import check_leases
from holdfast.operations.save_progress import save_progress
from holdfast.operations.save_step import list_steps, save_step
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.operations.statement import Operation, Statement
from holdfast.operations.tell_holders import tell_holders
from holdfast.operations.write_logs import LogLine, list_logs, write_logs
from tests.contract.backlog import job_id

_ERROR = JobError("UnknownJobType", "no")


def _held(size: int) -> list[Lease]:
    return [Lease(job_id(n), 1) for n in range(1, size + 1)]


def _first(operation: Operation[Any]) -> list[Statement]:
    return [next(operation)]


def _refuse(size: int) -> list[Statement]:
    return _first(refuse_jobs([Refusal(lease.id, lease.lease_generation, _ERROR) for lease in _held(size)]))


def _snooze(size: int) -> list[Statement]:
    return _first(snooze_jobs([Postponement(lease.id, lease.lease_generation, delay_ms=1000) for lease in _held(size)]))


def _log(size: int) -> list[Statement]:
    return _first(write_logs([LogLine(lease.id, 1, "info", "hello", Raw(b"{}")) for lease in _held(size)]))


WORKER_SAMPLES: Mapping[str, Callable[[str, int], list[Statement]]] = {
    "check_leases": lambda _, size: _first(check_leases(_held(size))),
    "expire_jobs": lambda _, size: _first(expire_jobs(size)),
    "forget_processed": lambda _, size: _first(forget_processed(size)),
    "hold_lease": lambda _, size: _first(hold_lease(_held(1)[0])),
    "list_logs": lambda _, size: _first(list_logs(job_id(1))),
    "list_steps": lambda _, size: _first(list_steps(job_id(1))),
    "process_once": lambda _, size: _first(process_once(_held(1)[0], "report", "key")),
    "read_blockers": lambda _, size: _first(read_blockers(job_id(1))),
    "refuse_jobs": lambda _, size: _refuse(size),
    "save_progress": lambda _, size: _first(save_progress(_held(1)[0], "0.5")),
    "save_step": lambda _, size: _first(save_step(_held(1)[0], "charge", "1")),
    "snooze_jobs": lambda _, size: _snooze(size),
    "spoil_transaction": lambda _, size: _first(spoil_transaction("the lease was lost")),
    "tell_holders": lambda _, size: _first(tell_holders([lease.id for lease in _held(size)])),
    "write_logs": lambda _, size: _log(size),
}
