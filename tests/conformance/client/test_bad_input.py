"""Bad input: a typed error that names the value, nothing written, and the user's transaction as usable as before."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import App, Dedup, JobHandle
from holdfast.errors import (
    BlockerCycle,
    ChainNotFound,
    DuplicateKey,
    HoldfastError,
    InvalidOption,
    InvalidPayload,
    NoTransaction,
    PayloadTooLarge,
    UnknownJobType,
    WrongConnection,
)
from holdfast.model.ids import new_id
from tests.conformance.client.conftest import Place, settled


@dataclass(frozen=True)
class _User:
    """Somebody who makes mistakes; `send` has the parameters `order: int, note: Any = None`."""

    app: App
    send: JobHandle[..., Any]
    client: Any
    tx: dict[str, Any]

    def one(self, call: Any, **options: Any) -> Any:
        return self.client.enqueue(call, **self.tx, **options)

    def many(self, *calls: Any, **options: Any) -> Any:
        return self.client.enqueue_many(calls, **self.tx, **options)


@dataclass(frozen=True)
class _Bad:
    name: str
    mistake: Callable[[_User], Any]
    error: type[HoldfastError]
    words: str


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


_AT = datetime(2026, 1, 1, tzinfo=UTC)
_ID = new_id()
_NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is the mistake

_BAD = [
    _Bad("unknown type", lambda user: user.one(user.app.call("nope")), UnknownJobType, "nope"),
    _Bad("missing argument", lambda user: user.one(user.send.call()), InvalidPayload, "order"),
    _Bad("extra argument", lambda user: user.one(user.send.call(1, colour=2)), InvalidPayload, "colour"),
    _Bad("wrong type", lambda user: user.one(user.send.call(order="1")), InvalidPayload, "order"),
    _Bad("nan", lambda user: user.one(user.send.call(1, [math.nan])), InvalidPayload, "nan"),
    _Bad("nul", lambda user: user.one(user.send.call(1, "a\x00")), InvalidPayload, "U+0000"),
    _Bad("surrogate", lambda user: user.one(user.send.call(1, "\ud800")), InvalidPayload, "surrogate"),
    _Bad("unserialisable", lambda user: user.one(user.send.call(1, object())), InvalidPayload, "object"),
    _Bad("circular", lambda user: user.one(user.send.call(1, _circle())), InvalidPayload, "itself"),
    _Bad("oversized", lambda user: user.one(user.send.call(1, "x" * 2**20)), PayloadTooLarge, "1,048,"),
    _Bad("naive time", lambda user: user.one(user.send.call(1), at=_NAIVE), InvalidOption, "at="),
    _Bad("at with delay", lambda user: user.one(user.send.call(1), at=_AT, delay=1), InvalidOption, "delay"),
    _Bad("at against delay", lambda user: user.one(user.send.call(1).options(at=_AT), delay=1), InvalidOption, "delay"),
    _Bad("negative delay", lambda user: user.one(user.send.call(1), delay=-1), InvalidOption, "delay"),
    _Bad("priority", lambda user: user.one(user.send.call(1), priority=99_999), InvalidOption, "priority"),
    _Bad("queue", lambda user: user.one(user.send.call(1), queue=""), InvalidOption, "queue"),
    _Bad("id", lambda user: user.one(user.send.call(1), id="17"), InvalidOption, "id="),
    _Bad("max_attempts", lambda user: user.one(user.send.call(1), max_attempts=0), InvalidOption, "max_attempts"),
    _Bad("tenant", lambda user: user.one(user.send.call(1), tenant="a\x00"), InvalidOption, "tenant"),
    _Bad("headers", lambda user: user.one(user.send.call(1), headers={"a": 1}), InvalidOption, "headers"),
    _Bad("naive expiry", lambda user: user.one(user.send.call(1), expires=_NAIVE), InvalidOption, "expires"),
    _Bad("expiry", lambda user: user.one(user.send.call(1), expires="soon"), InvalidOption, "expires"),
    _Bad("dedup", lambda user: user.one(user.send.call(1), dedup=7), InvalidOption, "dedup"),
    _Bad("empty key", lambda user: user.one(user.send.call(1), dedup=""), InvalidOption, "dedup"),
    _Bad("key with nul", lambda user: user.one(user.send.call(1), dedup="a\x00"), InvalidOption, "dedup"),
    _Bad("key with surrogate", lambda user: user.one(user.send.call(1), dedup="\ud800"), InvalidOption, "surrogate"),
    _Bad("endless key", lambda user: user.one(user.send.call(1), dedup="x" * 501), InvalidOption, "500"),
    _Bad(
        "scope",
        lambda user: user.one(user.send.call(1), dedup=Dedup("k", scope="always")),  # type: ignore[arg-type]  # that is the point
        InvalidOption,
        "always",
    ),
    _Bad("window", lambda user: user.one(user.send.call(1), dedup=Dedup("k", window=0)), InvalidOption, "window"),
    _Bad(
        "conflict in a batch",
        lambda user: user.many(
            user.send.call(1).options(dedup="k"),
            user.send.call(1).options(dedup=Dedup("k", on_conflict="reject")),
        ),
        DuplicateKey,
        "'k'",
    ),
    _Bad("blockers", lambda user: user.one(user.send.call(1), blockers=7), InvalidOption, "blockers"),
    _Bad("one blocker", lambda user: user.one(user.send.call(1), blockers=new_id()), InvalidOption, "list"),
    _Bad("blocker's id", lambda user: user.one(user.send.call(1), blockers=["17"]), InvalidOption, "blockers='17'"),
    _Bad("blocker twice", lambda user: user.one(user.send.call(1), blockers=[_ID, _ID]), InvalidOption, "twice"),
    _Bad("unknown blocker", lambda user: user.one(user.send.call(1), blockers=[_ID]), ChainNotFound, _ID),
    _Bad("behind itself", lambda user: user.one(user.send.call(1), id=_ID, blockers=[_ID]), BlockerCycle, _ID),
    _Bad(
        "on_blocker_failure",
        lambda user: user.one(user.send.call(1), on_blocker_failure="panic"),
        InvalidOption,
        "panic",
    ),
    _Bad("no partition key", lambda user: user.one(user.send.call(1), partition_key=""), InvalidOption, "=''"),
    _Bad("long partition key", lambda user: user.one(user.send.call(1), partition_key="x" * 201), InvalidOption, "200"),
    _Bad("unprintable", lambda user: user.one(user.send.call(1), partition_key="a\nb"), InvalidOption, r"'a\nb'"),
    _Bad("partition nul", lambda user: user.one(user.send.call(1), partition_key="\x00"), InvalidOption, r"'\x00'"),
    _Bad(
        "partition surrogate", lambda user: user.one(user.send.call(1), partition_key="\ud800"), InvalidOption, "ud800"
    ),
    _Bad(
        "ordering",
        lambda user: user.one(user.send.call(1), partition_key="k", ordering="lifo"),
        InvalidOption,
        "ordering='lifo'",
    ),
    _Bad(
        "ordering alone",
        lambda user: user.one(user.send.call(1), ordering="fifo"),
        InvalidOption,
        "needs a partition_key",
    ),
    _Bad("shards", lambda user: user.one(user.send.call(1), partition_key="k", shards=0), InvalidOption, "shards=0"),
    _Bad("shards alone", lambda user: user.one(user.send.call(1), shards=2), InvalidOption, "needs a partition_key"),
    _Bad(
        "one of many without a key",
        lambda user: user.many(user.send.call(1).options(partition_key="k"), user.send.call(2), shards=2),
        InvalidOption,
        "needs a partition_key",
    ),
    _Bad(
        "no room for a shard",
        lambda user: user.one(user.send.call(1), partition_key="x" * 196, shards=2),
        InvalidOption,
        "195",
    ),
    _Bad("concurrency key", lambda user: user.one(user.send.call(1), concurrency_key=5), InvalidOption, "_key=5"),
    _Bad("one flag", lambda user: user.one(user.send.call(1), flags="gpu"), InvalidOption, "flags='gpu'"),
    _Bad("flags", lambda user: user.one(user.send.call(1), flags=["gpu", ""]), InvalidOption, "flags=''"),
    _Bad(
        "many flags", lambda user: user.one(user.send.call(1), flags=map(str, range(101))), InvalidOption, "101 flags"
    ),
    _Bad("unknown option", lambda user: user.one(user.send.call(1), colour="red"), InvalidOption, "colour"),
    _Bad("not a call", lambda user: user.one(user.send), InvalidOption, "call"),
    _Bad("one of many", lambda user: user.many(user.send.call(1), user.send), InvalidOption, "call"),
    _Bad("id for many", lambda user: user.many(*[user.send.call(1)] * 2, id=new_id()), InvalidOption, "id="),
]


async def _refused(bad: _Bad, place: Place, tx: dict[str, Any]) -> None:
    send: JobHandle[..., Any] = _send(place.app)
    with pytest.raises(bad.error) as caught:
        await settled(bad.mistake(_User(place.app, send, place.client, tx)))
    assert bad.words in str(caught.value)


def _send(app: App) -> JobHandle[..., Any]:
    def send(order: int, note: Any = None) -> None: ...

    return app.job()(send)


async def _in_a_transaction(bad: _Bad, place: Place) -> None:
    send = _send(place.app)
    connection = await place.connect()
    try:
        if place.app.store.dialect == "sqlite":
            await settled(connection.execute("CREATE TABLE orders (id integer)"))
        await settled(connection.execute("INSERT INTO orders VALUES (1)"))
        await _refused(bad, place, {"tx": connection})
        await settled(connection.execute("INSERT INTO orders VALUES (2)"))
        await settled(place.client.enqueue(send.call(7), tx=connection))
        await settled(connection.commit())
        cursor = await settled(connection.execute("SELECT id FROM orders ORDER BY id"))
        assert await settled(cursor.fetchall()) == [(1,), (2,)]
    finally:
        await settled(connection.close())
    assert [job.input for job in await place.jobs()] == [{"order": 7}]


@pytest.mark.parametrize("bad", _BAD, ids=lambda bad: bad.name)
class TestBadInput:
    """Every kind of mistake, on both faces."""

    async def test_sqlite(self, bad: _Bad, sqlite_place: Place) -> None:
        """Nothing is written by a client alone."""
        await _refused(bad, sqlite_place, {})
        assert await sqlite_place.jobs() == []

    async def test_postgres(self, bad: _Bad, postgres_place: Place) -> None:
        """As on SQLite."""
        await _refused(bad, postgres_place, {})
        assert await postgres_place.jobs() == []

    async def test_sqlite_transaction(self, bad: _Bad, sqlite_place: Place) -> None:
        """In the user's transaction the error costs nothing: what came before and after it is committed."""
        await _in_a_transaction(bad, sqlite_place)

    async def test_postgres_transaction(self, bad: _Bad, postgres_place: Place) -> None:
        """As on SQLite; no statement was sent, so the transaction is not aborted."""
        await _in_a_transaction(bad, postgres_place)


async def _outside_a_transaction(place: Place) -> None:
    send = _send(place.app)
    connection = await place.connect(autocommit=True)
    try:
        with pytest.raises(NoTransaction, match="outside a transaction") as caught:
            await settled(place.client.enqueue(send.call(1), tx=connection))
        assert "transaction():" in str(caught.value) or "BEGIN" in str(caught.value)
    finally:
        await settled(connection.close())
    assert await place.jobs() == []


async def test_sqlite_outside_a_transaction(sqlite_place: Place) -> None:
    """A connection that commits every statement ties the job to nothing: refused, with the way out."""
    await _outside_a_transaction(sqlite_place)


async def test_postgres_outside_a_transaction(postgres_place: Place) -> None:
    """As on SQLite."""
    await _outside_a_transaction(postgres_place)


@pytest.mark.parametrize(
    "wrong", ["postgresql://localhost/x", 7, object(), [], {}], ids=lambda value: type(value).__name__
)
async def test_what_is_no_connection(wrong: object, sqlite_place: Place) -> None:
    """Anything that is no connection is refused by its type, and the takers are listed."""
    send = _send(sqlite_place.app)
    with pytest.raises(WrongConnection, match=type(wrong).__name__):
        await settled(sqlite_place.client.enqueue(send.call(1), tx=wrong))
    assert await sqlite_place.jobs() == []


async def test_connection_of_the_other_database(sqlite_place: Place, postgres_place: Place) -> None:
    """A PostgreSQL connection for jobs in SQLite, and the other way round."""
    for client_of, connection_of in ((sqlite_place, postgres_place), (postgres_place, sqlite_place)):
        connection = await connection_of.connect()
        try:
            with pytest.raises(WrongConnection, match="PostgreSQL"):
                await settled(client_of.client.enqueue(_send(client_of.app).call(1), tx=connection))
        finally:
            await settled(connection.close())
        assert await client_of.jobs() == []


async def test_the_id_of_another_job(place: Place) -> None:
    """The same call with the same id is kept; an id of another type is refused, with all of its batch."""
    send = _send(place.app)

    @place.app.job()
    def other(order: int) -> None: ...

    own = await settled(place.client.enqueue(send.call(1)))
    assert (await settled(place.client.enqueue(send.call(1), id=own.id))).outcome == "kept"
    for calls in ([other.call(1)], [other.call(2), other.call(1)]):
        calls[-1] = calls[-1].options(id=own.id)
        with pytest.raises(InvalidOption, match=rf"id='{own.id}'.*'send'"):
            await settled(place.client.enqueue_many(calls))
        connection = await place.connect()
        with pytest.raises(InvalidOption, match="'send'"):
            await settled(place.client.enqueue_many(calls, tx=connection))
        await settled(connection.commit())
        await settled(connection.close())
    assert [job.id for job in await place.jobs()] == [own.id]


async def test_jobs_and_chains_as_blockers(place: Place) -> None:
    """In a list a job stands for its chain; alone it is refused in a few words; walked through once is enough."""
    send = _send(place.app)
    chain = await settled(place.client.enqueue(send.call(1)))
    job = await settled(place.client.get_job(chain.id))
    record = await settled(place.client.get_chain(chain))
    for given in ([job], [record], record, chain, (each for each in [chain])):
        waiting = await settled(place.client.enqueue(send.call(2), blockers=given))
        assert waiting.status == "blocked"
    with pytest.raises(InvalidOption, match="blockers='a Job': must be a list of chains") as caught:
        await settled(place.client.enqueue(send.call(2), blockers=job))
    assert len(str(caught.value)) < 150
