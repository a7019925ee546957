"""Schedules as they stand in the database, and the record of who changed them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.errors import ScheduleNotFound
from holdfast.model.call import JobDocument
from holdfast.model.clock import iso
from holdfast.model.payload import to_json
from holdfast.model.schedule import Definition, Origin, Rule, ScheduleRecord
from holdfast.operations.statement import Operation, Statement

_record = msgspec.json.Decoder(ScheduleRecord)
_job = msgspec.json.Decoder(JobDocument)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class LockedSchedule(NamedTuple):
    """A schedule that nobody else fires or changes until the transaction ends, and the job that it enqueues."""

    record: ScheduleRecord
    job: JobDocument


class Locked(NamedTuple):
    """What is locked, and the time."""

    now: datetime
    schedules: list[LockedSchedule]


def list_schedules(app: str | None = None, name: str | None = None) -> Operation[list[ScheduleRecord]]:
    """By app and name; None means any."""
    rows = yield Statement("list_schedules", {"app": app, "name": name})
    return [_record.decode(document) for (document,) in rows]


def lock_schedules(app: str, name: str | None = None) -> Operation[Locked]:
    """Of an app, or one of them; by name."""
    rows = yield Statement("lock_schedules", {"app": app, "name": name})
    found = [LockedSchedule(_record.decode(record), _template(job)) for _, record, job in rows if record is not None]
    return Locked(datetime.fromisoformat(rows[0][0]), found)


def lock_schedule(app: str, name: str) -> Operation[tuple[datetime, LockedSchedule]]:
    """One that there is, or ScheduleNotFound."""
    now, found = yield from lock_schedules(app, name)
    if not found:
        raise ScheduleNotFound(app, name)
    return now, found[0]


def get_schedule(app: str, name: str) -> Operation[ScheduleRecord]:
    """As it stands, or ScheduleNotFound."""
    found = yield from list_schedules(app, name)
    if not found:
        raise ScheduleNotFound(app, name)
    return found[0]


def _template(text: str | bytes) -> JobDocument:
    """The job as it was written; msgspec decodes no raw JSON where there may be none."""
    fields = _fields.decode(text)
    headers = fields.pop("headers", None)
    job = _job.decode(msgspec.json.encode(fields))
    job.headers = headers
    return job


def iso_or_none(moment: datetime | None) -> str | None:
    """As a statement takes it."""
    return None if moment is None else iso(moment)


def first_tick(rule: Rule, now: datetime, known: ScheduleRecord | None = None) -> datetime | None:
    """Where a schedule that is new, changed or resumed begins: nothing before now, and no tick twice."""
    last = None if known is None else known.last_tick_at
    return rule.timing.next_after(now if last is None else max(now, last))


def write_schedules(
    app: str, origin: Origin, definitions: Iterable[tuple[Definition, datetime | None]]
) -> Operation[None]:
    """Each with its next tick."""
    rows = [
        {
            "app": app,
            "name": definition.name,
            "origin": origin,
            "definition": definition.digest,
            **msgspec.to_builtins(definition.rule),
            "job": definition.job,
            "next_at": iso_or_none(next_at),
        }
        for definition, next_at in definitions
    ]
    if rows:
        yield Statement("write_schedules", {"schedules": msgspec.json.encode(rows).decode()})


def record_schedule(
    verb: str, app: str, name: str, actor: str | None, outcome: str, *, chain_id: str | None = None, **detail: object
) -> Operation[None]:
    """Who did what, in the transaction that did it."""
    given = {key: value for key, value in detail.items() if value is not None}
    entry = {
        "chain_id": chain_id,
        "job_id": None,
        "outcome": outcome,
        "detail": {"app": app, "schedule": name, **given},
    }
    yield Statement("record_audit", {"actor": actor, "verb": verb, "entries": to_json([entry]).decode()})
