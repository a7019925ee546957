"""Find partition keys in which jobs are held and nobody is left who would put them back."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement

_PAGE = 1000


class SweptKeys(NamedTuple):
    """One page: where the next one begins (None = at the beginning), and the stranded keys of it."""

    next_after: tuple[str, str] | None
    stranded: list[tuple[str, str]]


def find_stranded(after: tuple[str, str] | None) -> Operation[SweptKeys]:
    """Look at one page of the keys in which jobs are held."""
    after_queue, after_key = after or (None, None)
    rows = yield Statement(
        "find_stranded", {"after_queue": after_queue, "after_key": after_key}, literals={"limit": _PAGE}
    )
    next_after = (rows[-1][0], rows[-1][1]) if len(rows) == _PAGE else None
    return SweptKeys(next_after, [(queue, key) for queue, key, is_stranded in rows if is_stranded])


def free_keys(keys: list[tuple[str, str]]) -> Operation[set[str]]:
    """Make their next jobs claimable; returns the queues that may have got work."""
    documents = [{"queue": queue, "partition_key": key} for queue, key in keys]
    rows = yield Statement("free_keys", {"keys": to_json(documents).decode()})
    return {queue for (queue,) in rows}
