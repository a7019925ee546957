"""Batches that go in as lines or as rows: they become the jobs that they would have become one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from holdfast import App
from holdfast.operations.copied_lines import MANY, alike_lines
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from tests.conformance.backdoors import PostgresBackdoor
from tests.conformance.client.conftest import Place, settled
from tests.conformance.client.test_lost_commits import LossyProxy
from tests.crew.proxy import running

#: what the format could take for something else
_TEXTS = [
    *("", "plain", "tab\tnew line\nreturn\r", "back\\slash \\N \\. \\t"),
    *("“ünïcode” 🙂", 'quote " \\"', "\x1f", "\\"),
]
_OTHER = {"seq": 0, "id": "", "chain_id": "", "created_at": None, "scheduled_at": None, "ready_at": None}


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was sent on connections of the store's own."""
    sent: list[str] = []

    def watch(store: type[PostgresStore | SqliteStore], name: str) -> None:
        original = getattr(store, name)

        def script(self: Any, statement: Any) -> Any:
            sent.append(statement.name)
            return original(self, statement)

        monkeypatch.setattr(store, name, script)

    watch(PostgresStore, "raw_script")
    watch(SqliteStore, "script")
    return sent


#: how the store of a dialect takes many, and many that are alike
_BULK = {"postgres": "copy_jobs", "sqlite": "insert_rows"}
_ALIKE = {"postgres": "copy_jobs", "sqlite": "insert_alike"}


async def test_many_become_the_jobs_that_each_becomes_alone(place: Place, statements: list[str]) -> None:
    """Whatever their payloads, headers and names are."""

    def note(text: str, more: list[str]) -> None: ...

    plain = place.app.job(name="plain")(note)
    odd = place.app.job(name="odd \\t name", queue="odd \\N queue", priority=-3, timeout=1.5)(note)
    calls = [
        each.call(text, [text, text]).options(headers={"text": text} if text else None, max_attempts=number or None)
        for each in (plain, odd)
        for number, text in enumerate(_TEXTS)
    ]
    many = (calls * MANY)[: MANY + 11]  # with some in rows of every size
    chains = await settled(place.client.enqueue_many(many))
    assert {*statements} & {*_BULK.values(), "insert_jobs"} == {_BULK[place.app.store.dialect]}
    assert [chain.id for chain in chains] == sorted(chain.id for chain in chains)
    some = [*range(len(calls)), *range(len(many) - len(calls), len(many))]
    copied = [await settled(place.client.get_job(chains[number].id)) for number in some]
    single = [await settled(place.client.get_job((await settled(place.client.enqueue(call))).id)) for call in calls]
    assert statements.count("insert_job") == len(calls)
    assert [replace(job, **_OTHER) for job in copied] == [
        replace(single[number % len(calls)], **_OTHER) for number in some
    ]
    page = await settled(place.client.list_jobs(limit=1_000))
    assert len(page.items) == len(many) + len(single)
    assert (
        {job.created_at for job in copied} == {job.scheduled_at for job in copied} == {job.ready_at for job in copied}
    )
    assert [job.seq for job in copied] == sorted(job.seq for job in copied)
    assert all(job.chain_id == job.id for job in copied)


async def test_alike_ones_become_the_jobs_that_each_becomes_alone(place: Place, statements: list[str]) -> None:
    """Of one type, and with the options of the whole enqueue."""

    @place.app.job(name="odd \\t name", queue="odd \\N queue", priority=-3, timeout=1.5)
    def note(text: str, more: list[str]) -> None: ...

    calls = [note.call(text, [text, text]) for text in _TEXTS]
    many = (calls * MANY)[: MANY + 11]
    for options in ({}, {"headers": {"text": _TEXTS[2]}, "max_attempts": 2, "priority": 9, "queue": "\\. queue"}):
        chains = await settled(place.client.enqueue_many(many, **options))
        assert {*statements} & {*_BULK.values(), *_ALIKE.values(), "insert_jobs"} == {_ALIKE[place.app.store.dialect]}
        some = [*range(len(calls)), *range(len(many) - len(calls), len(many))]
        written = [await settled(place.client.get_job(chains[number].id)) for number in some]
        single = [
            await settled(place.client.get_job((await settled(place.client.enqueue(call, **options))).id))
            for call in calls
        ]
        assert [replace(job, **_OTHER) for job in written] == [
            replace(single[number % len(calls)], **_OTHER) for number in some
        ]
        assert [chain.type_name for chain in chains] == [note.name] * len(many)
        assert [job.seq for job in written] == sorted(job.seq for job in written)
        assert all(job.chain_id == job.id for job in written)
        page = await settled(place.client.list_jobs(queue=single[0].queue, limit=1_000))
        assert len(page.items) == len(many) + len(single)


async def test_whoever_has_more_to_say_is_sent_as_a_document(place: Place, statements: list[str]) -> None:
    """Later times and rarer options."""

    @place.app.job()
    def wait(number: int) -> None: ...

    calls = [wait.call(number) for number in range(MANY)]
    for options in ({"delay": 60}, {"tenant": "acme"}, {"flags": ["f"]}, {"partition_key": "k"}):
        await settled(place.client.enqueue_many(calls, **options))
    assert not {*statements} & {*_BULK.values(), *_ALIKE.values()}


async def test_a_transaction_of_the_user_s_has_them_or_not(place: Place, statements: list[str]) -> None:
    """There they are never sent as lines or rows, which not every driver could send."""

    @place.app.job()
    def count(number: int) -> None: ...

    connection = await place.connect()
    await settled(place.client.enqueue_many([count.call(number) for number in range(MANY)], tx=connection))
    await settled(connection.rollback())
    await settled(connection.close())
    assert await place.jobs() == []
    assert not {*statements} & {*_BULK.values(), *_ALIKE.values()}


class _Severed:
    """Cuts every connection of the database once a statement is under way."""

    def __init__(self, backdoor: PostgresBackdoor) -> None:
        self._backdoor = backdoor
        self.cuts = 0

    def __call__(self, lines: Any) -> Any:
        def cutting(jobs: Any) -> Iterator[bytes]:
            for number, some in enumerate(lines(jobs)):
                yield some
                if number == 0 and not self.cuts:
                    self.cuts += 1
                    self._backdoor.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                        "AND pid <> pg_backend_pid() AND query LIKE '%COPY%FROM STDIN%'",
                        {},
                    )

        return cutting


async def test_a_connection_lost_amid_the_lines(
    face: str, postgres_database: tuple[str, PostgresBackdoor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are there once, under the ids that the caller gets."""
    url, backdoor = postgres_database
    severed = _Severed(backdoor)
    monkeypatch.setattr("holdfast.operations.enqueue_jobs.alike_lines", severed(alike_lines))
    app = App(url, notify=False)

    @app.job(queue="severed")
    def send(number: int) -> None: ...

    client: Any = app.client() if face == "sync" else app.async_client()
    chains = await settled(client.enqueue_many([send.call(number) for number in range(4 * MANY)]))
    await settled(client.close())
    app.close()
    assert severed.cuts == 1
    rows = backdoor.execute("SELECT CAST(id AS text) FROM holdfast.job WHERE queue = 'severed'", {})
    assert sorted(chain.id for chain in chains) == sorted(job_id for (job_id,) in rows)


class _LineLossProxy(LossyProxy):
    """Loses the word that all lines have come, or that they are in the table."""

    done = b"COPY %d\x00" % MANY
    wish = b"c\x00\x00\x00\x04"


@pytest.mark.parametrize("losing", ["after", "before"])
async def test_an_answer_lost_behind_the_lines(
    face: str, losing: str, postgres_database: tuple[str, PostgresBackdoor]
) -> None:
    """Whether it was done or not: the client tries again, and all of them are there once."""
    url, backdoor = postgres_database
    with running(_LineLossProxy(psycopg.conninfo.conninfo_to_dict(url)["port"])) as proxy:  # type: ignore[arg-type]  # a port is a number there
        app = App(proxy.url(url), notify=False)

        @app.job(queue="lost")
        def send(number: int) -> None: ...

        client: Any = app.client() if face == "sync" else app.async_client()
        proxy.losing = losing
        chains = await settled(client.enqueue_many([send.call(number) for number in range(MANY)]))
        await settled(client.close())
        app.close()
    assert proxy.lost == 1
    rows = backdoor.execute("SELECT CAST(id AS text) FROM holdfast.job WHERE queue = 'lost'", {})
    assert sorted(chain.id for chain in chains) == sorted(job_id for (job_id,) in rows)


async def test_workers_hear_of_them(postgres_database: tuple[str, PostgresBackdoor]) -> None:
    """The hint is part of the transaction."""
    url, backdoor = postgres_database
    app = App(url)

    @app.job(queue="heard")
    def send(number: int) -> None: ...

    with psycopg.connect(url, autocommit=True) as listener, app.client() as client:
        listener.execute("LISTEN holdfast_work")
        await asyncio.to_thread(client.enqueue_many, [send.call(number) for number in range(MANY)])
        hint = next(listener.notifies(timeout=30))
        assert (hint.channel, hint.payload) == ("holdfast_work", "heard")
    app.close()
    backdoor.execute("DELETE FROM holdfast.job WHERE queue = 'heard'", {})


def test_a_batch_has_one_time(sqlite_file: Path) -> None:
    """A clock that is put back meanwhile does not put the last jobs in front."""
    moments = iter(range(1000, 0, -1))
    app = App(f"sqlite:///{sqlite_file}", clock=lambda: datetime.fromtimestamp(next(moments), UTC))

    @app.job()
    def note(number: int) -> None: ...

    with app.client() as client:
        client.enqueue_many([note.call(number=number) for number in range(111)])
        assert len({job.ready_at for job in client.list_jobs(limit=200).items}) == 1
    app.close()
