"""Connections and sessions that belong to the caller, recognised without importing their libraries."""

from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed, BorrowingStore
from holdfast.stores.borrowed.protocols import AsyncTransaction, SyncTransaction
from holdfast.stores.borrowed.recognise import recognise, recognise_async
from holdfast.stores.borrowed.same_database import OtherDatabase

__all__ = [
    "AsyncBorrowed",
    "AsyncTransaction",
    "Borrowed",
    "BorrowingStore",
    "OtherDatabase",
    "SyncTransaction",
    "recognise",
    "recognise_async",
]
