"""What passes between a verb and whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

Rows = Sequence[Sequence[Any]]
Operation = Generator["Statement", Rows, T]
#: makes the operation anew, so that a runner may start over after a conflict or a lost connection
Verb = Callable[[], Operation[T]]


@dataclass(frozen=True, slots=True)
class Statement:
    """The name of a script and what to fill in; the store adds `:now`.

    `lines` is what follows a COPY; only stores that say `takes_lines` can send that.
    """

    name: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    literals: Mapping[str, int] = field(default_factory=dict)
    slots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: Callable[[], Iterable[bytes]] | None = None


#: yielded first by a verb of several statements: they happen together or not at all.  A borrowed transaction and
#: SQLite's writer see to that anyway; on PostgreSQL a verb of one statement needs no more than that statement.
ATOMICALLY = Statement("atomically")
