"""Tell the database that workers have worked in from a restored backup or a copy of it."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from holdfast.model.clock import milliseconds
from holdfast.operations.statement import Operation, Statement


class Origin(NamedTuple):
    """Where the database lies, and where it lay when a worker last said so; None before the first one."""

    found: str
    recorded: str | None
    is_ours: bool


def check_origin(place: str | None, dead_after: timedelta) -> Operation[Origin]:
    """Remembers where it lies, unless it lay elsewhere and nobody is heard who came along."""
    return (yield from _look(place, dead_after))


def accept_origin(place: str | None, actor: str | None = None) -> Operation[Origin]:
    """From now on, this is where it lies."""
    return (yield from _look(place, timedelta(), is_accepted=True, actor=actor))


def _look(
    place: str | None, dead_after: timedelta, *, is_accepted: bool = False, actor: str | None = None
) -> Operation[Origin]:
    rows = yield Statement(
        "check_origin",
        {"place": place, "dead_after_ms": milliseconds(dead_after), "accept": is_accepted, "actor": actor},
    )
    found, recorded, is_ours = rows[0]
    return Origin(found, recorded, bool(is_ours))
