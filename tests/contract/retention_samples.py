"""Statements of retention: what has had its time, the archive, vacuum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from holdfast.operations.forget_audit import forget_audit
from holdfast.operations.get_chain import find_chain
from holdfast.operations.get_job import find_job
from holdfast.operations.look_at_chains import look_at_archive
from holdfast.operations.prune_chains import (
    Doomed,
    Place,
    close_archive,
    find_finished,
    find_needed,
    open_archive,
    prune_chains,
    read_retention,
)
from holdfast.operations.settings import list_settings, set_setting, unset_setting
from holdfast.operations.statement import Operation, Rows, Statement
from holdfast.operations.vacuum import vacuum
from tests.contract.backlog import FIRST_FINISHED, job_id

_ENDED = "2026-01-01T00:00:00.000000Z"


def _finished(size: int) -> list[str]:
    return [job_id(FIRST_FINISHED + n) for n in range(size)]


def _sent(operation: Operation[Any], *answers: Rows) -> list[Statement]:
    return [next(operation), *(operation.send(answer) for answer in answers)]


def _prune(ids: list[str]) -> list[Statement]:
    chains = [[each, each, each, 0, True, "completed", 1, 1, _ENDED, True] for each in ids]
    return _sent(prune_chains([Doomed(each, "completed", 1, _ENDED, is_archived=True) for each in ids]), [], chains, [])


RETENTION_SAMPLES: Mapping[str, Callable[[str, int], list[Statement]]] = {
    "archive_chains": lambda _, size: _prune(_finished(size)),
    "close_archive": lambda _, size: _sent(close_archive(timedelta(days=365), size)),
    "find_finished": lambda _, size: _sent(
        find_finished(Place("2000-01-01T00:00:00.000000Z", 0), timedelta(minutes=1), size)
    ),
    "find_needed": lambda _, size: _sent(find_needed(_finished(size))),
    "forget_audit": lambda _, size: _sent(forget_audit(timedelta(days=365), size)),
    "get_archived_chain": lambda _, size: _sent(find_chain(job_id(1)), [])[1:],
    "get_archived_job": lambda _, size: _sent(find_job(job_id(1)), [])[1:],
    "look_at_archive": lambda _, size: _sent(look_at_archive(_finished(size))),
    "measure_pages": lambda _, size: _sent(vacuum(0)),
    "open_archive": lambda _, size: _sent(open_archive()),
    "read_retention": lambda _, size: _sent(read_retention()),
    "list_settings": lambda _, size: _sent(list_settings()),
    "set_setting": lambda _, size: _sent(set_setting("max_attempts:report", 7, "me"), [])[1:],
    "unset_setting": lambda _, size: _sent(unset_setting("max_attempts:report", "me"), [])[1:],
    "vacuum": lambda _, size: _sent(vacuum(size)),
}
