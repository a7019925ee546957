"""Which adapter serves a tx=."""

from __future__ import annotations

from holdfast.errors import WrongConnection
from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed, BorrowingStore


def recognise(tx: object, store: BorrowingStore) -> Borrowed:
    raise WrongConnection(tx, "not supported")


def recognise_async(tx: object, store: BorrowingStore) -> AsyncBorrowed:
    raise WrongConnection(tx, "not supported")
