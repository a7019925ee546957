"""Saga: a trip is booked step by step; if a step is refused, those before it are undone in reverse order.

Needs `pip install holdfast sqlalchemy`. Run it with `python examples/saga.py`; DATABASE_URL may name another database
than a new SQLite file.
"""

import os
import tempfile
from collections.abc import Callable

from sqlalchemy import Connection, create_engine, text

from holdfast import App, Retry, SyncContext

URL = os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/trips.db"
app = App(URL, auto_migrate=True)
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))

Action = Callable[[Connection, str], None]


class Refused(Exception):
    """Will not work, however often it is tried; any other error is retried."""


def note(connection: Connection, trip: str, what: str) -> None:
    connection.execute(text("INSERT INTO ledger (trip, what) VALUES (:trip, :what)"), {"trip": trip, "what": what})


def charge_card(connection: Connection, trip: str) -> None:
    if trip == "moon":
        raise Refused("the card is not good for that much")
    note(connection, trip, "card charged")


def noted(what: str) -> Action:
    return lambda connection, trip: note(connection, trip, what)


# name, what is done, what undoes it
STEPS: list[tuple[str, Action, Action]] = [
    ("hotel", noted("hotel reserved"), noted("hotel cancelled")),
    ("flight", noted("flight reserved"), noted("flight cancelled")),
    ("card", charge_card, noted("card refunded")),
]


def refusal(action: Action, connection: Connection, trip: str) -> str | None:
    """Saved as the step's result: a later attempt must not find that what was refused works after all."""
    try:
        action(connection, trip)
    except Refused as error:
        return str(error)
    return None


@app.job(retry=Retry(max_attempts=10, initial=0.2))
def book_trip(ctx: SyncContext, trip: str) -> str:
    done: list[tuple[str, Action]] = []
    for name, action, undo in STEPS:
        # A step and its writes commit together. For a service elsewhere: ctx.step, with an idempotency key.
        with engine.begin() as connection:
            reason = ctx.step_tx(connection, name, refusal, action, connection, trip)
        if reason is not None:
            return compensate(ctx, trip, done, reason)
        done.append((name, undo))
    return "booked"


def compensate(ctx: SyncContext, trip: str, done: list[tuple[str, Action]], reason: str) -> str:
    for name, undo in reversed(done):
        with engine.begin() as connection:
            ctx.step_tx(connection, f"undo {name}", undo, connection, trip)
        if ctx.attempt == 1:
            raise ConnectionError("cut short in the middle; the next attempt goes on from here")
    return f"undone, because {reason}"


def main() -> None:
    with app.client() as client:
        client.migrate()
        number = "integer PRIMARY KEY" if URL.startswith("sqlite") else "serial PRIMARY KEY"
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE ledger (number {number}, trip text, what text)"))
        chains = client.enqueue_many([book_trip.call("rome"), book_trip.call("moon")])
        app.run_worker(until_idle=True)
        for chain, trip in zip(chains, ("rome", "moon"), strict=True):
            print(f"{trip}: {client.get_job(chain).output}")
    with engine.begin() as connection:
        for row in connection.execute(text("SELECT trip, what FROM ledger ORDER BY trip, number")):
            print(f"{row.trip}: {row.what}")


if __name__ == "__main__":
    main()
