"""Create schedules at run time, and remove them."""

from __future__ import annotations

from holdfast.errors import ScheduleExists, ScheduleNotFound
from holdfast.model.schedule import Definition, ScheduleRecord
from holdfast.operations.schedule_rows import (
    first_tick,
    get_schedule,
    lock_schedules,
    record_schedule,
    write_schedules,
)
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


def create_schedule(
    app: str, definition: Definition, actor: str | None, *, is_replacing: bool
) -> Operation[ScheduleRecord]:
    """From its next tick on; the same one again changes nothing, another one of the name only if that is asked for."""
    yield ATOMICALLY
    now, found = yield from lock_schedules(app, definition.name)
    known = found[0].record if found else None
    if known is not None and known.origin == "client" and known.definition == definition.digest:
        return known
    if known is not None and known.origin == "client" and not is_replacing:
        raise ScheduleExists(app, definition.name, is_in_code=False)
    # One that the code has given up is nobody's, and the name free.
    if known is not None and known.origin == "code" and known.retired_at is None:
        raise ScheduleExists(app, definition.name, is_in_code=True)
    has_timing = known is not None and known.origin == "client" and definition.rule.has_timing_of(known)
    next_at = known.next_at if known is not None and has_timing else first_tick(definition.rule, now, known)
    yield from write_schedules(app, "client", [(definition, next_at)])
    outcome = "created" if known is None else "changed"
    yield from record_schedule("create_schedule", app, definition.name, actor, outcome)
    return (yield from get_schedule(app, definition.name))


def remove_schedule(app: str, name: str, actor: str | None) -> Operation[None]:
    """It enqueues nothing more; what it has enqueued stays."""
    yield ATOMICALLY
    if not (yield Statement("remove_schedule", {"app": app, "name": name})):
        raise ScheduleNotFound(app, name)
    yield from record_schedule("remove_schedule", app, name, actor, "removed")
