"""A connection to another PostgreSQL than the app's is refused, and whoever passed it can go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.db import connection as django_connection
from django.db import transaction
from django.test.utils import CaptureQueriesContext
from sqlalchemy import event, orm

from holdfast.app import App
from holdfast.errors import NotMigrated, WrongDatabase
from tests.conformance.borrowed.django_site import django_database
from tests.conformance.borrowed.kinds import KINDS, Kind, Opened, engine_url
from tests.conformance.borrowed.shop import Shop
from tools.postgres_server import PostgresAddress, PostgresServer, available

POSTGRES = [pytest.param(kind, id=kind.name) for kind in KINDS if kind.dialect == "postgres"]


@pytest.fixture
def elsewhere(postgres_server: PostgresAddress, worker_id: str) -> Iterator[str]:
    """Another database of the same server, without our tables."""
    name = f"elsewhere_{worker_id}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


class Guest(Shop):
    """The application's connections lead elsewhere than its jobs are."""

    def __init__(self, jobs: str, connections: str) -> None:
        super().__init__(jobs)
        self.url = connections
        with self.connection() as connection:
            connection.execute("CREATE TABLE note (body text NOT NULL UNIQUE)")


@pytest.fixture
async def guest(postgres_url: str, elsewhere: str) -> AsyncIterator[Guest]:
    guest = Guest(postgres_url, elsewhere)
    yield guest
    await guest.close()


async def refused(opened: Opened, what: str) -> None:
    """Twice: nothing may be remembered of the first time."""
    for _ in range(2):
        with pytest.raises(WrongDatabase, match=f"'elsewhere_.*', which {what}, but this app") as caught:
            await opened.enqueue()
        assert caught.value.database.startswith("elsewhere_")


@pytest.mark.parametrize("kind", POSTGRES)
async def test_without_our_tables(guest: Guest, kind: Kind) -> None:
    """Instead of the driver's UndefinedTable, which would abort the transaction: that goes on and is committed."""
    async with kind.open(guest, None) as opened:
        await opened.write("mine")
        await refused(opened, "has no Holdfast tables")
        await opened.write("more")
        await opened.commit()
    assert guest.notes() == ["mine", "more"]


@pytest.mark.parametrize("kind", POSTGRES)
async def test_with_tables_of_another_app(guest: Guest, kind: Kind) -> None:
    """Where it would succeed, and the job would wait for workers that never come."""
    with App(guest.url).client() as client:
        client.migrate()
    async with kind.open(guest, None) as opened:
        await refused(opened, "has other Holdfast tables")
        await opened.write("mine")
        await opened.commit()
    with App(guest.url).client() as client:
        assert client.list_jobs().items == []
    assert guest.notes() == ["mine"]


def test_a_copy_of_the_database(postgres_shop: Shop, postgres_server: PostgresAddress) -> None:
    """Made from ours as a template, everything in it is the same."""
    ours = postgres_shop.url.rpartition("/")[2]
    postgres_shop.face.close()
    url = postgres_server.create_database(f"{ours}_copy", template=ours)
    app = App(postgres_shop.url)

    @app.job()
    def send_receipt() -> None: ...

    try:
        with app.client() as client, psycopg.connect(url) as connection, pytest.raises(WrongDatabase, match="_copy"):
            client.enqueue(send_receipt.call(), tx=connection)
    finally:
        postgres_server.drop_database(f"{ours}_copy")


def test_the_same_names_and_numbers_on_another_server(tmp_path: Any) -> None:
    """Two servers made alike, as by one compose file: names and oids are equal, the mark is not."""
    newest = available()[max(available())]
    with PostgresServer(newest) as first, PostgresServer(newest) as second:
        urls = [server.create_database("shop") for server in (first, second)]
        oids = []
        for url in urls:
            with App(url).client() as client:
                client.migrate()
            with psycopg.connect(url) as connection:
                oids.append(connection.execute("SELECT 'holdfast.job'::regclass::oid::bigint").fetchone())
        assert oids[0] == oids[1]
        app = App(urls[0])

        @app.job()
        def send_receipt() -> None: ...

        with app.client() as client:
            with psycopg.connect(urls[1]) as connection, pytest.raises(WrongDatabase, match="other Holdfast tables"):
                client.enqueue(send_receipt.call(), tx=connection)
            with psycopg.connect(urls[0]) as connection:
                client.enqueue(send_receipt.call(), tx=connection)


def test_an_idle_connection_is_left_idle(guest: Guest) -> None:
    """The look began a transaction where there was none."""
    with psycopg.connect(guest.url) as connection:
        with pytest.raises(WrongDatabase):
            guest.enqueue(connection)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    engine = sqlalchemy.create_engine(engine_url(guest, "psycopg"))
    with engine.connect() as tx:
        with pytest.raises(WrongDatabase):
            guest.enqueue(tx)
        assert not tx.in_transaction()
    engine.dispose()


def test_one_look_per_connection(postgres_shop: Shop) -> None:
    """However often it is passed, and whatever stands for it."""
    seen: list[str] = []
    engine = sqlalchemy.create_engine(engine_url(postgres_shop, "psycopg"), pool_size=1)
    event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    for _ in range(3):
        with engine.begin() as connection:
            postgres_shop.enqueue(connection)
        with orm.Session(engine) as session:
            postgres_shop.enqueue(session)
            session.commit()
    assert sum("current_database" in text for text in seen) == 1
    engine.dispose()


def test_tables_made_anew(postgres_shop: Shop) -> None:
    """As test suites do it while the process goes on: our own database is looked at again before anybody is refused."""
    with psycopg.connect(postgres_shop.url) as connection:
        postgres_shop.enqueue(connection)
        connection.commit()
        with postgres_shop.connection() as other:
            other.execute("DROP SCHEMA holdfast CASCADE")
        postgres_shop.face.migrate()
        job = postgres_shop.enqueue(connection)
        connection.commit()
    with psycopg.connect(postgres_shop.url) as fresh:
        again = postgres_shop.enqueue(fresh)
    assert postgres_shop.has(job)
    assert postgres_shop.has(again)


def test_tables_gone(postgres_shop: Shop) -> None:
    """The app's own database says what is wrong; the caller's transaction can go on."""
    with psycopg.connect(postgres_shop.url) as connection:
        connection.execute("INSERT INTO note VALUES ('mine')")
        with postgres_shop.connection() as other:
            other.execute("DROP SCHEMA holdfast CASCADE")
        with pytest.raises(NotMigrated):
            postgres_shop.enqueue(connection)
    assert postgres_shop.notes() == ["mine"]


def test_another_schema_of_the_same_database(postgres_shop: Shop) -> None:
    """Two apps in one database, each in its own schema, share its connections."""
    other = App(postgres_shop.url, schema="second")

    @other.job()
    def send_receipt() -> None: ...

    with other.client() as client:
        client.migrate()
        with psycopg.connect(postgres_shop.url) as connection:
            postgres_shop.enqueue(connection)
            client.enqueue(send_receipt.call(), tx=connection)
            postgres_shop.enqueue(connection)
        assert len(client.list_jobs().items) == 1


def test_django_does_not_log_the_look(postgres_shop: Shop) -> None:
    """The first enqueue on a connection counts as many queries as the others."""
    with django_database(postgres_shop.url) as wrapper, transaction.atomic():
        counts = []
        for _ in range(2):
            with CaptureQueriesContext(wrapper) as captured:
                postgres_shop.enqueue(django_connection)
            counts.append(len(captured))
    assert counts == [1, 1]


def test_a_role_that_may_only_enqueue(postgres_shop: Shop) -> None:
    """The look asks for no right that the enqueue does not need."""
    with postgres_shop.connection() as owner:
        owner.execute("DROP ROLE IF EXISTS producer")
        owner.execute("CREATE ROLE producer")
        owner.execute("GRANT USAGE ON SCHEMA holdfast TO producer")
        owner.execute("GRANT SELECT, INSERT ON holdfast.job TO producer")
        owner.execute("GRANT SELECT ON holdfast.queue TO producer")
        with psycopg.connect(postgres_shop.url) as connection:
            connection.execute("SET ROLE producer")
            job = postgres_shop.enqueue(connection)
        assert postgres_shop.has(job)
        owner.execute("DROP OWNED BY producer")
        owner.execute("DROP ROLE producer")
