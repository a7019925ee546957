"""Let the ticks of a schedule pass, and let it come again."""

from __future__ import annotations

from holdfast.errors import ScheduleNotFound
from holdfast.model.schedule import ScheduleRecord
from holdfast.operations.schedule_rows import first_tick, get_schedule, iso_or_none, lock_schedule, record_schedule
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


def pause_schedule(app: str, name: str, actor: str | None, reason: str | None) -> Operation[ScheduleRecord]:
    """No tick enqueues from the commit on; one that is just being fired comes first."""
    yield ATOMICALLY
    rows = yield Statement("pause_schedule", {"app": app, "name": name, "actor": actor, "reason": reason})
    if not rows:
        raise ScheduleNotFound(app, name)
    yield from record_schedule("pause_schedule", app, name, actor, "paused", reason=reason)
    return (yield from get_schedule(app, name))


def resume_schedule(app: str, name: str, actor: str | None) -> Operation[ScheduleRecord]:
    """From its next tick on: those of the pause were not missed, somebody wanted them to pass."""
    yield ATOMICALLY
    now, (record, _) = yield from lock_schedule(app, name)
    was_paused = record.paused_at is not None
    if was_paused:
        next_at = iso_or_none(first_tick(record, now, record))
        yield Statement("resume_schedule", {"app": app, "name": name, "next_at": next_at})
    yield from record_schedule("resume_schedule", app, name, actor, "resumed" if was_paused else "not_paused")
    return (yield from get_schedule(app, name))
