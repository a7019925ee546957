"""sqlite3 and aiosqlite connections as users really set them up."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
from pathlib import Path
from typing import Any

import aiosqlite
import pysqlite3  # type: ignore[import-untyped]  # it ships no types
import pytest

from holdfast.errors import DatabaseBusy, NoTransaction, WrongConnection
from tests.conformance.borrowed.shop import Shop


class OwnConnection(sqlite3.Connection):
    """A user's subclass that has its own idea of execute."""

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the user's execute is the user's")

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the user's cursor is the user's")


def _own_text(data: bytes) -> Any:
    return ("own", data)


def test_autocommit_outside_a_transaction_is_refused(sqlite_shop: Shop) -> None:
    """The error names the fix, and the fix works."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path, isolation_level=None)) as connection:
        for tx in (connection, connection.cursor()):
            with pytest.raises(NoTransaction, match=r'isolation_level=None .* execute "BEGIN IMMEDIATE"'):
                sqlite_shop.enqueue(tx)
        connection.execute("BEGIN IMMEDIATE")
        job = sqlite_shop.enqueue(connection)
        assert not sqlite_shop.has(job)
        connection.execute("COMMIT")
        assert sqlite_shop.has(job)


async def test_aiosqlite_autocommit_outside_a_transaction_is_refused(sqlite_shop: Shop) -> None:
    """As above, awaited."""
    async with aiosqlite.connect(sqlite_shop.path, isolation_level=None) as connection:
        with pytest.raises(NoTransaction, match=r'isolation_level=None .* execute "BEGIN IMMEDIATE"'):
            await sqlite_shop.aenqueue(connection)
        await connection.execute("BEGIN")
        job = await sqlite_shop.aenqueue(connection)
        await connection.execute("COMMIT")
    assert sqlite_shop.has(job)


@pytest.mark.parametrize("level", ["DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_the_users_isolation_level_stays(sqlite_shop: Shop, level: Any) -> None:
    """Whatever sqlite3 would begin by itself, the enqueue takes the write lock at once."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path, isolation_level=level)) as connection:
        job = sqlite_shop.enqueue(connection)
        assert connection.isolation_level == level
        connection.commit()
    assert sqlite_shop.has(job)


@pytest.mark.parametrize("row_factory", [sqlite3.Row, lambda cursor, row: dict(enumerate(row))])
@pytest.mark.parametrize("text_factory", [bytes, _own_text])
def test_the_users_factories_stay(sqlite_shop: Shop, row_factory: Any, text_factory: Any) -> None:
    """Ours are tuples of text, the user's remain what they were."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path)) as connection:
        connection.row_factory = row_factory
        connection.text_factory = text_factory
        job = sqlite_shop.enqueue(connection)
        sqlite_shop.enqueue(connection, job)
        assert list(sqlite_shop.existing) == [job]
        assert (connection.row_factory, connection.text_factory) == (row_factory, text_factory)
        connection.commit()
    assert sqlite_shop.has(job)


async def test_the_users_factories_stay_in_aiosqlite(sqlite_shop: Shop) -> None:
    """As above, awaited."""
    async with aiosqlite.connect(sqlite_shop.path) as connection:
        connection.row_factory = aiosqlite.Row
        connection.text_factory = bytes
        job = await sqlite_shop.aenqueue(connection)
        await sqlite_shop.aenqueue(connection, job)
        assert list(sqlite_shop.existing) == [job]
        assert (connection.row_factory, connection.text_factory) == (aiosqlite.Row, bytes)
        await connection.commit()
    assert sqlite_shop.has(job)


def test_factories_are_put_back_after_an_error(sqlite_shop: Shop) -> None:
    """Also when the statement fails."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path)) as connection:
        connection.text_factory = bytes
        connection.execute("ALTER TABLE holdfast_job RENAME COLUMN tenant TO lodger")
        with pytest.raises(sqlite3.OperationalError, match="tenant"):
            sqlite_shop.enqueue(connection)
        assert connection.text_factory is bytes
        connection.rollback()


def test_subclasses_are_recognised_and_their_methods_left_alone(sqlite_shop: Shop) -> None:
    """Recognised by what they derive from."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path, factory=OwnConnection)) as connection:
        job = sqlite_shop.enqueue(connection)
        connection.commit()
    assert sqlite_shop.has(job)


def test_a_half_read_cursor_survives(sqlite_shop: Shop) -> None:
    """The cursor that is passed goes on where it was."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path)) as connection:
        connection.executemany("INSERT INTO note VALUES (?)", [("a",), ("b",), ("c",)])
        connection.commit()
        cursor = connection.execute("SELECT body FROM note ORDER BY body")
        assert cursor.fetchone() == ("a",)
        sqlite_shop.enqueue(cursor)
        assert cursor.fetchall() == [("b",), ("c",)]
        connection.commit()


def test_a_lock_is_waited_for_as_the_user_set_it(sqlite_shop: Shop) -> None:
    """The user's timeout applies; the connection can try again."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path, timeout=0)) as connection:
        with sqlite_shop.connection() as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseBusy, match="a longer timeout") as caught:
                sqlite_shop.enqueue(connection)
            assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
            assert not connection.in_transaction
            other.execute("ROLLBACK")
        job = sqlite_shop.enqueue(connection)
        connection.commit()
    assert sqlite_shop.has(job)


def test_another_file_is_refused_naming_both(sqlite_shop: Shop, tmp_path: Path) -> None:
    """The job would land where no worker looks."""
    other = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(other)) as connection:
        with pytest.raises(WrongConnection, match=r"other\.db .*holdfast\.db"):
            sqlite_shop.enqueue(connection)
        assert not connection.in_transaction


async def test_another_file_is_refused_by_aiosqlite_too(sqlite_shop: Shop, tmp_path: Path) -> None:
    """As above, awaited; and memory is no file at all."""
    async with aiosqlite.connect(tmp_path / "other.db") as connection:
        with pytest.raises(WrongConnection, match=r"other\.db .*holdfast\.db"):
            await sqlite_shop.aenqueue(connection)
    async with aiosqlite.connect(":memory:") as connection:
        with pytest.raises(WrongConnection, match="in memory"):
            await sqlite_shop.aenqueue(connection)


@pytest.mark.parametrize("name", [":memory:", ""])
def test_a_database_in_memory_is_refused(sqlite_shop: Shop, name: str) -> None:
    """Also the unnamed temporary one."""
    with (
        contextlib.closing(sqlite3.connect(name)) as connection,
        pytest.raises(WrongConnection, match="a database in memory"),
    ):
        sqlite_shop.enqueue(connection)


def test_the_same_file_by_another_name(sqlite_shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, a relative path and a URI lead to the same file; an attached database changes nothing."""
    link = tmp_path / "link.db"
    link.symlink_to(sqlite_shop.path)
    monkeypatch.chdir(tmp_path)
    for name in (str(link), "holdfast.db", f"file:{sqlite_shop.path}?mode=rw"):
        with contextlib.closing(sqlite3.connect(name, uri=name.startswith("file:"))) as connection:
            connection.execute("ATTACH ':memory:' AS another")
            job = sqlite_shop.enqueue(connection)
            connection.commit()
        assert sqlite_shop.has(job)


def test_another_sqlite_library_is_refused(sqlite_shop: Shop) -> None:
    """Never two SQLite libraries on one file in one process."""
    with contextlib.closing(pysqlite3.connect(":memory:")) as connection:
        for tx in (connection, connection.cursor()):
            with pytest.raises(WrongConnection, match="pysqlite3 but Holdfast uses sqlite3"):
                sqlite_shop.enqueue(tx)


def test_closed_connections_are_refused(sqlite_shop: Shop) -> None:
    """Also when only its cursor is passed."""
    connection = sqlite3.connect(sqlite_shop.path)
    cursor = connection.cursor()
    connection.close()
    for tx in (connection, cursor):
        with pytest.raises(WrongConnection, match="closed"):
            sqlite_shop.enqueue(tx)


async def test_aiosqlite_not_open_or_closed_is_refused(sqlite_shop: Shop) -> None:
    """Forgotten `await`, or too late."""
    connection = aiosqlite.connect(sqlite_shop.path)
    with pytest.raises(WrongConnection, match="not open yet"):
        await sqlite_shop.aenqueue(connection)
    async with connection:
        pass
    with pytest.raises(WrongConnection, match="closed"):
        await sqlite_shop.aenqueue(connection)


async def test_another_thread_is_refused(sqlite_shop: Shop) -> None:
    """Unless the user allowed it; the connection is left as it was, and works where it belongs."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path)) as connection:
        with pytest.raises(WrongConnection, match="belongs to another thread"):
            await asyncio.to_thread(sqlite_shop.enqueue, connection)
        assert not connection.in_transaction
    with contextlib.closing(sqlite3.connect(sqlite_shop.path, check_same_thread=False)) as connection:
        job = await asyncio.to_thread(sqlite_shop.enqueue, connection)
        connection.commit()
    assert sqlite_shop.has(job)


def test_a_plain_begin_gets_the_write_lock(sqlite_shop: Shop) -> None:
    """Begun by hand without IMMEDIATE, the transaction waits for the lock as long as the user's timeout says."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path, isolation_level=None, timeout=0)) as connection:
        connection.execute("BEGIN")
        sqlite_shop.face.borrow(connection)
        with sqlite_shop.connection() as other, pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def test_a_snapshot_that_is_too_old(sqlite_shop: Shop) -> None:
    """Read before somebody else wrote, it cannot become a writing one; nothing of ours was written."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path, isolation_level=None, timeout=0)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM note").fetchone()
        with sqlite_shop.connection() as other:
            other.execute("INSERT INTO note VALUES ('other')")
        with pytest.raises(DatabaseBusy, match="repeat it, beginning with BEGIN IMMEDIATE"):
            sqlite_shop.enqueue(connection)
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        job = sqlite_shop.enqueue(connection)
        connection.execute("COMMIT")
    assert sqlite_shop.has(job)


@pytest.mark.parametrize("setting", ["ON", "OFF"])
def test_the_users_foreign_keys_do_not_matter(sqlite_shop: Shop, setting: str) -> None:
    """No write of ours rests on them, and the user's setting stays."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path)) as connection:
        connection.execute(f"PRAGMA foreign_keys = {setting}")
        job = sqlite_shop.enqueue(connection)
        connection.commit()
        assert connection.execute("PRAGMA foreign_keys").fetchone() == (setting == "ON",)
    assert sqlite_shop.has(job)


if sys.version_info >= (3, 12):

    def test_autocommit_true_is_refused(sqlite_shop: Shop) -> None:
        """SQLite's own mode: transactions are those begun by hand."""
        with contextlib.closing(sqlite3.connect(sqlite_shop.path, autocommit=True)) as connection:
            with pytest.raises(NoTransaction, match=r'autocommit=True .* execute "BEGIN IMMEDIATE"'):
                sqlite_shop.enqueue(connection)
            connection.execute("BEGIN")
            job = sqlite_shop.enqueue(connection)
            assert not sqlite_shop.has(job)
            connection.execute("COMMIT")
        assert sqlite_shop.has(job)

    @pytest.mark.parametrize("isolation_level", [None, "DEFERRED", "IMMEDIATE"])
    def test_autocommit_false(sqlite_shop: Shop, isolation_level: Any) -> None:
        """There is always a transaction; isolation_level means nothing then."""
        with contextlib.closing(
            sqlite3.connect(sqlite_shop.path, autocommit=False, isolation_level=isolation_level)
        ) as connection:
            lost = sqlite_shop.enqueue(connection)
            connection.rollback()
            job = sqlite_shop.enqueue(connection)
            assert not sqlite_shop.has(job)
            connection.commit()
            assert (connection.autocommit, connection.isolation_level) == (False, isolation_level)
        assert [sqlite_shop.has(lost), sqlite_shop.has(job)] == [False, True]

    async def test_autocommit_in_aiosqlite(sqlite_shop: Shop) -> None:
        """The same two, awaited."""
        async with aiosqlite.connect(sqlite_shop.path, autocommit=True) as connection:
            with pytest.raises(NoTransaction, match="autocommit=True"):
                await sqlite_shop.aenqueue(connection)
        async with aiosqlite.connect(sqlite_shop.path, autocommit=False) as connection:
            job = await sqlite_shop.aenqueue(connection)
            await connection.commit()
        assert sqlite_shop.has(job)


async def test_tasks_that_share_an_aiosqlite_connection_do_not_cut_a_verb_in_two(sqlite_shop: Shop) -> None:
    """The parts of a script run in one go in the connection's thread."""
    async with aiosqlite.connect(sqlite_shop.path) as connection:
        jobs = await asyncio.gather(*(sqlite_shop.aenqueue(connection) for _ in range(20)))
        await connection.commit()
    assert all(sqlite_shop.has(job) for job in jobs)


async def test_sqlite_has_no_hook_after_the_commit(sqlite_shop: Shop) -> None:
    """Workers of other processes watch the file."""
    with contextlib.closing(sqlite3.connect(sqlite_shop.path)) as connection:
        assert sqlite_shop.face.borrow(connection).on_commit(lambda: None) is False
        connection.rollback()
