"""Statements of a running worker and its handlers, for `samples.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Raw

from holdfast.model.job import JobError
from holdfast.model.operating import StateCount
from holdfast.model.queue import QueueLimits, ResumeTime
from holdfast.operations.children import Child, await_children, save_children
from holdfast.operations.expire_jobs import expire_jobs
from holdfast.operations.fence import hold_lease, spoil_transaction
from holdfast.operations.find_members import find_members
from holdfast.operations.leadership import acquire_leadership, renew_leadership, resign_leadership
from holdfast.operations.lease import Lease
from holdfast.operations.limit_queue import limit_queue
from holdfast.operations.list_workers import list_workers
from holdfast.operations.pause_queue import pause_queue, resume_queue
from holdfast.operations.process_once import forget_processed, process_once
from holdfast.operations.queue_settings import read_queues
from holdfast.operations.read_blockers import read_blockers
from holdfast.operations.refuse_jobs import Refusal, refuse_jobs
from holdfast.operations.release_worker import release_worker
from holdfast.operations.renew_leases import check_leases
from holdfast.operations.save_progress import save_progress
from holdfast.operations.save_step import list_steps, save_step
from holdfast.operations.share_queue import share_queue
from holdfast.operations.signal_chain import signal_chain, take_signal
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.operations.statement import Operation, Statement
from holdfast.operations.stats import OutcomeCount, count_jobs, keep_stats, read_stats, report_outcomes
from holdfast.operations.suspend_jobs import Suspension, suspend_jobs
from holdfast.operations.tell_holders import tell_holders
from holdfast.operations.write_logs import LogLine, list_logs, write_logs
from tests.contract.backlog import LIVING, QUEUES, job_id

_ERROR = JobError("UnknownJobType", "no")
_TERM = timedelta(seconds=15)


def _held(size: int) -> list[Lease]:
    return [Lease(job_id(n), 1) for n in range(1, size + 1)]


def _first(operation: Operation[Any]) -> list[Statement]:
    return [next(operation)]


def _refuse(size: int) -> list[Statement]:
    return _first(refuse_jobs([Refusal(lease.id, lease.lease_generation, _ERROR) for lease in _held(size)]))


def _snooze(size: int) -> list[Statement]:
    return _first(snooze_jobs([Postponement(lease.id, lease.lease_generation, delay_ms=1000) for lease in _held(size)]))


def _suspend(size: int) -> list[Statement]:
    jobs = [Suspension(lease.id, lease.lease_generation, "signal", "heard", "go") for lease in _held(size)]
    operation = suspend_jobs(jobs)
    next(operation)
    return [operation.send([]), operation.send([])]


def _signal() -> list[Statement]:
    operation = signal_chain(job_id(1), "go", "1")
    next(operation)
    operation.send([])
    return [
        operation.send([[job_id(1), job_id(1), job_id(1), True, "running", "default", 1, 0, 1, "report", None, True]])
    ]


def _await(size: int) -> list[Statement]:
    children = [job_id(number) for number in range(2, size + 2)]
    operation = await_children(_held(1)[0], job_id(1), children, "run")
    next(operation)
    operation.send([])
    operation.send([(chain_id, "running") for chain_id in children])
    return [operation.send([])]


def _log(size: int) -> list[Statement]:
    return _first(write_logs([LogLine(lease.id, 1, "info", "hello", Raw(b"{}")) for lease in _held(size)]))


def _count(size: int) -> list[Statement]:
    """As it goes when the first queue has all there is."""
    operation = count_jobs(size)
    answers: list[Any] = [[[QUEUES[0], "report", True, 5]], [["report", True, 5, 5]]]
    return [next(operation), *(operation.send(answer) for answer in answers)]


def _read_stats() -> list[Statement]:
    operation = read_stats(timedelta(hours=1))
    answers: list[Any] = [[["default", "report", "ready", 1, False, 5, 5]], []]
    return [next(operation), *(operation.send(answer) for answer in answers)]


def _keep() -> list[Statement]:
    count = StateCount(queue="default", type_name="report", state="ready", jobs=3, oldest_seconds=1.5)
    return _first(keep_stats("sampler", 1, [count]))


def _release() -> list[Statement]:
    operation = release_worker(LIVING, "me")
    next(operation)
    return [operation.send([])]


def _limit() -> list[Statement]:
    operation = limit_queue("default", QueueLimits(5, 2.5, 10), "me")
    next(operation)
    return [operation.send([]), operation.send([])]


def _share() -> list[Statement]:
    operation = share_queue(LIVING, "default", 1, 2, is_known=True)
    next(operation)
    return [operation.send([]), operation.send([[5, 2_500_000, 10]]), operation.send([[LIVING, 1, 1, 1, 1, 1]])]


def _second(operation: Operation[Any]) -> list[Statement]:
    """Of a verb that asks for a transaction first."""
    next(operation)
    return [operation.send([])]


WORKER_SAMPLES: Mapping[str, Callable[[str, int], list[Statement]]] = {
    "await_children": lambda _, size: _await(size),
    "acquire_leadership": lambda _, size: _first(acquire_leadership("sampler", _TERM)),
    "collect_shares": lambda _, size: _share(),
    "count_aside": lambda _, size: _count(size),
    "count_queue": lambda _, size: _count(size),
    "check_leases": lambda _, size: _first(check_leases(_held(size))),
    "enter_shares": lambda _, size: _limit(),
    "expire_jobs": lambda _, size: _first(expire_jobs(size)),
    "find_held": lambda _, size: _release(),
    "find_members": lambda _, size: _first(find_members(timedelta(seconds=20))),
    "find_queues": lambda _, size: _count(size),
    "forget_processed": lambda _, size: _first(forget_processed(size)),
    "hold_lease": lambda _, size: _first(hold_lease(_held(1)[0])),
    "keep_stats": lambda _, size: _keep(),
    "list_workers": lambda _, size: _first(list_workers()),
    "list_logs": lambda _, size: _first(list_logs(job_id(1))),
    "list_steps": lambda _, size: _first(list_steps(job_id(1))),
    "limit_queue": lambda _, size: _limit(),
    "lock_queue": lambda _, size: _share(),
    "pause_queue": lambda _, size: _second(pause_queue("default", ResumeTime(), "me", "a reason")),
    "process_once": lambda _, size: _first(process_once(_held(1)[0], "report", "key")),
    "read_queues": lambda _, size: _first(read_queues("default")),
    "read_stats": lambda _, size: _read_stats(),
    "read_services": lambda _, size: _read_stats(),
    "read_throughput": lambda _, size: _read_stats(),
    "report_outcomes": lambda _, size: _first(report_outcomes([OutcomeCount("default", "report", 1, 2)])),
    "read_blockers": lambda _, size: _first(read_blockers(job_id(1))),
    "renew_leadership": lambda _, size: _first(renew_leadership("sampler", 1, _TERM)),
    "resign_leadership": lambda _, size: _first(resign_leadership("sampler", 1)),
    "resume_queue": lambda _, size: _second(resume_queue("default", "me")),
    "refuse_jobs": lambda _, size: _refuse(size),
    "save_children": lambda _, size: _first(
        save_children(_held(1)[0], "parts", [Child(job_id(2), "report", "pending", "created", 0)])
    ),
    "save_progress": lambda _, size: _first(save_progress(_held(1)[0], "0.5")),
    "save_step": lambda _, size: _first(save_step(_held(1)[0], "charge", "1")),
    "send_signal": lambda _, size: _signal(),
    "share_queue": lambda _, size: _share(),
    "snooze_jobs": lambda _, size: _snooze(size),
    "spoil_transaction": lambda _, size: _first(spoil_transaction("the lease was lost")),
    "suspend_jobs": lambda _, size: _suspend(size),
    "take_signal": lambda _, size: _first(take_signal(_held(1)[0], "heard", "go")),
    "tell_holders": lambda _, size: _first(tell_holders([lease.id for lease in _held(size)])),
    "wake_signalled": lambda _, size: _suspend(size),
    "write_logs": lambda _, size: _log(size),
}
