"""What becomes of prepared statements: when the tables change, when somebody discards them, and when there are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from holdfast.operations.statement import Rows
from holdfast.stores.prepared import PreparedStatements
from tests.conformance.backdoors import PostgresBackdoor

Connection = psycopg.Connection[Any]


@pytest.fixture
def connection(postgres_database: tuple[str, PostgresBackdoor]) -> Iterator[Connection]:
    with psycopg.connect(postgres_database[0], autocommit=True, prepare_threshold=None) as opened:
        opened.execute("CREATE TEMP TABLE stock (item text UNIQUE DEFERRABLE INITIALLY DEFERRED, count integer)")
        opened.execute("INSERT INTO stock VALUES ('apple', 1)")
        yield opened


@pytest.fixture
def prepared(connection: Connection) -> PreparedStatements:
    return PreparedStatements(connection)


def run(connection: Connection, prepared: PreparedStatements, text: str, values: Sequence[object] = ()) -> Rows:
    return connection.wait(prepared.run(text.encode(), values))


def known(connection: Connection) -> int:
    row = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert row is not None
    return int(row[0])


def test_a_table_that_has_changed(connection: Connection, prepared: PreparedStatements) -> None:
    """The statement is made anew, and the server forgets the old one."""
    assert list(run(connection, prepared, "SELECT * FROM stock")) == [("apple", 1)]
    for number in range(3):
        connection.execute(f"ALTER TABLE stock ADD COLUMN more_{number} integer".encode())
        (row,) = run(connection, prepared, "SELECT * FROM stock")
        assert len(row) == 3 + number
    assert known(connection) == 1


def test_a_table_that_has_changed_before_a_transaction(connection: Connection, prepared: PreparedStatements) -> None:
    """There it fails, as everything behind it would; whoever begins again has a new one."""
    run(connection, prepared, "SELECT * FROM stock")
    connection.execute("ALTER TABLE stock ADD COLUMN more integer")
    connection.execute("BEGIN")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        run(connection, prepared, "SELECT * FROM stock")
    connection.execute("ROLLBACK")
    assert list(run(connection, prepared, "SELECT * FROM stock")) == [("apple", 1, None)]
    assert known(connection) == 1


def test_statements_that_somebody_has_discarded(connection: Connection, prepared: PreparedStatements) -> None:
    run(connection, prepared, "SELECT * FROM stock")
    connection.execute("DEALLOCATE ALL")
    assert list(run(connection, prepared, "SELECT * FROM stock")) == [("apple", 1)]


def test_a_commit_that_fails(connection: Connection, prepared: PreparedStatements) -> None:
    """Its rows are there before the constraint is looked at."""
    with pytest.raises(psycopg.errors.UniqueViolation):
        run(connection, prepared, "INSERT INTO stock VALUES ('apple', 2) RETURNING count")
    assert list(run(connection, prepared, "SELECT count FROM stock")) == [(1,)]


def test_no_more_than_a_hundred_are_kept(connection: Connection, prepared: PreparedStatements) -> None:
    """Those that were used last."""
    for number in range(150):
        assert list(run(connection, prepared, f"SELECT {number}")) == [(number,)]
    assert known(connection) == 100
    assert list(run(connection, prepared, "SELECT 149")) == [(149,)]
    assert list(run(connection, prepared, "SELECT 0")) == [(0,)]
    assert known(connection) == 100


def test_what_cannot_be_prepared(connection: Connection, prepared: PreparedStatements) -> None:
    """The server's error, even where it is one that may mean a statement that is out of date."""
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        run(connection, prepared, "SELECT count(*) FROM stock FOR UPDATE")
    assert list(run(connection, prepared, "SELECT 1")) == [(1,)]


@pytest.mark.parametrize("value", [None, "", "ä", "'; --", True, False, 0, -(2**63), 2**63 - 1])
def test_values(connection: Connection, prepared: PreparedStatements, value: object) -> None:
    """As the server casts them, which our statements always ask for."""
    kind = {str: "text", bool: "boolean", int: "bigint", type(None): "text"}[type(value)]
    assert list(run(connection, prepared, f"SELECT CAST($1 AS {kind})", [value])) == [(value,)]


@pytest.mark.parametrize(
    ("value", "error"), [("a\0b", psycopg.DataError), (1.5, psycopg.ProgrammingError), (b"", psycopg.ProgrammingError)]
)
def test_values_that_are_refused(
    connection: Connection, prepared: PreparedStatements, value: object, error: type[psycopg.Error]
) -> None:
    """Before anything is sent."""
    with pytest.raises(error):
        run(connection, prepared, "SELECT CAST($1 AS text)", [value])
    assert list(run(connection, prepared, "SELECT 1")) == [(1,)]
