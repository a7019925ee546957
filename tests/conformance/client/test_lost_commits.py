"""The connection is lost during the commit of what a person did: the client tries again, and the answer is right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from holdfast import App, Dedup, JobHandle
from holdfast.errors import SerializationConflict
from holdfast.model.job_filter import JobFilter
from holdfast.operations.find_targets import find_seq_range
from holdfast.operations.repeatable import Repeatable
from tests.conformance.backdoors import PostgresBackdoor
from tests.conformance.client.conftest import settled
from tests.crew.proxy import Proxy, running


class LossyProxy(Proxy):
    """Loses the next commit: `after` the server has done it, on the way back; or `before`, on the way there."""

    #: the server's word that it has committed, and the client's wish
    done = b"C\x00\x00\x00\x0bCOMMIT\x00"
    wish = b"COMMIT\x00"
    losing: str | None = None
    lost = 0

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: asyncio.Event) -> None:
        while data := await reader.read(65536):
            is_done = self.done in data
            if (self.losing == "after" and is_done) or (self.losing == "before" and self.wish in data and not is_done):
                self.losing = None
                self.lost += 1
                return
            writer.write(data)
            await writer.drain()


@dataclass
class Scene:
    """A client behind a network that may lose a commit."""

    proxy: LossyProxy
    client: Any
    send: JobHandle[..., Any]
    backdoor: PostgresBackdoor

    async def enqueue(self, **options: Any) -> str:
        return str((await settled(self.client.enqueue(self.send.call(), **options))).id)

    async def do(self, losing: str, verb: str, *args: Any, **options: Any) -> list[str]:
        """The outcomes; a commit was lost on the way."""
        self.proxy.losing = losing
        results = await settled(getattr(self.client, verb)(*args, **options))
        assert self.proxy.lost == 1
        return [result.outcome.value for result in (results if isinstance(results, list) else [results])]

    def recorded(self, verb: str) -> list[Any]:
        rows = self.backdoor.execute(f"SELECT outcome FROM holdfast.audit WHERE verb = '{verb}'", {})
        return [outcome for (outcome,) in rows]


@pytest.fixture
async def scene(face: str, postgres_database: tuple[str, PostgresBackdoor]) -> AsyncIterator[Scene]:
    url, backdoor = postgres_database
    backdoor.execute("DELETE FROM holdfast.audit", {})
    with running(LossyProxy(psycopg.conninfo.conninfo_to_dict(url)["port"])) as proxy:  # type: ignore[arg-type]  # a port is a number there
        app = App(proxy.url(url), notify=False)

        @app.job()
        def send() -> None: ...

        client: Any = app.client() if face == "sync" else app.async_client()
        yield Scene(proxy, client, send, backdoor)
        await settled(client.close())
        app.close()


_losing = pytest.mark.parametrize("losing", ["after", "before"])


@_losing
async def test_cancel_and_retry(scene: Scene, losing: str) -> None:
    """Done once, on record once, and said to be done; a strict one is not refused for what it did itself."""
    chain = await scene.enqueue()
    assert await scene.do(losing, "cancel", chain, strict=True) == ["cancelled"]
    assert scene.recorded("cancel") == ["cancelled"]
    scene.proxy.lost = 0
    assert await scene.do(losing, "retry", chain, strict=True) == ["retried"]
    assert scene.recorded("retry") == ["retried"]


@_losing
async def test_by_filter(scene: Scene, losing: str) -> None:
    """Of several batches' commits one is lost."""
    for _ in range(3):
        await scene.enqueue()
    assert await scene.do(losing, "cancel", JobFilter(status="pending")) == ["cancelled"] * 3
    assert scene.recorded("cancel") == ["cancelled"] * 3


@_losing
async def test_delete(scene: Scene, losing: str) -> None:
    """What is gone is not "not found"."""
    chain = await scene.enqueue()
    assert await scene.do(losing, "delete_chains", chain) == ["deleted"]
    assert await settled(scene.client.find_chain(chain)) is None


@_losing
async def test_remove(scene: Scene, losing: str) -> None:
    """The key is free, and whoever takes it next keeps it."""
    await scene.enqueue(dedup=Dedup("k"))
    assert await scene.do(losing, "remove", scene.send, "k") == ["removed"]
    assert scene.recorded("remove") == ["removed"]


@_losing
async def test_what_operators_do(scene: Scene, losing: str) -> None:
    """Queues, schedules and settings: done once, and answered as if nothing had been lost."""
    client: Any = scene.client
    for group, verb, arguments, recorded in (
        (client.queues, "pause", {"name": "mail"}, "pause_queue"),
        (client.schedules, "create", {"name": "tick", "call": scene.send.call(), "cron": "@daily"}, "create_schedule"),
        (client.schedules, "remove", {"name": "tick"}, "remove_schedule"),
        (client.settings, "set", {"name": "max_attempts", "value": 3}, "set_setting"),
    ):
        scene.proxy.losing, scene.proxy.lost = losing, 0
        await settled(getattr(group, verb)(**arguments))
        assert scene.proxy.lost == 1
        assert len(scene.recorded(recorded)) == 1, recorded


async def test_a_server_that_has_not_noticed(scene: Scene, postgres_database: tuple[str, PostgresBackdoor]) -> None:
    """The first try's transaction is still open: nothing is done beside it, and the error says so."""
    verb = Repeatable(find_seq_range)
    with psycopg.connect(postgres_database[0]) as first:
        ((number,),) = first.execute("SELECT pg_current_xact_id()::text").fetchall()
        operation = verb.run()
        next(operation)
        assert operation.send(()).name == "name_transaction"
        operation.send([[number]])
        with pytest.raises(StopIteration):
            operation.send([[1, 2]])
        store = scene.send.app.store.sync()
        with pytest.raises(SerializationConflict, match="has not ended that transaction yet"):
            store.run(verb.run)
        first.commit()
        assert store.run(verb.run) == find_result(1, 2)
        store.close()


def find_result(first: int, last: int) -> Any:
    """What the verb made of the answer that the test gave it."""
    operation = find_seq_range()
    next(operation)
    with pytest.raises(StopIteration) as end:
        operation.send([[first, last]])
    return end.value.value
