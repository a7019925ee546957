"""Statements of the verbs of people: cancel, retry, reschedule, remove, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.model.job_filter import JobFilter
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.control import Orders
from holdfast.operations.cycles import Wait, break_cycle
from holdfast.operations.deduplication_keys import Key
from holdfast.operations.delete_chains import delete_chains
from holdfast.operations.find_targets import Find, SeqRange, find_seq_range, find_target_chains, find_targets
from holdfast.operations.remove_job import remove_job
from holdfast.operations.repeatable import Repeatable
from holdfast.operations.reschedule_jobs import reschedule_jobs
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.operations.statement import Operation, Rows, Statement
from tests.contract.backlog import FIRST_FINISHED, job_id

_ORDERS = Orders(actor="ada")


def _running(size: int) -> list[str]:
    return [job_id(n) for n in range(1, size + 1)]


def _finished(size: int) -> list[str]:
    return [job_id(FIRST_FINISHED + n) for n in range(size)]


def _locked(ids: list[str], status: str, waiting_for: int = 0) -> Rows:
    return [[each, each, each, True, status, "default", 1, waiting_for, 1, "report", None, True] for each in ids]


def _cancel(ids: list[str]) -> list[Statement]:
    return _sent(cancel_jobs(ids, _ORDERS, "no"), [], _locked(ids, "running"), [[0]], [])


def _reschedule(ids: list[str]) -> list[Statement]:
    return _sent(reschedule_jobs(ids, _ORDERS, delay=timedelta(1)), [], _locked(ids, "pending"), [])


def _retry(ids: list[str]) -> list[Statement]:
    """Each has a key of its own that nobody remembers, and waits for a chain."""
    claims = [[each, "report", each, "unfinished"] for each in ids]
    entered = [["report", each] for each in ids]
    waiting = _locked(ids, "dead_letter", 1)
    blockers = [[each, job_id(1), False, False] for each in ids]
    return _sent(retry_jobs(ids, _ORDERS), [], claims, [], [], entered, claims, waiting, blockers, [], [], [], [])


def _delete(ids: list[str]) -> list[Statement]:
    chains = [[each, each, each, 0, True, "completed", 1, 1, "2026-01-01T00:00:00.000000Z", True] for each in ids]
    return _sent(delete_chains(ids, _ORDERS, cascade=True), [], [], chains, [], [], [], [])


def _remove() -> list[Statement]:
    holder = job_id(1)
    chain = [[holder, holder, holder, 0, True, "running", 1, 1, None, True]]
    judged = [[0, holder, True, False, "running", None]]
    return _sent(remove_job(Key("report", "k"), _ORDERS), [], [["report", "k"]], judged, chain, [])


def _find(find: Find, size: int) -> list[Statement]:
    chosen = JobFilter(status=["blocked", "pending", "running"], type_name="report")
    (statement,) = _sent(find(chosen, SeqRange(0, 10)))
    return [msgspec.structs.replace(statement, literals={"limit": size})]


def _sent(operation: Operation[Any], *answers: Rows) -> list[Statement]:
    return [next(operation), *(operation.send(answer) for answer in answers)]


def _repeat() -> list[Statement]:
    repeatable = Repeatable(find_seq_range)
    first = repeatable.run()
    named = _sent(first, [], [["17"]])
    with suppress(StopIteration):
        first.send([[1, 2]])
    return [*named, *_sent(repeatable.run(), [])]


def _break(ids: list[str]) -> list[Statement]:
    cycle = [Wait(each, each, ids[place - 1]) for place, each in enumerate(ids)]
    return _sent(break_cycle(cycle), [], _locked(ids, "blocked", 1))


CONTROL_SAMPLES: Mapping[str, Callable[[str, int], list[Statement]]] = {
    "break_cycle": lambda _, size: _break(_running(size)),
    "cancel_jobs": lambda _, size: _cancel(_running(size)),
    "delete_chains": lambda _, size: _delete(_finished(size)),
    "enter_keys": lambda _, size: _retry(_finished(size)),
    "find_blocking_chains": lambda _, size: _delete(_finished(size)),
    "find_dependants": lambda _, size: _delete(_finished(size)),
    "find_keys": lambda _, size: _retry(_finished(size)),
    "find_seq_range": lambda _, size: _sent(find_seq_range()),
    "find_target_chains": lambda _, size: _find(find_target_chains, size),
    "find_transaction": lambda _, size: _repeat(),
    "find_waits": lambda _, size: _retry(_finished(size)),
    "find_targets": lambda _, size: _find(find_targets, size),
    "give_up_key": lambda _, size: _remove(),
    "guard_blockers": lambda _, size: _retry(_finished(size)),
    "lock_chains": lambda _, size: _delete(_finished(size)),
    "lock_jobs": lambda _, size: _cancel(_running(size)),
    "lock_keys": lambda _, size: _retry(_finished(size)),
    "name_transaction": lambda _, size: _repeat(),
    "record_audit": lambda _, size: _cancel(_running(size)),
    "reopen_blockers": lambda _, size: _retry(_finished(size)),
    "reschedule_jobs": lambda _, size: _reschedule(_running(size)),
    "retry_jobs": lambda _, size: _retry(_finished(size)),
}
