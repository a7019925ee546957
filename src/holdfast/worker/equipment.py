"""What a context reaches beyond its own attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from holdfast.model.ids import Ids
from holdfast.operations.lease import Lease
from holdfast.stores import AsyncAccess, SyncAccess

S_co = TypeVar("S_co", covariant=True)


class Writer(Protocol):
    """Where `ctx.log` goes."""

    def write(self, lease: Lease, level: str, message: str, fields: bytes | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Hints:
    """How to tell others of new work: `send` after a commit, `channel` inside one that is somebody else's."""

    send: Callable[[Iterable[str]], None]
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class Equipment(Generic[S_co]):
    """The same for all handlers of one kind in a worker."""

    client: Any
    store: S_co
    journal: Writer
    ids: Ids
    hints: Hints
    #: what the app's `lifespan` yielded
    state: Any = None


def handlers_own(client: Any) -> Any:
    """A client that nobody has but handlers: it knows where it is, also in threads that they start."""
    client.is_for_handlers = True
    return client


AsyncEquipment = Equipment[AsyncAccess]
SyncEquipment = Equipment[SyncAccess]
