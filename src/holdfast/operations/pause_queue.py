"""Stop a queue, and let it go on."""

from __future__ import annotations

from holdfast.errors import InvalidOption
from holdfast.model.clock import iso, milliseconds
from holdfast.model.queue import QueueSettings, ResumeTime
from holdfast.operations.queue_settings import queue_settings, record_setting
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


def pause_queue(queue: str, resume: ResumeTime, actor: str | None, reason: str | None) -> Operation[QueueSettings]:
    """Nothing is claimed of it from the commit on; what runs goes on."""
    yield ATOMICALLY
    when = {
        "resume_at": None if resume.at is None else iso(resume.at),
        "resume_ms": None if resume.after is None else milliseconds(resume.after),
    }
    rows = yield Statement("pause_queue", {"queue": queue, **when, "actor": actor, "reason": reason})
    if not rows:
        raise InvalidOption("resume_at", resume.at, "has passed; give a later time, or leave it out")
    settings = yield from queue_settings(queue)
    yield from record_setting("pause_queue", queue, actor, "paused", {"reason": reason, **when})
    return settings


def resume_queue(queue: str, actor: str | None) -> Operation[tuple[QueueSettings, bool]]:
    """What holds from now on, and whether there was a pause to end."""
    yield ATOMICALLY
    was_paused = bool((yield Statement("resume_queue", {"queue": queue})))
    settings = yield from queue_settings(queue)
    yield from record_setting("resume_queue", queue, actor, "resumed" if was_paused else "not_paused")
    return settings, was_paused
