"""What the runner and an adapter say to each other, one JSON document a line; standard library only.

An adapter is started with `{"url": …, "settings": {…}}` as its argument and obeys these commands from its standard
input, each answered by `{"done": …}` or `{"failed": "why"}` on its standard output:

- `{"do": "ready"}`: everything is imported.
- `{"do": "prepare"}`: make the schema; answers the versions of what is measured.
- `{"do": "enqueue_batch", "jobs": 5000}`, `{"do": "enqueue_single", "jobs": 100}`: answer the seconds that took.
- `{"do": "enqueue_stamped"}`: one job that carries the instant before the call.
- `{"do": "work"}`: run jobs; meanwhile it tells `{"started": 1234, "first_ns": …}` now and then, and
  `{"waited_ns": …}` for every stamped job, from the enqueue call to the handler's first line.
- `{"do": "stop"}`, or the end of the input: stop working and end.

Instants are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import IO, Any, TypeVar

T = TypeVar("T")

#: how many jobs go into one call of an API for many
BATCH = 5000
_TELL_SECONDS = 0.02


def payload(number: int) -> dict[str, Any]:
    """58 bytes as JSON."""
    return {"order_id": 10_000 + number % 90_000, "email": "someone.longer@example.com"}


class _Answers:
    file: IO[str] = sys.stdout


class Tally:
    """What handlers call: how many jobs were started, and when the first was."""

    def __init__(self) -> None:
        self.started = 0
        self.first_ns = 0
        self._told = 0

    def count(self) -> None:
        if not self.started:
            self.first_ns = time.monotonic_ns()
        self.started += 1

    def count_many(self, jobs: int) -> None:
        self.first_ns = self.first_ns or time.monotonic_ns()
        self.started += jobs

    def stamp(self, sent_ns: int) -> None:
        say({"waited_ns": time.monotonic_ns() - sent_ns})

    def tell(self) -> None:
        started = self.started
        if started != self._told:
            self._told = started
            say({"started": started, "first_ns": self.first_ns})


class Adapter(ABC):
    """One library with one set of settings; `work` blocks until `stop`, which comes from another thread."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self.url = url
        self.settings = settings
        self.tally = Tally()

    @abstractmethod
    def prepare(self) -> dict[str, str]:
        """Make the schema; the versions of what is measured."""

    @abstractmethod
    def enqueue_batch(self, jobs: int) -> float:
        """Through the best public API for many; seconds."""

    @abstractmethod
    def enqueue_single(self, jobs: int) -> float:
        """One after the other, each in its own transaction; seconds."""

    @abstractmethod
    def enqueue_stamped(self) -> None: ...

    @abstractmethod
    def work(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def close(self) -> None:  # noqa: B027  most have nothing to do
        """Before the process ends."""


class AsyncAdapter(Adapter):
    """For libraries that live on an event loop."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self._runner = asyncio.Runner()
        self._stopping = asyncio.Event()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def prepare(self) -> dict[str, str]:
        return self.run(self.aprepare())

    def enqueue_batch(self, jobs: int) -> float:
        return self.run(self.aenqueue_batch(jobs))

    def enqueue_single(self, jobs: int) -> float:
        return self.run(self.aenqueue_single(jobs))

    def enqueue_stamped(self) -> None:
        self.run(self.aenqueue_stamped())

    def work(self) -> None:
        self.run(self.awork(self._stopping))

    def stop(self) -> None:
        self._runner.get_loop().call_soon_threadsafe(self._stopping.set)

    def close(self) -> None:
        self._runner.close()

    @abstractmethod
    async def aprepare(self) -> dict[str, str]: ...

    @abstractmethod
    async def aenqueue_batch(self, jobs: int) -> float: ...

    @abstractmethod
    async def aenqueue_single(self, jobs: int) -> float: ...

    @abstractmethod
    async def aenqueue_stamped(self) -> None: ...

    @abstractmethod
    async def awork(self, stopping: asyncio.Event) -> None: ...


def serve(make: type[Adapter]) -> None:
    """Obey until the input ends."""
    # What a library prints must not be taken for an answer, whatever it is written in: it goes where errors go.
    _Answers.file = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    given = json.loads(sys.argv[1])
    adapter = make(given["url"], given["settings"])
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=[commands], daemon=True).start()
    while (command := commands.get())["do"] != "stop":
        try:
            if command["do"] == "work":
                say({"done": {}})
                watcher = threading.Thread(target=_watch, args=[adapter, commands], daemon=True)
                watcher.start()
                adapter.work()
                watcher.join()
                adapter.tally.tell()
                break
            say({"done": _obey(adapter, command)})
        except Exception:  # noqa: BLE001  whatever it is, the runner tells it
            say({"failed": traceback.format_exc()})
    with contextlib.suppress(Exception):
        adapter.close()
    say({"done": {}})


def say(document: dict[str, Any]) -> None:
    # One call, so that lines of several threads do not mix.
    _Answers.file.write(json.dumps(document) + "\n")
    _Answers.file.flush()


def _obey(adapter: Adapter, command: dict[str, Any]) -> object:
    match command["do"]:
        case "ready":
            return {}
        case "prepare":
            return adapter.prepare()
        case "enqueue_batch":
            return adapter.enqueue_batch(command["jobs"])
        case "enqueue_single":
            return adapter.enqueue_single(command["jobs"])
        case "enqueue_stamped":
            return adapter.enqueue_stamped()
        case other:
            raise ValueError(f"unknown command: {other}")


def _read(commands: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put({"do": "stop"})


def _watch(adapter: Adapter, commands: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Tells how far the work is until it is to end."""
    while True:
        adapter.tally.tell()
        with contextlib.suppress(queue.Empty):
            if commands.get(timeout=_TELL_SECONDS)["do"] == "stop":
                adapter.stop()
                return
