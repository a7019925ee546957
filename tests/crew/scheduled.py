"""Workers of an app with schedules, and what its ticks have enqueued."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from holdfast import App, WorkerConfig
from holdfast.model.schedule import CatchUp
from tests.crew.database import Database
from tests.crew.process import ChildProcess, spawn
from tests.crew.report import say

EVERY_SECOND = "* * * * * *"


def scheduled_app(url: str, catch_up: CatchUp = "all") -> App:
    """Its one job does nothing, every second."""
    app = App(url, name="crew", auto_migrate=True)

    @app.schedule(EVERY_SECOND, name="seconds", catch_up=catch_up)
    @app.job()
    async def tick() -> None: ...

    return app


def serve(url: str, config: WorkerConfig) -> None:
    """In a process of its own, until a signal."""
    scheduled_app(url).run_worker(config)


class Schedulers:
    """Processes of which one leads."""

    def __init__(self, database: Database, directory: Path, config: WorkerConfig) -> None:
        self._database = database
        self._config = config
        self.log = directory / "workers.log"
        self.processes: list[ChildProcess] = []

    def start(self) -> ChildProcess:
        process = spawn(serve, self._database.url, self._config, log=self.log)
        self.processes.append(process)
        return process

    def leader(self) -> ChildProcess | None:
        """The one whose lease is on record, be it over or not, if it lives."""
        rows = self._database.query(f"SELECT worker_id FROM {self._database.table('leader')}")
        named = str(rows[0][0]) if rows else ""
        return next((each for each in self.processes if each.is_alive and f"-{each.pid}-" in named), None)


@contextmanager
def schedulers_on(database: Database, directory: Path, config: WorkerConfig) -> Iterator[Schedulers]:
    """Nothing of them survives the test."""
    schedulers = Schedulers(database, directory, config)
    try:
        yield schedulers
    finally:
        for process in schedulers.processes:
            process.kill()
        say(schedulers.log.read_text()[-20_000:] if schedulers.log.exists() else "")


def ticks_of(database: Database) -> list[datetime]:
    """As the jobs tell it, in the order of enqueue."""
    rows = database.query(f"SELECT CAST(headers AS text) FROM {database.job} ORDER BY seq")
    return [datetime.fromisoformat(json.loads(headers)["tick"]) for (headers,) in rows]
