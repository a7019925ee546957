"""`enqueue_row`: a job for every row that changes, in the transaction that changes it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from holdfast.testing import drain
from tests.conformance.sql_surface.conftest import Surface


@pytest.fixture
def orders(surface: Surface) -> Iterator[Surface]:
    """A table of the application, which a producer may write to."""
    surface.sql('CREATE TABLE public.orders (id integer, number integer, text text, "it\'s=odd" text)')
    surface.sql('GRANT INSERT, UPDATE, DELETE, SELECT ON public.orders TO "{s}_producer"')
    yield surface
    surface.sql("DROP TABLE public.orders")


def trigger(surface: Surface, arguments: str, when: str = "AFTER INSERT", level: str = "ROW") -> None:
    surface.sql(
        f"CREATE TRIGGER orders_job {when} ON public.orders FOR EACH {level} "
        f"EXECUTE FUNCTION {{s}}.enqueue_row({arguments})"
    )


def inputs(surface: Surface) -> list[object]:
    return [row[0] for row in surface.sql("SELECT input FROM {s}.job ORDER BY seq")]


NASTY = """it's "quoted", \\ $body$ %s :now'); DROP TABLE orders; --"""


@pytest.mark.parametrize(
    ("arguments", "payload"),
    [
        ("'note', 'row'", {"id": 1, "number": None, "text": NASTY, "it's=odd": None}),
        ("'note', 'id'", {"id": 1}),
        ("'note', 'columns', 'number', 'text'", {"number": None, "text": NASTY}),
        ("'note', 'columns', 'number=id', 'text'", {"number": 1, "text": NASTY}),
        ("'note', 'columns', 'it''s=odd'", {"it's=odd": None}),
        ("'note', 'columns', 'text=it''s=odd'", {"text": None}),
    ],
)
def test_payloads(orders: Surface, arguments: str, payload: object) -> None:
    """The row, its id, or chosen columns under their own or other names; quotes and NULLs in data are data."""
    trigger(orders, arguments)
    orders.sql("INSERT INTO public.orders (id, text) VALUES (1, %s)", NASTY, role="producer")
    assert inputs(orders) == [payload]


def test_a_python_worker_runs_them(orders: Surface) -> None:
    """One job per row, whatever the statement; nothing but the producer's role is needed."""
    trigger(orders, "'note', 'columns', 'number', 'text'")
    orders.sql(
        "INSERT INTO public.orders (number, text) SELECT n, 'row ' || n FROM generate_series(1, 5) AS n",
        role="producer",
    )
    drain(orders.app)
    assert sorted(call["text"] for call in orders.calls) == [f"row {n}" for n in range(1, 6)]


def test_rolled_back_with_its_row(orders: Surface) -> None:
    trigger(orders, "'note', 'id'")
    with orders.connect("producer", autocommit=False) as connection:
        connection.execute("INSERT INTO public.orders (id) VALUES (1)")
        connection.rollback()
        connection.execute("INSERT INTO public.orders (id) VALUES (2)")
        connection.commit()
    assert inputs(orders) == [{"id": 2}]


@pytest.mark.parametrize("moment", ["BEFORE", "AFTER"])
def test_update_and_delete(orders: Surface, moment: str) -> None:
    """An update gives the new row, a deletion the old one; before the change too, which then happens all the same."""
    trigger(orders, "'note', 'columns', 'id', 'number'", f"{moment} UPDATE OR DELETE")
    orders.sql("INSERT INTO public.orders (id, number) VALUES (1, 1)")
    orders.sql("UPDATE public.orders SET number = 2", role="producer")
    orders.sql("DELETE FROM public.orders", role="producer")
    assert inputs(orders) == [{"id": 1, "number": 2}, {"id": 1, "number": 2}]
    assert orders.one("SELECT count(*) FROM public.orders") == 0


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ("", "HF006"),
        ("'note'", "HF006"),
        ("'note', 'everything'", "HF006"),
        ("'note', 'id', 'number'", "HF006"),
        ("'note', 'columns'", "HF006"),
        ("'note', 'columns', 'colour'", "HF006"),
        ("'note', 'columns', 'a=colour'", "HF006"),
        ("'nope', 'id'", "HF001"),
        ("'note''); DROP TABLE orders; --', 'id'", "HF001"),
    ],
)
def test_wrong_triggers(orders: Surface, arguments: str, sqlstate: str) -> None:
    """The change that fires it is refused as a whole."""
    trigger(orders, arguments)
    assert orders.refusal("INSERT INTO public.orders (id) VALUES (1)") == sqlstate
    assert orders.one("SELECT count(*) FROM public.orders") == 0


def test_for_each_row_only(orders: Surface) -> None:
    trigger(orders, "'note', 'id'", level="STATEMENT")
    assert orders.refusal("INSERT INTO public.orders (id) VALUES (1)") == "HF006"


def test_needs_the_role(orders: Surface) -> None:
    """Who may write to the table but not enqueue cannot do so by the trigger."""
    trigger(orders, "'note', 'id'")
    orders.sql('GRANT INSERT ON public.orders TO "{s}_reader"')
    assert orders.refusal("INSERT INTO public.orders (id) VALUES (1)", role="reader") == "42501"
    assert inputs(orders) == []


def test_a_users_cast_runs_with_the_users_rights(orders: Surface) -> None:
    """A type may bring its own conversion to JSON: it must not become a way to the owner's rights."""
    orders.sql('CREATE SCHEMA evil AUTHORIZATION "{s}_a_producer"')
    try:
        with orders.connect("producer") as connection:
            connection.execute("CREATE TYPE evil.box AS (content text)")
            connection.execute("CREATE TABLE evil.seen (who text)")
            connection.execute("GRANT ALL ON SCHEMA evil TO PUBLIC; GRANT ALL ON evil.seen TO PUBLIC")
            connection.execute(
                """CREATE FUNCTION evil.leak(evil.box) RETURNS json LANGUAGE plpgsql AS
                   'BEGIN INSERT INTO evil.seen VALUES (current_user); RETURN to_json(current_user); END'"""
            )
            connection.execute("CREATE CAST (evil.box AS json) WITH FUNCTION evil.leak(evil.box)")
            connection.execute("CREATE TABLE evil.bait (id integer, box evil.box)")
            connection.execute(
                orders.text(
                    "CREATE TRIGGER bait AFTER INSERT ON evil.bait FOR EACH ROW "
                    "EXECUTE FUNCTION {s}.enqueue_row('note', 'row')"
                )
            )
            connection.execute("INSERT INTO evil.bait VALUES (1, ROW('x'))")
        assert {who for (who,) in orders.sql("SELECT who FROM evil.seen")} <= {f"{orders.schema}_a_producer"}
        assert orders.one("SELECT count(*) FROM {s}.job") == 1
    finally:
        with orders.connect() as connection, connection.transaction():
            connection.execute("DROP SCHEMA evil CASCADE")


def test_a_failed_enqueue_keeps_the_users_error_first(orders: Surface) -> None:
    """The transaction is aborted by the trigger's error and says so."""
    trigger(orders, "'nope', 'id'")
    with orders.connect("producer", autocommit=False) as connection:
        with pytest.raises(psycopg.Error, match="'nope'"):
            connection.execute("INSERT INTO public.orders (id) VALUES (1)")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
