"""Job types for partition keys, with and without a context, in tasks and in threads, and the account of what they did.

The ledger is one file to which every process appends whole lines, so their order in it is the order of events.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast import App, Context, Retry, Snooze, WorkerConfig
from holdfast.worker import fetcher
from tests.crew.database import Database
from tests.crew.json_lines import append_line, whole_lines
from tests.crew.process import ChildProcess, spawn

Event = tuple[str, str, int, int]

KINDS = ("task", "thread", "with_context")
#: how a job ends that does not simply complete: each once, then it completes
DETOURS = ("fails", "snoozes", "continues")


class KeyLedger:
    """Starts and ends of handlers, and deaths of workers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, key: str = "", number: int = -1, pid: int | None = None) -> None:
        append_line(self.path, [event, key, number, pid or os.getpid()])

    def read(self) -> list[Event]:
        return [tuple(values) for values in whole_lines(self.path)]

    def is_first(self, what: str, number: int) -> bool:
        """Whether nobody has asked that before, in any process."""
        try:
            (self.path.parent / f"{what}-{number}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def make_app(url: str, ledger: KeyLedger) -> App:  # noqa: C901 - a list of job types
    """The same in the test and in every worker process."""
    app = App(url, name="keys", auto_migrate=True)
    soon = Retry(max_attempts=50, initial=0.05, factor=1.0)

    def start(key: str, number: int) -> None:
        ledger.write("started", key, number)

    def end(key: str, number: int, how: str) -> None:
        if how in DETOURS and ledger.is_first(how, number):
            ledger.write("turned back", key, number)
            if how == "snoozes":
                raise Snooze(0.05)
            raise RuntimeError(how)
        ledger.write("finished", key, number)

    @app.job(retry=soon)
    async def task(key: str, number: int, how: str, pause: float) -> None:
        start(key, number)
        try:
            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            ledger.write("turned back", key, number)
            raise
        end(key, number, how)

    @app.job(retry=soon)
    def thread(key: str, number: int, how: str, pause: float) -> None:
        start(key, number)
        time.sleep(pause)
        end(key, number, how)

    @app.job(retry=soon)
    async def with_context(ctx: Context, key: str, number: int, how: str, pause: float) -> None:
        start(key, number)
        try:
            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            ledger.write("turned back", key, number)
            raise
        if how == "continues":
            ledger.write("turned back", key, number)
            return await ctx.continue_with(task.call(key=key, number=number, how="completes", pause=pause))
        return end(key, number, how)

    return app


def _work(url: str, ledger: Path, config: WorkerConfig) -> None:
    fetcher._SUSPECT_PATIENCE = 0.5
    make_app(url, KeyLedger(ledger)).run_worker(config)


@dataclass
class KeyCrew:
    """Worker processes on the keys of one database."""

    database: Database
    directory: Path
    config: WorkerConfig
    workers: list[ChildProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = KeyLedger(self.directory / "keys.jsonl")
        self.app = make_app(self.database.url, self.ledger)

    def start(self) -> None:
        self.workers.append(
            spawn(_work, self.database.url, self.ledger.path, self.config, log=self.directory / "key workers.log")
        )

    def kill(self, place: int) -> None:
        """And let another one take its place."""
        victim = self._working(place)
        self.ledger.write("dies", pid=victim.pid)
        victim.kill()
        self.start()

    def stop(self, place: int) -> int:
        """The exit code; another one has taken its place before it ended."""
        leaving = self._working(place)
        self.start()
        return leaving.stop()

    def _working(self, place: int) -> ChildProcess:
        worker = self.workers.pop(place)
        self.database.wait_registered(worker.pid)
        return worker

    def end(self) -> None:
        for worker in self.workers:
            worker.send(signal.SIGKILL)
            worker.join()
        self.app.close()


def overlaps(events: list[Event]) -> list[tuple[str, int, int]]:
    """Handlers of a key that were started while another one of it ran in a living process."""
    found: list[tuple[str, int, int]] = []
    running: dict[str, dict[int, int]] = defaultdict(dict)
    dead: set[int] = set()
    for event, key, number, pid in events:
        if event == "dies":
            dead.add(pid)
        elif event == "started":
            found += [(key, other, number) for other, its_pid in running[key].items() if its_pid not in dead]
            running[key] = {number: pid}
        elif running[key].get(number) == pid:
            del running[key][number]
    return found


def overtakers(events: list[Event], excused: Collection[int]) -> list[tuple[str, int, int]]:
    """Jobs that were started before one in front of them was finished; `excused` never were."""
    found: list[tuple[str, int, int]] = []
    finished: set[int] = set(excused)
    for event, key, number, _ in events:
        if event == "finished":
            finished.add(number)
        elif event == "started":
            step = int(key.partition(" of ")[2])
            found += [(key, front, number) for front in range(number % step, number, step) if front not in finished]
    return found


def calls(app: App, count: int, keys: int, choose: Callable[[tuple[Any, ...]], Any]) -> list[Any]:
    """`count` jobs in the order of their numbers; every ninth takes a detour. Key "2 of 3" has 2, 5, 8 and so on."""
    made = []
    for number in range(count):
        key = f"{number % keys} of {keys}"
        how = choose(DETOURS) if number % 9 == 4 else "completes"
        kind = "with_context" if how == "continues" else choose(KINDS)
        call = app.call(kind, key=key, number=number, how=how, pause=choose((0.0, 0.0, 0.002, 0.01)))
        made.append(call.options(partition_key=key))
    return made
