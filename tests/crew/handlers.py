"""Job types whose handlers save steps and complete themselves, and that die where they are told to."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from holdfast import App, Context, JobHandle, Retry, SyncContext, WorkerConfig
from holdfast.errors import HoldfastError, LeaseLost
from tests.crew.fault import Fault
from tests.crew.ledger import Ledger

STEPS = ("charge", "pack", "ship")


@dataclass(frozen=True)
class Handlers:
    """An app, its ledger and its job types."""

    app: App
    ledger: Ledger
    trip: JobHandle[..., Any]
    trip_sync: JobHandle[..., Any]
    book: JobHandle[..., Any]
    book_late: JobHandle[..., Any]


def make_handlers(url: str, ledger_path: Path) -> Handlers:  # noqa: C901, PLR0915 - a list of job types
    """The same app in the test and in every worker process."""
    app = App(url, name="handlers", auto_migrate=True)
    ledger = Ledger(ledger_path)
    write = ledger.write
    soon = Retry(max_attempts=20, initial=0.05, factor=1.0)

    def die_at(ctx: Context | SyncContext, place: str, deaths: dict[str, int]) -> None:
        """On the delivery that `deaths` names for the place."""
        if deaths.get(place) == ctx.lease_generation:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)

    @app.job(retry=soon)
    async def trip(ctx: Context, number: int, deaths: dict[str, int]) -> list[str]:
        """Three steps; the process may be killed inside and after each."""
        done: list[str] = []
        for name in STEPS:

            def act(name: str = name) -> str:
                write(ctx, number, name)
                die_at(ctx, f"in {name}", deaths)
                return f"{name} of {number}"

            done.append(await ctx.step(name, act))
            die_at(ctx, f"after {name}", deaths)
        write(ctx, number, "finished")
        return done

    @app.job(retry=soon)
    def trip_sync(ctx: SyncContext, number: int, deaths: dict[str, int]) -> list[str]:
        """The same in a thread."""
        done: list[str] = []
        for name in STEPS:

            def act(name: str = name) -> str:
                write(ctx, number, name)
                die_at(ctx, f"in {name}", deaths)
                return f"{name} of {number}"

            done.append(ctx.step(name, act))
            die_at(ctx, f"after {name}", deaths)
        write(ctx, number, "finished")
        return done

    @app.job(retry=soon)
    def book(ctx: SyncContext, number: int, deaths: dict[str, int]) -> None:
        """Writes an order and completes itself in one transaction; the process may be killed anywhere."""
        write(ctx, number, "started")
        with own_connection(url) as connection:
            connection.execute(f"INSERT INTO orders (id) VALUES ({number})")
            die_at(ctx, "after write", deaths)
            ctx.complete(tx=connection)
            die_at(ctx, "after complete", deaths)
            connection.commit()
            die_at(ctx, "after commit", deaths)
        write(ctx, number, "finished")

    @app.job(retry=soon)
    def book_late(ctx: SyncContext, number: int, gate: str) -> None:
        """The same, when the file `gate` exists; what it is told does not stop it from writing and committing."""
        write(ctx, number, "started")
        while not Path(gate).exists():
            time.sleep(0.01)
        refused = (HoldfastError, sqlite3.DatabaseError, psycopg.Error)
        with own_connection(url) as connection:
            connection.execute(f"INSERT INTO orders (id) VALUES ({number})")
            try:
                ctx.complete(tx=connection)
            except LeaseLost:
                with contextlib.suppress(*refused):
                    connection.execute(f"INSERT INTO orders (id) VALUES ({number + 100})")
            with contextlib.suppress(*refused):
                connection.commit()
        with contextlib.suppress(*refused), ctx.transaction() as tx:
            tx.execute(f"INSERT INTO orders (id) VALUES ({number + 200})")
        write(ctx, number, "finished")

    return Handlers(app, ledger, trip, trip_sync, book, book_late)


@contextlib.contextmanager
def own_connection(url: str) -> Iterator[Any]:
    """What an application has; rolled back and closed in the end."""
    connection: Any
    if url.startswith("postgresql"):
        connection = psycopg.connect(url)
    else:
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)
    try:
        yield connection
    finally:
        connection.close()


def work(url: str, ledger: Path, config: WorkerConfig, fault: Fault | None = None) -> None:
    """A worker process."""
    if fault is not None:
        fault.arm()
    make_handlers(url, ledger).app.run_worker(config)
