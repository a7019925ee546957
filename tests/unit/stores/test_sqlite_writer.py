"""The one writer of a file: lives as long as somebody uses it, and is whoever finds it idle."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import pytest
from msgspec import Raw

from holdfast import App
from holdfast.errors import DatabaseBusy, StoreError
from holdfast.model.call import JobDocument
from holdfast.model.ids import new_id
from holdfast.model.job_filter import JobFilter
from holdfast.operations.enqueue_jobs import insert_jobs
from holdfast.operations.list_jobs import list_jobs
from holdfast.operations.list_workers import list_workers
from holdfast.operations.statement import Operation
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from holdfast.stores import SyncStore
from tests.crew.waiting import wait_for

T = TypeVar("T")


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


@pytest.fixture
def store(sqlite_path: Path) -> Iterator[SyncStore]:
    app = App(f"sqlite:///{sqlite_path}")
    store = app.store.sync()
    store.ensure_ready()
    yield store
    _soon(store.close)
    app.close()


def _soon(work: Callable[[], T]) -> T:
    """In this thread's place, if that would have to wait for ever."""
    done: SimpleQueue[T] = SimpleQueue()
    threading.Thread(target=lambda: done.put(work()), daemon=True).start()
    return done.get(timeout=5)


def _registration(name: str, meanwhile: Callable[[], object] = lambda: None) -> Operation[int]:
    """Writes a row, calls `meanwhile` in the transaction, and returns the thread that did it."""
    yield from register_worker(WorkerIdentity(id=name, version="1", queues=["default"]))
    meanwhile()
    return threading.get_ident()


def _workers(store: SyncStore) -> set[str]:
    return {worker.id for worker in store.run(list_workers, read_only=True)}


def test_who_finds_nobody_writing_writes(store: SyncStore) -> None:
    assert {store.run(lambda: _registration("a")) for _ in range(3)} == {threading.get_ident()}


def test_who_comes_meanwhile_is_served_together(store: SyncStore) -> None:
    """By the writer's thread, not by whoever came first, who has what he wanted."""
    is_writing, may_go_on = threading.Event(), threading.Event()
    commits: list[str] = []

    def hold() -> None:
        is_writing.set()
        may_go_on.wait()

    def first() -> Operation[int]:
        return _registration("first", hold)

    with ThreadPoolExecutor(5) as pool:
        ahead = pool.submit(store.run, first)
        is_writing.wait()
        connection = store.writer._connection  # type: ignore[attr-defined]  # of the writer that holds the file, not of the base
        connection.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
        others = [pool.submit(store.run, partial(_registration, f"w{n}")) for n in range(4)]
        wait_for(lambda: len(store.writer._items) == 4, "all in line")  # type: ignore[attr-defined]  # as above
        may_go_on.set()
        threads = {other.result(5) for other in others}
        assert len(threads) == 1
        assert ahead.result(5) not in threads
    connection.set_trace_callback(None)
    assert commits == ["COMMIT"] * 2
    assert _workers(store) == {"first", "w0", "w1", "w2", "w3"}


def _whole(job_id: str) -> Operation[None]:
    return insert_jobs([JobDocument(job_id, "t", Raw(b"1"), "q")], None)


def _jobs(store: SyncStore) -> set[str]:
    return {job.id for job in store.run(lambda: list_jobs(JobFilter()), read_only=True).items}


def test_a_whole_statement_needs_no_transaction(store: SyncStore) -> None:
    """Unless others share one with it."""
    store.run(lambda: _whole("first"))
    texts: list[str] = []
    connection = store.writer._connection  # type: ignore[attr-defined]  # as above
    connection.set_trace_callback(lambda text: texts.append(text) if text.startswith(("BEGIN", "COMMIT")) else None)
    store.run(lambda: _whole("alone"))
    assert texts == []
    is_writing, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        is_writing.set()
        may_go_on.wait()

    with ThreadPoolExecutor(3) as pool:
        ahead = pool.submit(store.run, lambda: _registration("ahead", hold))
        is_writing.wait()
        others = [pool.submit(store.run, partial(_whole, name)) for name in ("a", "b")]
        wait_for(lambda: len(store.writer._items) == 2, "both in line")  # type: ignore[attr-defined]  # as above
        may_go_on.set()
        ahead.result(5)
        for other in others:
            other.result(5)
    connection.set_trace_callback(None)
    assert texts == ["BEGIN IMMEDIATE", "COMMIT"] * 2
    assert _jobs(store) == {"first", "alone", "a", "b"}


def test_a_whole_statement_waits_for_the_lock(store: SyncStore, sqlite_path: Path) -> None:
    """That another process has, as a transaction does; it is written once."""
    with contextlib.closing(sqlite3.connect(sqlite_path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.run, lambda: _whole("late"))
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
            other.execute("COMMIT")
            waiting.result(5)
    assert _jobs(store) == {"late"}


def test_a_whole_statement_that_is_refused(store: SyncStore) -> None:
    """Leaves nothing, and the next one is written."""
    store.run(lambda: _whole("there"))
    with pytest.raises(StoreError):
        store.run(lambda: _whole("there"))
    store.run(lambda: _whole("next"))
    assert _jobs(store) == {"there", "next"}


def test_a_write_amid_a_write_of_the_same_thread(store: SyncStore) -> None:
    """As a signal handler may try: it could wait for itself only."""
    refused: list[DatabaseBusy] = []

    def handle_signal() -> None:
        with pytest.raises(DatabaseBusy, match="signal handler") as caught:
            store.run(lambda: _registration("inner"))
        refused.append(caught.value)

    _soon(lambda: store.run(lambda: _registration("outer", handle_signal)))
    assert len(refused) == 1
    _soon(lambda: store.run(lambda: _registration("later")))
    assert _workers(store) == {"outer", "later"}


def test_ctrl_c_amid_a_write(store: SyncStore) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run(lambda: _registration("broken off", interrupt))
    _soon(lambda: store.run(lambda: _registration("next")))
    assert _workers(store) == {"next"}


class _Interruption:
    """A Ctrl-C when the n-th function is entered, which is where Python handles signals."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.has_come = False

    def __call__(self, _frame: object, event: str, _argument: object) -> None:
        if event == "call":
            self._left -= 1
            if self._left == 0:
                self.has_come = True
                raise KeyboardInterrupt


@pytest.mark.parametrize("is_whole", [False, True])
def test_ctrl_c_at_any_moment(store: SyncStore, *, is_whole: bool) -> None:
    """Of a write from its first step to its last: others write as before, also in other threads."""
    store.run(lambda: _registration("before"))
    for number in itertools.count(1):
        interruption = _Interruption(number)
        with contextlib.suppress(KeyboardInterrupt):
            sys.settrace(interruption)
            try:
                store.run(lambda: _whole(new_id()) if is_whole else _registration("interrupted"))
            finally:
                sys.settrace(None)
        if not interruption.has_come:
            break
        _soon(lambda: store.run(lambda: _registration("other")))
        store.run(lambda: _registration("same"))
    assert number > 30


def test_closed_amid_a_write_of_the_same_thread(store: SyncStore, sqlite_path: Path) -> None:
    """As a signal handler may do: what it has interrupted goes on when it returns."""
    _soon(lambda: store.run(lambda: _registration("last", store.close)))
    with sqlite3.connect(sqlite_path) as connection:
        assert connection.execute("SELECT id FROM holdfast_worker").fetchall() == [("last",)]
    connection.close()


def test_closed_amid_a_write(store: SyncStore) -> None:
    """What has begun is finished first."""
    is_writing = threading.Event()

    def begin() -> None:
        is_writing.set()
        time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(store.run, lambda: _registration("last", begin))
        is_writing.wait()
        store.close()
        ahead.result(5)
