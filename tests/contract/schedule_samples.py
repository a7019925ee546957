"""Statements of schedules, for `samples.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.model.call import JobDocument
from holdfast.model.ids import new_ids
from holdfast.model.schedule import Definition, ScheduleRecord, checked_rule
from holdfast.operations.create_schedule import remove_schedule
from holdfast.operations.fire_schedule import find_due_schedules, fire_schedule
from holdfast.operations.pause_schedule import pause_schedule, resume_schedule
from holdfast.operations.schedule_rows import list_schedules, lock_schedules, write_schedules
from holdfast.operations.statement import Operation, Statement
from holdfast.operations.sync_schedules import find_keepers, sync_schedules
from tests.contract.backlog import job_id

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_JOB = JobDocument("", "report", msgspec.Raw(b"{}"), "default")
_RULE = checked_rule("0 * * * *", options={"overlap": "skip", "catch_up": "one"})
_RECORD = ScheduleRecord(
    **msgspec.to_builtins(_RULE),
    app="shop",
    name="hourly",
    origin="code",
    type_name="report",
    queue="default",
    definition="digest",
    created_at=_NOW,
    changed_at=_NOW,
    next_at=_NOW - timedelta(hours=5),
    last_chain_id=job_id(1),
)


def _locked(record: ScheduleRecord) -> list[list[Any]]:
    return [["2026-01-01T00:00:00.000000Z", msgspec.json.encode(record), msgspec.json.encode(_JOB)]]


def _sent(operation: Operation[Any], *answers: Any) -> list[Statement]:
    return [next(operation), *(operation.send(answer) for answer in answers)]


def _fire() -> list[Statement]:
    """One whose last chain is unfinished, so that its tick only passes."""
    running = [[job_id(1), "running", None, None, None, None, None]]
    return _sent(fire_schedule("shop", "hourly", new_ids), (), _locked(_RECORD), running)


def _resume() -> list[Statement]:
    paused = msgspec.structs.replace(_RECORD, paused_at=_NOW)
    return _sent(resume_schedule("shop", "hourly", "me"), (), _locked(paused))


def _retire() -> list[Statement]:
    return _sent(sync_schedules("shop", ()), (), [[msgspec.json.encode(_RECORD)]], _locked(_RECORD), [])


def _write(size: int) -> list[Statement]:
    definitions = [(Definition(f"s{number}", _RULE, _JOB), _NOW) for number in range(size)]
    return _sent(write_schedules("shop", "code", definitions))


SCHEDULE_SAMPLES: Mapping[str, Callable[[str, int], list[Statement]]] = {
    "advance_schedule": lambda _, size: _fire(),
    "find_due_schedules": lambda _, size: _sent(find_due_schedules(timedelta(seconds=5))),
    "find_keepers": lambda _, size: _sent(find_keepers("shop")),
    "list_schedules": lambda _, size: _sent(list_schedules("shop")),
    "lock_schedules": lambda _, size: _sent(lock_schedules("shop", "hourly")),
    "pause_schedule": lambda _, size: _sent(pause_schedule("shop", "hourly", "me", "a reason"), ()),
    "remove_schedule": lambda _, size: _sent(remove_schedule("shop", "hourly", "me"), ()),
    "resume_schedule": lambda _, size: _resume(),
    "retire_schedules": lambda _, size: _retire(),
    "write_schedules": lambda _, size: _write(size),
}
