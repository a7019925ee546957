"""Connections and sessions that belong to the caller, recognised without importing their libraries."""

from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed, BorrowingStore
from holdfast.stores.borrowed.own_transaction import AsyncOwnTransaction, OwnTransaction
from holdfast.stores.borrowed.protocols import AsyncTransaction, SyncTransaction
from holdfast.stores.borrowed.recognise import recognise, recognise_async

__all__ = [
    "AsyncBorrowed",
    "AsyncOwnTransaction",
    "AsyncTransaction",
    "Borrowed",
    "BorrowingStore",
    "OwnTransaction",
    "SyncTransaction",
    "recognise",
    "recognise_async",
]
