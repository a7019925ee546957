"""Django's connections as sites really use them."""

from __future__ import annotations

import contextlib
import threading
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import cache
from django.db import DatabaseError, OperationalError, connection, connections, transaction
from django.db.backends.postgresql.base import DatabaseWrapper as PostgresWrapper
from django.db.transaction import TransactionManagementError
from django.http import HttpRequest, HttpResponse
from django.test import Client as Browser
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.urls import path

from holdfast.app import App
from holdfast.errors import AbortedTransaction, DatabaseBusy, NoTransaction, WrongConnection
from holdfast.operations.get_job import get_job
from tests.conformance.borrowed import django_site
from tests.conformance.borrowed.django_site import django_database
from tests.conformance.borrowed.shop import Shop


class OwnWrapper(PostgresWrapper):
    """As instrumented backends do it: their own class of the same name, derived from Django's."""


def write(body: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO note (body) VALUES (%s)", [body])


class DjangoCases:
    """What holds on both databases; a subclass says which. Sync functions: there is no event loop in their thread."""

    @pytest.fixture
    def django(self, shop: Shop) -> Iterator[Any]:
        with django_database(shop.url) as wrapper:
            yield wrapper

    @pytest.mark.parametrize("tx", ["connection", "wrapper", "alias", "cursor"])
    def test_outside_atomic_is_refused(self, shop: Shop, django: Any, tx: str) -> None:
        """Django commits each statement by itself there; the error names the fix, and the fix works."""
        objects = {"connection": connection, "wrapper": django, "alias": "default", "cursor": connection.cursor()}
        with pytest.raises(NoTransaction, match=r"'default'.*`with transaction\.atomic\(\):`, or set ATOMIC_REQUESTS"):
            shop.enqueue(objects[tx])
        with transaction.atomic():
            job = shop.enqueue(objects[tx])
            assert not shop.has(job)
        assert shop.has(job)

    def test_another_alias_is_named_in_the_fix(self, shop: Shop) -> None:
        with django_database(shop.url, "reports"):
            with pytest.raises(NoTransaction, match=r"`with transaction\.atomic\(using='reports'\):`"):
                shop.enqueue(connections["reports"])
            with transaction.atomic(using="reports"):
                job = shop.enqueue("reports")
        assert shop.has(job)

    def test_atomic_of_another_alias_is_none(self, shop: Shop, django: Any) -> None:
        """The block and the connection must be of one database."""
        with (
            django_database(shop.url, "reports"),
            transaction.atomic(using="reports"),
            pytest.raises(NoTransaction),
        ):
            shop.enqueue("default")

    def test_manual_transactions_are_refused(self, shop: Shop, django: Any) -> None:
        """With autocommit off Django does not know where a transaction ends, nor when to call back."""
        transaction.set_autocommit(False)
        try:
            with pytest.raises(NoTransaction):
                shop.enqueue(connection)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

    def test_nested_blocks(self, shop: Shop, django: Any) -> None:
        """An inner block that failed takes its jobs along, and only these."""
        with transaction.atomic():
            outer = shop.enqueue(connection)
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                inner = shop.enqueue(connection)
                write("inner")
                raise ZeroDivisionError
            with transaction.atomic():
                released = shop.enqueue(connection)
        assert [shop.has(job) for job in (outer, inner, released)] == [True, False, True]
        assert shop.notes() == []

    def test_an_exception_takes_the_job_along(self, shop: Shop, django: Any) -> None:
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            write("mine")
            lost = shop.enqueue("default")
            raise ZeroDivisionError
        assert not shop.has(lost)
        assert shop.notes() == []

    def test_a_failed_block_is_an_aborted_transaction(self, shop: Shop, django: Any) -> None:
        """Django's own error stays the first, and ours is caused by it."""
        with transaction.atomic():
            write("mine")
            with contextlib.suppress(DatabaseError), transaction.atomic(savepoint=False):
                write("mine")
            with pytest.raises(AbortedTransaction, match="roll it back first"):
                shop.enqueue(connection)
            with pytest.raises(TransactionManagementError):
                write("other")
        job_after = None
        with transaction.atomic():
            job_after = shop.enqueue(connection)
        assert shop.has(job_after)
        assert shop.notes() == []

    def test_the_hook_is_djangos_own(self, shop: Shop, django: Any) -> None:
        """Called once after the commit of the outermost block, when the job can be seen; not after a rollback."""
        calls: list[tuple[str, bool]] = []

        def listen(name: str) -> str:
            job = shop.enqueue(connection)
            assert shop.face.borrow(connection).on_commit(lambda: calls.append((name, shop.has(job)))) is True
            return job

        with transaction.atomic():
            listen("outer")
            with transaction.atomic():
                listen("inner")
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                listen("lost")
                raise ZeroDivisionError
            assert calls == []
        assert calls == [("outer", True), ("inner", True)]
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            listen("rolled back")
            raise ZeroDivisionError
        assert len(calls) == 2

    def test_a_failing_callback_is_logged(self, shop: Shop, django: Any, caplog: pytest.LogCaptureFixture) -> None:
        """The application's data is committed, and its other callbacks are called."""
        calls: list[str] = []
        with transaction.atomic():
            job = shop.enqueue(connection)
            shop.face.borrow(connection).on_commit(lambda: [0].remove(1))
            transaction.on_commit(lambda: calls.append("theirs"))
        assert calls == ["theirs"]
        assert shop.has(job)
        assert "Error calling" in caplog.text

    def test_an_enqueue_is_one_query(self, shop: Shop, django: Any) -> None:
        """Logs and counts of queries see the enqueue, first or not, and nothing of what we look at before."""
        with transaction.atomic():
            for _ in range(2):
                with CaptureQueriesContext(django) as captured:
                    shop.enqueue(connection)
                statements = [query["sql"] for query in captured.captured_queries]
                assert len([text for text in statements if "INSERT" in text]) == 1
                assert [text for text in statements if "identity" in text or "PRAGMA" in text] == []

    def test_wrappers_of_queries_see_the_enqueue(self, shop: Shop, django: Any) -> None:
        """A wrapper that lets nothing through lets ours not through either."""

        def block(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
            raise AssertionError(f"no query here: {' '.join(sql.split())}")

        with transaction.atomic():
            with connection.execute_wrapper(block), pytest.raises(AssertionError, match=r"no query here: .*holdfast"):
                shop.enqueue(connection)
            with pytest.raises(AbortedTransaction):
                shop.enqueue(connection)

    def test_another_thread_is_refused(self, shop: Shop, django: Any) -> None:
        """Its alias means the connection of the thread that asks."""
        errors: list[BaseException] = []

        def use() -> None:
            try:
                shop.enqueue(django)
            except WrongConnection as error:
                errors.append(error)
            try:
                shop.enqueue("default")
            except NoTransaction as error:
                errors.append(error)
            connections.close_all()

        with transaction.atomic():
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            job = shop.enqueue(django)
        assert "belongs to another thread; pass its alias, 'default'" in str(errors[0])
        assert isinstance(errors[1], NoTransaction)
        assert shop.has(job)

    def test_a_connection_closed_inside_the_block(self, shop: Shop, django: Any) -> None:
        """The transaction went with it."""
        with contextlib.suppress(DatabaseError), transaction.atomic():
            connection.close()
            with pytest.raises(AbortedTransaction):
                shop.enqueue(connection)

    def test_an_unknown_alias(self, shop: Shop, django: Any) -> None:
        """The error lists those that exist; a URL, which may hold a password, is not repeated."""
        with pytest.raises(WrongConnection, match="'defualt' is not an alias in Django's DATABASES; there are default"):
            shop.enqueue("defualt")
        with pytest.raises(WrongConnection, match="a URL or a name is not a connection") as caught:
            shop.enqueue("postgresql://me:secret@localhost/shop")
        assert "secret" not in str(caught.value)

    def test_what_is_no_connection(self, shop: Shop, django: Any) -> None:
        """What Django has besides, with a word on what to pass."""
        for tx, hint in (
            (transaction.atomic(), "not the atomic block"),
            (connections, "such as connections['default']"),
            (cache, "not for a database connection"),
        ):
            with pytest.raises(WrongConnection) as caught:
                shop.enqueue(tx)
            assert hint in str(caught.value)

    @pytest.mark.parametrize("tx", ["connection", "wrapper", "alias"])
    async def test_the_async_client_refuses(self, shop: Shop, tx: str) -> None:
        """Django has no asynchronous transactions; the way out that the error names works."""
        refused = pytest.raises(WrongConnection, match=r"`await sync_to_async\(function\)\(\)`")
        with django_database(shop.url) as wrapper, refused:
            await shop.aenqueue({"connection": connection, "wrapper": wrapper, "alias": "default"}[tx])

        def place_order() -> str:
            with django_database(shop.url), transaction.atomic():
                return shop.enqueue(connection)

        assert shop.has(await sync_to_async(place_order)())

    @pytest.mark.parametrize("is_good", [True, False])
    def test_atomic_requests(self, shop: Shop, is_good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """A view is one transaction: answered, it leaves order and job; failed, neither."""
        jobs: list[str] = []

        def order(request: HttpRequest) -> HttpResponse:
            write("order")
            jobs.append(shop.enqueue(connection))
            assert not shop.has(jobs[0])
            if not is_good:
                raise ZeroDivisionError
            return HttpResponse("thanks")

        monkeypatch.setattr(django_site, "urlpatterns", [path("order", order)])
        _forget_urls()
        with django_database(shop.url, ATOMIC_REQUESTS=True):
            answer = Browser(raise_request_exception=False).get("/order")
        _forget_urls()
        assert answer.status_code == (200 if is_good else 500)
        assert shop.has(jobs[0]) is is_good
        assert shop.notes() == (["order"] if is_good else [])

    def test_djangos_test_case(self, shop: Shop, django: Any) -> None:
        """Its transactions are never committed, and its callbacks run when the test says so."""
        seen: dict[str, Any] = {}

        class OrderTest(TestCase):
            def test_order(self) -> None:
                with self.captureOnCommitCallbacks(execute=True) as callbacks, transaction.atomic():
                    job = seen["job"] = shop.enqueue(connection)
                    shop.face.borrow(connection).on_commit(lambda: seen.setdefault("hint", True))
                    seen["found"] = shop.run(connection, lambda: get_job(job)).id
                seen["callbacks"] = len(callbacks)

        result = unittest.TestResult()
        unittest.TestSuite([OrderTest("test_order")]).run(result)
        assert result.wasSuccessful(), result.errors + result.failures
        assert seen["found"] == seen["job"]
        assert (seen["callbacks"], seen["hint"]) == (1, True)
        assert not shop.has(seen["job"])

    def test_through_the_client(self, shop: Shop, django: Any) -> None:
        """As an application does it, with the shorthand too."""
        app = App(shop.url)

        @app.job()
        def send_receipt(order_id: int) -> None: ...

        with contextlib.closing(app), app.client() as client:
            with transaction.atomic():
                first = client.enqueue(send_receipt.call(order_id=1), tx=connection)
                second = send_receipt.using(tx="default").enqueue(order_id=2)
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                third = client.enqueue(send_receipt.call(order_id=3), tx="default")
                raise ZeroDivisionError
            found = [client.find_job(chain.id) for chain in (first, second, third)]
        assert [job and job.input["order_id"] for job in found] == [1, 2, None]


def _forget_urls() -> None:
    from django.urls import clear_url_caches

    clear_url_caches()


class TestPostgres(DjangoCases):
    """On psycopg, and what only PostgreSQL has."""

    @pytest.fixture
    def shop(self, postgres_shop: Shop) -> Shop:
        return postgres_shop

    def test_a_block_inside_a_manual_transaction(self, shop: Shop, django: Any) -> None:
        """It commits nothing by itself, and Django's hook would wait for autocommit."""
        transaction.set_autocommit(False)
        try:
            with transaction.atomic():
                job = shop.enqueue(connection)
                assert shop.face.borrow(connection).on_commit(lambda: None) is False
            assert not shop.has(job)
            transaction.commit()
            assert shop.has(job)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

    def test_an_error_that_the_application_caught(self, shop: Shop, django: Any) -> None:
        """Without a block around it, the server takes no more statements, and Django does not know."""
        with transaction.atomic():
            write("mine")
            with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")
            with pytest.raises(AbortedTransaction):
                shop.enqueue(connection)
            transaction.set_rollback(True)
        assert shop.notes() == []

    def test_a_failed_enqueue_lets_django_roll_back(self, shop: Shop, django: Any) -> None:
        """Caught inside the block, it would otherwise look like a commit that changed nothing."""
        with shop.connection() as other:
            other.execute("ALTER TABLE holdfast.job RENAME COLUMN tenant TO lodger")
        with transaction.atomic():
            write("mine")
            with pytest.raises(DatabaseError, match="tenant"):
                shop.enqueue(connection)
            with pytest.raises(TransactionManagementError):
                write("other")
        assert shop.notes() == []

    @pytest.mark.parametrize(
        "options", [{"server_side_binding": True}, {"pool": True}, {"pool": {"min_size": 1, "max_size": 1}}]
    )
    def test_options_of_the_backend(self, shop: Shop, options: dict[str, Any]) -> None:
        """Binding on the server, and Django's own pool."""
        with django_database(shop.url, OPTIONS=options) as wrapper:
            with transaction.atomic():
                job = shop.enqueue(connection)
                assert shop.run(connection, lambda: get_job(job)).id == job
            wrapper.close()
            with transaction.atomic():
                again = shop.enqueue(connection)
            wrapper.close()
            wrapper.close_pool() if "pool" in options else None
        assert shop.has(job)
        assert shop.has(again)

    def test_without_time_zones(self, shop: Shop, settings_without_time_zones: None, django: Any) -> None:
        """USE_TZ=False: Django takes the zone off what it reads, but times of jobs keep theirs."""
        with transaction.atomic():
            job = shop.enqueue(connection)
            inside = shop.run(connection, lambda: get_job(job))
        assert inside == shop.face.run(lambda: get_job(job), read_only=True)
        assert inside.created_at.tzinfo is not None

    @pytest.fixture
    def settings_without_time_zones(self) -> Iterator[None]:
        from django.test import override_settings

        with override_settings(USE_TZ=False, TIME_ZONE="America/Chicago"):
            yield

    def test_a_backend_of_somebody_else(self, shop: Shop) -> None:
        """Recognised by what it derives from."""
        with django_database(shop.url) as wrapper:
            own = OwnWrapper(wrapper.settings_dict)
            connections["default"] = own
            with transaction.atomic():
                job = shop.enqueue(own)
            own.close()
        assert shop.has(job)

    def test_the_hint_waits_for_the_commit_and_is_none_of_it(self, shop: Shop, django: Any) -> None:
        """Through the client no NOTIFY is part of the application's transaction."""
        app = App(shop.url)

        @app.job()
        def send_receipt(order_id: int) -> None: ...

        with (
            contextlib.closing(app),
            app.client() as client,
            transaction.atomic(),
            CaptureQueriesContext(django) as captured,
        ):
            client.enqueue(send_receipt.call(order_id=1), tx=connection)
            assert len(django.run_on_commit) == 1
        assert "'holdfast'" not in captured.captured_queries[-1]["sql"]

    def test_another_database_is_refused(self, shop: Shop, tmp_path: Path) -> None:
        """SQLite on the app of a server."""
        with (
            django_database(f"sqlite:///{tmp_path / 'other.db'}"),
            transaction.atomic(),
            pytest.raises(WrongConnection, match="it leads to SQLite, but this app keeps its jobs in PostgreSQL"),
        ):
            shop.enqueue(connection)


class TestSqlite(DjangoCases):
    """On sqlite3, and the write lock."""

    @pytest.fixture
    def shop(self, sqlite_shop: Shop) -> Shop:
        return sqlite_shop

    @pytest.mark.parametrize("mode", [None, "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
    def test_transaction_modes(self, shop: Shop, mode: str | None) -> None:
        """However the block began, the job comes with it."""
        with django_database(shop.url, OPTIONS={"transaction_mode": mode}):
            with transaction.atomic():
                write("mine")
                job = shop.enqueue("default")
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                lost = shop.enqueue("default")
                raise ZeroDivisionError
        assert [shop.has(job), shop.has(lost)] == [True, False]

    def test_a_lock_is_waited_for_as_the_site_set_it(self, shop: Shop) -> None:
        """The site's timeout applies, and after it the block can go on: nothing was written."""
        with django_database(shop.url, OPTIONS={"timeout": 0}), transaction.atomic():
            with shop.connection() as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(DatabaseBusy, match="a longer timeout") as caught:
                    shop.enqueue(connection)
                assert isinstance(caught.value.__cause__, OperationalError)
                other.execute("ROLLBACK")
            job = shop.enqueue(connection)
        assert shop.has(job)

    def test_a_transaction_that_sqlite_rolled_back(self, shop: Shop, django: Any) -> None:
        """Django goes on as if in a transaction; the job would be committed by itself."""
        with contextlib.suppress(DatabaseError), transaction.atomic():
            write("mine")
            with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("INSERT OR ROLLBACK INTO note (body) VALUES ('mine')")
            with pytest.raises(AbortedTransaction):
                shop.enqueue(connection)

    def test_another_file_is_refused(self, shop: Shop, tmp_path: Path) -> None:
        """Naming both; the block goes on."""
        with django_database(f"sqlite:///{tmp_path / 'other.db'}"), transaction.atomic():
            with pytest.raises(WrongConnection, match=r"other\.db .*holdfast\.db"):
                shop.enqueue(connection)
            with connection.cursor() as cursor:
                cursor.execute("CREATE TABLE mine (body text)")

    def test_a_server_is_refused(self, shop: Shop) -> None:
        """Before it is connected to."""
        with (
            django_database("postgresql://nobody@nowhere.invalid/shop"),
            pytest.raises(WrongConnection, match="it leads to PostgreSQL, but this app keeps its jobs in SQLite"),
        ):
            shop.enqueue(connection)

    def test_the_users_factories_stay(self, shop: Shop, django: Any) -> None:
        """Set by a signal when the connection was made."""
        django.ensure_connection()
        django.connection.text_factory = bytes
        with transaction.atomic():
            job = shop.enqueue(connection)
            assert shop.run(connection, lambda: get_job(job)).id == job
            assert django.connection.text_factory is bytes
        assert shop.has(job)


def test_psycopg2_is_refused(postgres_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django takes it where psycopg is missing; only its name is looked at."""

    class Psycopg2:
        __name__ = "psycopg2"

    with django_database(postgres_shop.url) as wrapper:
        monkeypatch.setattr(wrapper, "Database", Psycopg2())
        with pytest.raises(WrongConnection, match=r"psycopg2 .* install psycopg \(version 3\)"):
            postgres_shop.enqueue(wrapper)
