"""Connections and sessions that belong to the caller, recognised without importing their libraries."""

from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed, BorrowingStore
from holdfast.stores.borrowed.protocols import AsyncTransaction, SyncTransaction
from holdfast.stores.borrowed.recognise import recognise, recognise_async

__all__ = [
    "AsyncBorrowed",
    "AsyncTransaction",
    "Borrowed",
    "BorrowingStore",
    "SyncTransaction",
    "recognise",
    "recognise_async",
]
