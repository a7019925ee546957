"""Inbox: messages that come several times, and attempts that are repeated, are applied once.

Needs `pip install holdfast sqlalchemy`. Run it with `python examples/inbox.py`; DATABASE_URL may name another database
than a new SQLite file.
"""

import os
import tempfile

from sqlalchemy import create_engine, text

from holdfast import App, Retry, SyncContext

URL = os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/bank.db"
app = App(URL, auto_migrate=True)
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))


@app.job(retry=Retry(max_attempts=5, initial=0.2))
def receive(ctx: SyncContext, message_id: str, account: str, amount: int) -> None:
    with engine.begin() as connection:
        # True for one transaction among those that commit: a rollback gives the message back.
        if ctx.once(message_id, tx=connection):
            connection.execute(
                text("UPDATE account SET balance = balance + :amount WHERE name = :name"),
                {"amount": amount, "name": account},
            )
            print(f"{message_id}: applied")
        else:
            print(f"{message_id}: seen before")
    if message_id == "transfer-2" and ctx.attempt == 1:
        raise ConnectionError("the message was applied, but the sender could not be told")


def main() -> None:
    with app.client() as client:
        client.migrate()
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE account (name text PRIMARY KEY, balance integer NOT NULL)"))
            connection.execute(text("INSERT INTO account (name, balance) VALUES ('ada', 0)"))
        deliveries = [("transfer-1", 10), ("transfer-2", 5), ("transfer-1", 10), ("transfer-3", 1), ("transfer-1", 10)]
        client.enqueue_many([receive.call(message_id, "ada", amount) for message_id, amount in deliveries])
    app.run_worker(until_idle=True)
    with engine.begin() as connection:
        balance = connection.execute(text("SELECT balance FROM account WHERE name = 'ada'")).scalar_one()
    print(f"balance of ada: {balance}")


if __name__ == "__main__":
    main()
