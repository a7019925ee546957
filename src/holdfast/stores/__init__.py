"""The databases behind one contract; with `notify`, the only room that imports drivers.

Stores run verbs; they decide nothing about jobs.
"""

from holdfast.stores.base import AsyncAccess, AsyncStore, Store, SyncAccess, SyncStore
from holdfast.stores.open import StoreConfig, open_store

__all__ = ["AsyncAccess", "AsyncStore", "Store", "StoreConfig", "SyncAccess", "SyncStore", "open_store"]
