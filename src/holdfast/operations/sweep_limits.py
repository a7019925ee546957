"""Find concurrency keys that have room for jobs which still wait for it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement

_PAGE = 1000
#: the most that find_limited counts of one key
_MOST_PLACES = 1000


class Room(msgspec.Struct, frozen=True):
    """So many of those that wait for a concurrency key may come."""

    queue: str
    concurrency_key: str
    places: int

    @property
    def is_cut(self) -> bool:
        """There may be room for more than were counted."""
        return self.places >= _MOST_PLACES


class SweptLimits(NamedTuple):
    """One page: where the next one begins (None = at the beginning), and the keys of it that have room."""

    next_after: tuple[str, str] | None
    rooms: list[Room]


def find_limited(after: tuple[str, str] | None) -> Operation[SweptLimits]:
    """Look at one page of the keys of which jobs wait."""
    after_queue, after_key = after or (None, None)
    rows = yield Statement(
        "find_limited", {"after_queue": after_queue, "after_key": after_key}, literals={"limit": _PAGE}
    )
    next_after = (rows[-1][0], rows[-1][1]) if len(rows) == _PAGE else None
    return SweptLimits(next_after, [Room(*row) for row in rows if row[2] > 0])


def free_limits(rooms: list[Room]) -> Operation[set[str]]:
    """Let them come; returns the queues that may have got work."""
    rows = yield Statement("free_limits", {"keys": to_json(rooms).decode()})
    return {queue for (queue,) in rows}


def forget_limits() -> Operation[None]:
    """Keys that have spent nothing of late need no row."""
    yield Statement("forget_limits", {}, literals={"limit": _PAGE})
