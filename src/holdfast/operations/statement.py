"""What passes between a verb and whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

Rows = Sequence[Sequence[Any]]
Operation = Generator["Statement", Rows, T]
#: makes the operation anew, so that a runner may start over after a conflict or a lost connection
Verb = Callable[[], Operation[T]]


class Statement(msgspec.Struct, frozen=True):
    """The name of a script and what to fill in; the store adds `:now`.

    `lines` is what follows a COPY, and `rows` are the values of a repeated statement: by how many rows it has (the
    literal of that name), a piece for each time, all of one `:now`. Only stores that say so by `bulk` can send them.

    `is_whole`: it is all that its verb does and one part, so that without a transaction it happens or not all the same.
    """

    name: str
    parameters: Mapping[str, object] = {}
    literals: Mapping[str, int] = {}
    slots: Mapping[str, tuple[str, ...]] = {}
    lines: Callable[[], Iterable[bytes]] | None = None
    rows: Callable[[], Iterable[tuple[int, Iterable[Sequence[object]]]]] | None = None
    is_whole: bool = False


class Bulk(Enum):
    """How a store takes many rows on connections of its own, if not as a document."""

    LINES = "lines"
    ROWS = "rows"


#: yielded first by a verb of several statements: they happen together or not at all.  A borrowed transaction and
#: SQLite's writer see to that anyway; on PostgreSQL a verb of one statement needs no more than that statement.
ATOMICALLY = Statement("atomically")
