"""What a test leaves behind, and should not: threads, tasks, processes, connections, open files of databases."""

from __future__ import annotations

import asyncio
import asyncio.runners
import os
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.crew.waiting import wait_for
from tools.postgres_server import PostgresAddress

#: seconds in which what was told to end has ended
_PATIENCE = 20.0

#: what a process starts once and keeps: Python's own helpers, and pools of threads that wait for the next task
_KEPT_THREADS = ("asyncio_", "ThreadPoolExecutor-", "Dummy-", "execnet", "AnyIO")
#: Python's server for new processes and its accountant, which live as long as the test run
_KEPT_PROGRAMS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")
_kept_open: set[str] = set()


@contextmanager
def nothing_is_left() -> Iterator[None]:
    """Around a test and all its fixtures: also processes of processes, for which all of the machine are looked at."""
    processes = set(_processes())
    with this_process_is_as_before():
        yield
    _expect_none("processes", lambda: _new_processes(processes))


@contextmanager
def this_process_is_as_before() -> Iterator[None]:
    """What can be asked after every test, because it takes less than a millisecond."""
    threads = set(threading.enumerate())
    children = set(_own_children())
    opened = Counter(_descriptors().values())
    tasks: list[str] = []
    with _tasks_that_outlive_their_loop(tasks):
        yield
    _expect_none("threads", lambda: _new_threads(threads))
    assert not tasks, f"left behind: tasks {tasks}"
    _expect_none("processes", lambda: _new_children(children))
    _expect_none("connections and files", lambda: _newly_open(opened))


def keep_open(descriptor: int) -> None:
    """A connection that a fixture opens during a test, for others to come."""
    _kept_open.add(_descriptors()[descriptor])


def nobody_is_connected(address: PostgresAddress, database: str, allowed: int = 0) -> None:
    """To a database that its test has done with; `allowed` are connections that the fixtures keep."""
    query = "SELECT pid, application_name, state, left(query, 80) FROM pg_stat_activity WHERE datname = %s"

    def connected() -> list[Any]:
        with psycopg.connect(address.url(), autocommit=True) as connection:
            found = connection.execute(query + " AND backend_type = 'client backend'", [database]).fetchall()
            return found if len(found) > allowed else []

    _expect_none(f"connections to {database}", connected)


def _expect_none(what: str, look: Any) -> None:
    try:
        wait_for(lambda: not look(), what, patience=_PATIENCE)
    except AssertionError:
        raise AssertionError(f"left behind: {what} {look()}") from None


def _new_threads(before: set[threading.Thread]) -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith(_KEPT_THREADS)
    ]


def _own_children() -> list[int]:
    """As the kernel lists them, which leaves some out while others end: a leak is seen with the next test then."""
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - around every test
        try:
            with open(f"/proc/self/task/{thread}/children", "rb") as children:  # noqa: PTH123 - likewise
                found += map(int, children.read().split())
        except OSError:
            continue
    return found


def _new_children(before: set[int]) -> dict[int, str]:
    new = {pid: _command(pid) for pid in _own_children() if pid not in before}
    return {
        pid: program for pid, program in new.items() if program and not any(kept in program for kept in _KEPT_PROGRAMS)
    }


def _descriptors() -> dict[int, str]:
    """By its number, what each stands for: a socket's is like no other one's."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - around every test
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - likewise
        except OSError:
            continue
    return found


def _newly_open(before: Counter[str]) -> list[str]:
    """Files of SQLite, and sockets with a server at the other end: an event loop has pairs of its own."""
    found: list[str] = []
    left = before.copy()
    for descriptor, target in _descriptors().items():
        left[target] -= 1
        if left[target] >= 0 or target in _kept_open:
            continue
        if target.startswith("socket:"):
            found += [f"connection to {peer}" for peer in _peers(descriptor)]
        elif ".db" in target:
            found.append(target)
    return found


def _peers(descriptor: int) -> list[str]:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            return [f"{copy.getpeername()}"] if copy.family in {socket.AF_INET, socket.AF_INET6} else []
    except OSError:  # closed meanwhile, or it only listens
        return []


def _new_processes(before: set[int]) -> dict[int, str]:
    return {
        pid: program
        for pid, program in _processes().items()
        if pid not in before and not any(kept in program for kept in _KEPT_PROGRAMS)
    }


def _processes() -> dict[int, str]:
    """By id, the command lines of all that come from this process; a forked worker is known by its server's."""
    found: dict[int, str] = {}
    children = _children()
    waiting = [*children[os.getpid()]]
    while waiting:
        pid = waiting.pop()
        command = _command(pid)
        if not command:
            continue
        if "multiprocessing.forkserver" in command:
            found |= {child: f"forked {child}" for child in children[pid]}
        found[pid] = command
        # What a server of PostgreSQL starts is its own business: connections are looked at from inside.
        if "bin/postgres" not in command:
            waiting += [child for child in children[pid] if child not in found]
    return found


def _command(pid: int) -> str:
    """Its command line; empty if it is gone, or a zombie, at which its parent has not looked yet."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if not command and _state(pid) not in {b"Z", b"X"}:
            # Amid its exec a process has no command line: whoever takes it for a zombie overlooks a leak.
            return f"{pid}, which is being started"
    except OSError:
        return ""
    return command.replace(b"\0", b" ").decode(errors="replace")


def _state(pid: int) -> bytes:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]


def _children() -> defaultdict[int, list[int]]:
    """By who names it as parent: the kernel's own list of children leaves some out while others end."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):  # noqa: PTH208 - as below
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - hundreds of them around every test
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(name))
    return children


@contextmanager
def _tasks_that_outlive_their_loop(names: list[str]) -> Iterator[None]:
    """A loop that closes cancels what is left of its tasks, and says nothing: we look just before."""
    runners: Any = asyncio.runners
    original = runners._cancel_all_tasks

    def look(loop: asyncio.AbstractEventLoop) -> None:
        names.extend(repr(task) for task in asyncio.all_tasks(loop))
        original(loop)

    runners._cancel_all_tasks = look
    try:
        yield
    finally:
        runners._cancel_all_tasks = original
