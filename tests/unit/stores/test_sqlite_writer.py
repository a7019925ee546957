"""The one writer of a file lives as long as somebody uses it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from holdfast import App
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from holdfast.stores import SyncStore


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads take turns after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_switches")
def test_threads_that_write_first_at_once_are_one_user(sqlite_path: Path) -> None:
    app = App(f"sqlite:///{sqlite_path}")
    with app.client() as client:
        client.list_jobs()  # creates the schema
    barrier = threading.Barrier(4)

    def write(store: SyncStore, number: int) -> None:
        identity = WorkerIdentity(id=f"w{number}", version="1", queues=["default"])
        barrier.wait()
        store.run(lambda: register_worker(identity))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(100):
            store = app.store.sync()
            list(pool.map(partial(write, store), range(4)))
            store.close()
            assert [thread for thread in threading.enumerate() if thread.name == "holdfast-writer"] == []
    app.close()
