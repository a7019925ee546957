"""G19: Bad input gets a typed error that names the value and the way out, and nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App, Client, WorkerConfig
from holdfast.errors import (
    HoldfastError,
    InvalidOption,
    InvalidPayload,
    NotMigrated,
    NoTransaction,
    PayloadTooLarge,
    UnknownJobType,
    WrongConnection,
)
from tests.crew.database import Database
from tests.crew.jobs import Jobs
from tests.crew.process import Crew

Enqueue = Callable[[Jobs, Client, Any], object]


def _options(**options: Any) -> Enqueue:
    return lambda jobs, client, tx: client.enqueue(jobs.note.call(number=1), tx=tx, **options)


def _arguments(**arguments: Any) -> Enqueue:
    return lambda jobs, client, tx: client.enqueue(jobs.note.call(**arguments), tx=tx)


#: what is wrong -> how it is sent, the error, what the message names
BAD: dict[str, tuple[Enqueue, type[HoldfastError], str]] = {
    "unknown type": (lambda jobs, client, tx: client.enqueue(jobs.app.call("nope"), tx=tx), UnknownJobType, "'nope'"),
    "missing argument": (_arguments(), InvalidPayload, "number"),
    "extra argument": (_arguments(number=1, colour="red"), InvalidPayload, "colour"),
    "wrong argument": (_arguments(number="one"), InvalidPayload, "number"),
    "not a number": (_arguments(number=1, pause=float("nan")), InvalidPayload, "nan"),
    "unserialisable": (_arguments(number=object()), InvalidPayload, "object"),
    "too large": (
        lambda jobs, client, tx: client.enqueue(jobs.hold.call(number=1, gate="x" * 2_000_000), tx=tx),
        PayloadTooLarge,
        "1,048,576",
    ),
    "NUL": (
        lambda jobs, client, tx: client.enqueue(jobs.hold.call(number=1, gate="a\0b"), tx=tx),
        InvalidPayload,
        "U+0000",
    ),
    "naive time": (_options(at=datetime(2030, 1, 1)), InvalidOption, "time zone"),  # noqa: DTZ001 - that is what is wrong
    "at with delay": (
        _options(at=datetime.fromisoformat("2030-01-01T00:00:00+00:00"), delay=1),
        InvalidOption,
        "delay=1",
    ),
    "negative delay": (_options(delay=-1), InvalidOption, "delay=-1"),
    "endless delay": (_options(delay=float("inf")), InvalidOption, "delay=inf"),
    "priority": (_options(priority=40_000), InvalidOption, "priority=40000"),
    "queue": (_options(queue=""), InvalidOption, "queue=''"),
    "id": (_options(id="42"), InvalidOption, "id='42'"),
    "attempts": (_options(max_attempts=0), InvalidOption, "max_attempts=0"),
    "headers": (_options(headers={"a": 1}), InvalidOption, "headers"),
    "unknown option": (_options(colour="red"), InvalidOption, "colour='red'"),
    "second of a batch": (
        lambda jobs, client, tx: client.enqueue_many([jobs.note.call(number=1), "not a call"], tx=tx),  # type: ignore[arg-type]  # wrong
        InvalidOption,
        "not a call",
    ),
}


def _user_connection(database: Database) -> Any:
    return psycopg.connect(database.url) if database.is_postgres else sqlite3.connect(database.path)


@pytest.mark.parametrize("wrong", BAD)
@pytest.mark.parametrize("has_transaction", [False, True], ids=["own transaction", "tx="])
def test_nothing_is_written(crew: Crew, database: Database, wrong: str, has_transaction: bool) -> None:
    """The error names the value; there is no job; a transaction of the caller's goes on and commits."""
    send, error, named = BAD[wrong]
    database.query("CREATE TABLE orders (number integer)")
    with closing(_user_connection(database)) as user, crew.jobs.app.client() as client:
        user.execute("INSERT INTO orders (number) VALUES (1)")
        if not has_transaction:
            user.commit()
        with pytest.raises(error) as caught:
            send(crew.jobs, client, user if has_transaction else None)
        user.commit()

    assert named in str(caught.value)
    assert database.jobs() == []
    assert database.query("SELECT number FROM orders") == [(1,)]


@pytest.mark.parametrize("wrong", ["outside a transaction", "of the other database", "no connection at all"])
def test_wrong_transaction(crew: Crew, database: Database, wrong: str, tmp_path: Path) -> None:
    """Refused before anything is sent, with the way out."""
    call = crew.jobs.note.call(number=1)
    tx: Any
    with crew.jobs.app.client() as client:
        match wrong:
            case "outside a transaction":
                tx = (
                    psycopg.connect(database.url, autocommit=True)
                    if database.is_postgres
                    else sqlite3.connect(database.path, isolation_level=None)
                )
                with closing(tx), pytest.raises(NoTransaction, match=r"outside a transaction; \w+"):
                    client.enqueue(call, tx=tx)
            case "of the other database":
                tx = sqlite3.connect(tmp_path / "other.db")
                with closing(tx), pytest.raises(WrongConnection):
                    client.enqueue(call, tx=tx)
            case _:
                with pytest.raises(WrongConnection, match="a sync client takes"):
                    client.enqueue(call, tx=object())  # type: ignore[arg-type]  # wrong

    assert database.jobs() == []


def test_database_without_tables(postgres_url: str) -> None:
    """Not migrated: says how to, and makes nothing."""
    database = Database(postgres_url)
    app = App(database.url)

    @app.job()
    def note() -> None: ...

    with app.client() as client, pytest.raises(NotMigrated, match="holdfast migrate up"):
        client.enqueue(note.call())
    app.close()

    assert database.query("SELECT count(*) FROM pg_namespace WHERE nspname = 'holdfast'") == [(0,)]


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"batch": 1_000_000},
        {"queues": []},
        {"dead_after": timedelta(seconds=1)},
        {"lease": timedelta(seconds=1)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_bad_worker_setting(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as caught:
        WorkerConfig(**options)

    assert caught.value.option == next(iter(options))
