"""Transactional outbox: order events reach NATS if and only if the order's row was committed, in order for each order.

Needs `pip install 'holdfast[nats]' sqlalchemy` and a broker with streams: `nats-server --jetstream`, found by NATS_URL.
Run it with `python examples/outbox.py`; DATABASE_URL may name another database than a new SQLite file.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
from nats.js import JetStreamContext
from sqlalchemy import Connection, create_engine, text

from holdfast import App, Client, Context, Retry

URL = os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/shop.db"
NATS_URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))


@asynccontextmanager
async def broker(_app: App) -> AsyncIterator[JetStreamContext]:
    """One connection for all jobs of a worker; the relay finds it as `ctx.state`."""
    connection = await nats.connect(NATS_URL)
    stream = connection.jetstream()
    await stream.add_stream(name="orders", subjects=["orders.>"])
    try:
        yield stream
    finally:
        await connection.close()


app = App(URL, auto_migrate=True, lifespan=broker)


# The partition key keeps the events of one order in order: while one is retried, those behind it wait.
@app.job(
    partition_key=lambda order_id, event: f"order:{order_id}",
    retry=Retry(max_attempts=20, initial=0.2, maximum=60),
)
async def relay(ctx: Context, order_id: int, event: str) -> None:
    # The broker drops what it has seen under this id, so that a repeated attempt does not publish twice.
    once = {"Nats-Msg-Id": ctx.job.id}
    await ctx.state.publish(f"orders.{order_id}", event.encode(), headers=once)
    if event == "paid" and ctx.attempt == 1:
        raise ConnectionError("published, but the answer of the broker was lost")


def change_order(client: Client, connection: Connection, order_id: int, state: str) -> None:
    """The application's own write, and the event that tells of it, in the caller's transaction."""
    connection.execute(
        text("INSERT INTO orders (id, state) VALUES (:id, :state) ON CONFLICT (id) DO UPDATE SET state = :state"),
        {"id": order_id, "state": state},
    )
    client.enqueue(relay.call(order_id, state), tx=connection)


async def published() -> list[tuple[str | None, str]]:
    """What the stream holds, in its order."""
    async with broker(app) as stream:
        last = (await stream.stream_info("orders")).state.last_seq
        messages = [await stream.get_msg("orders", number) for number in range(1, last + 1)]
        return [(message.subject, (message.data or b"").decode()) for message in messages]


def main() -> None:
    with app.client() as client:
        client.migrate()
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (id integer PRIMARY KEY, state text)"))
        for state in ("placed", "paid", "shipped"):
            for order_id in (1, 2):
                with engine.begin() as connection:
                    change_order(client, connection, order_id, state)
        with engine.connect() as connection:
            change_order(client, connection, 3, "placed")
            connection.rollback()  # neither the order nor its event has happened
    app.run_worker(until_idle=True)
    for subject, event in asyncio.run(published()):
        print(f"{subject}: {event}")


if __name__ == "__main__":
    main()
