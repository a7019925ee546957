"""Make the schedules of an app those that its code has, as far as no other worker's code has them otherwise.

While a deploy is under way, workers of two versions run. A row that both know differently stays as it is until those
who know it as it is are gone, and one that some of them know is not retired; whoever is left waiting tries again. So a
worker of the old version that is restarted in between does not turn anything back. A new schedule comes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.model.payload import to_json
from holdfast.model.schedule import Definition, ScheduleRecord
from holdfast.operations.schedule_rows import first_tick, list_schedules, lock_schedules, write_schedules
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

_listed = msgspec.json.Decoder(dict[str, str])


class Keeper(NamedTuple):
    """A living worker of the app: by name, the digests of the schedules in its code."""

    id: str
    started_at: datetime
    schedules: Mapping[str, str]


@dataclass(slots=True)
class Synced:
    """Names of schedules, by what became of them.

    - `deferred`: to be changed or retired once workers whose code has them otherwise are gone.
    - `taken`: somebody has created one of that name at run time, and it stays.
    """

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)


def sync_schedules(app: str, definitions: Iterable[Definition], worker_id: str | None = None) -> Operation[Synced]:
    """For a worker that is registered, or for nobody in particular, which counts as one that starts now."""
    yield ATOMICALLY
    wanted = {definition.name: definition for definition in definitions}
    # Most of the time there is nothing to do, and whoever fires is not to wait for those who only look.
    if _is_settled(wanted, (yield from list_schedules(app))):
        return Synced(unchanged=sorted(wanted))
    now, locked = yield from lock_schedules(app)
    known = {schedule.record.name: schedule.record for schedule in locked}
    keepers = yield from find_keepers(app)
    others = [keeper for keeper in keepers if keeper.id != worker_id]
    started_at = next((keeper.started_at for keeper in keepers if keeper.id == worker_id), now)
    result = Synced()
    written = []
    for name, definition in sorted(wanted.items()):
        record = known.get(name)
        _fate(definition, record, others, result).append(name)
        if name in result.created or name in result.changed:
            written.append((definition, _next_tick(definition, record, now)))
    yield from write_schedules(app, "code", written)
    for record in known.values():
        if record.name not in wanted and record.origin == "code" and record.retired_at is None:
            if any(record.name in keeper.schedules for keeper in others):
                result.deferred.append(record.name)
            elif started_at >= record.changed_at:
                result.retired.append(record.name)
            # else it came with newer code than ours, which does not run just now
    if result.retired:
        yield Statement("retire_schedules", {"app": app, "names": to_json(result.retired).decode()})
    return result


def _is_settled(wanted: Mapping[str, Definition], records: Iterable[ScheduleRecord]) -> bool:
    """Whether those that come from code are those wanted, and as they are wanted."""
    active = {each.name: each.definition for each in records if each.origin == "code" and each.retired_at is None}
    return active == {name: definition.digest for name, definition in wanted.items()}


def find_keepers(app: str) -> Operation[list[Keeper]]:
    """Draining workers are among them; those marked dead are not."""
    rows = yield Statement("find_keepers", {"app": app})
    return [
        Keeper(worker_id, datetime.fromisoformat(started_at), _listed.decode(listed))
        for worker_id, started_at, listed in rows
    ]


def _fate(definition: Definition, record: ScheduleRecord | None, others: Sequence[Keeper], result: Synced) -> list[str]:
    if record is None:
        return result.created
    if record.origin != "code":
        return result.taken
    if record.definition == definition.digest and record.retired_at is None:
        return result.unchanged
    if any(keeper.schedules.get(definition.name, definition.digest) != definition.digest for keeper in others):
        return result.deferred
    return result.changed


def _next_tick(definition: Definition, record: ScheduleRecord | None, now: datetime) -> datetime | None:
    """One that comes at the same times as before goes on where it was, with what it has missed."""
    if record is not None and record.retired_at is None and definition.rule.has_timing_of(record):
        return record.next_at
    return first_tick(definition.rule, now, record)
