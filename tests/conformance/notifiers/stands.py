"""Where hints travel: PostgreSQL, a SQLite file, one process, Valkey and NATS."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import redis.asyncio

from holdfast.notify import Notifier, NotifierConfig, open_notifier
from holdfast.notify.letters import letter
from holdfast.notify.local import LocalNotifier
from holdfast.testing.conformance_notifiers import RestartableStand, Stand
from tools.hint_servers import NatsServer, ValkeyServer


class _Opening(Stand):
    """Remembers what it opened."""

    def __init__(self) -> None:
        self.opened: list[Notifier] = []

    @abstractmethod
    def open(self) -> Notifier: ...

    def join(self) -> Notifier:
        self.opened.append(self.open())
        return self.opened[-1]

    async def tell_work(self, by: Notifier, work: Iterable[str]) -> None:
        by.hint(work)

    def close(self) -> None:
        for notifier in self.opened:
            notifier.close()


class _Told(_Opening):
    """The database writes letters, and whoever ran the statement sends them."""

    async def tell_chain(self, by: Notifier, to: Notifier, chain_id: str) -> None:
        by.hint([letter(str(to.chain_channel), f"chain {chain_id}")])

    async def tell_lease(self, by: Notifier, to: Notifier, worker_id: str) -> None:
        by.hint([letter(str(to.open_waker(["default"]).lease_channel), f"lease {worker_id}")])


class PostgresStand(_Opening):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def open(self) -> Notifier:
        return open_notifier(NotifierConfig(dialect="postgres", where=self._url, channel="stand"))

    async def tell_chain(self, by: Notifier, to: Notifier, chain_id: str) -> None:
        await self._query("SELECT pg_notify(%s, %s)", to.chain_channel, chain_id)

    async def tell_lease(self, by: Notifier, to: Notifier, worker_id: str) -> None:
        await self._query("SELECT pg_notify(%s, %s)", to.open_waker(["default"]).lease_channel, worker_id)

    async def subscriptions(self) -> int:
        text = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%%'"
        return int((await self._query(text))[0][0])

    async def _query(self, text: str, *parameters: object) -> list[Any]:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            return await (await connection.execute(text.encode(), parameters)).fetchall()


class SqliteStand(_Opening):
    """Hints are commits, and say nothing of themselves."""

    names_subjects = False

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._commit("PRAGMA journal_mode = wal")
        self._commit("CREATE TABLE work (number integer)")

    def open(self) -> Notifier:
        return open_notifier(NotifierConfig(dialect="sqlite", where=str(self._path), channel="stand"))

    async def tell_work(self, by: Notifier, work: Iterable[str]) -> None:
        self._commit("INSERT INTO work VALUES (1)")

    async def tell_chain(self, by: Notifier, to: Notifier, chain_id: str) -> None:
        self._commit("INSERT INTO work VALUES (2)")

    async def tell_lease(self, by: Notifier, to: Notifier, worker_id: str) -> None:
        self._commit("INSERT INTO work VALUES (3)")

    async def subscriptions(self) -> int:
        return sum(thread.name == "holdfast-file-watch" for thread in threading.enumerate())

    def _commit(self, text: str) -> None:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute(text)


class LocalStand(_Told):
    is_shared = False
    is_counting = True

    def __init__(self) -> None:
        super().__init__()
        self._only = LocalNotifier()

    def open(self) -> Notifier:
        return self._only

    async def subscriptions(self) -> int:
        return 0


class RedisStand(_Told, RestartableStand):
    is_counting = True

    def __init__(self, server: ValkeyServer) -> None:
        super().__init__()
        self._server = server

    def open(self) -> Notifier:
        return open_notifier(NotifierConfig(dialect="postgres", where="unused", channel="stand", url=self._server.url))

    async def subscriptions(self) -> int:
        async with redis.asyncio.Redis.from_url(self._server.url) as client:
            return sum(connection["cmd"] == "blpop" for connection in await client.client_list())

    async def take_away(self) -> None:
        self._server.kill()

    async def bring_back(self) -> None:
        self._server.start()


class NatsStand(_Told, RestartableStand):
    is_counting = True

    def __init__(self, server: NatsServer) -> None:
        super().__init__()
        self._server = server

    def open(self) -> Notifier:
        return open_notifier(NotifierConfig(dialect="postgres", where="unused", channel="stand", url=self._server.url))

    async def subscriptions(self) -> int:
        return await asyncio.to_thread(self._server.connections)

    async def take_away(self) -> None:
        self._server.kill()

    async def bring_back(self) -> None:
        self._server.start()
