"""Projection: a table that is computed from the events of each account, in their order, and can be rebuilt from them.

Needs `pip install holdfast sqlalchemy`. Run it with `python examples/projection.py`; DATABASE_URL may name another
database than a new SQLite file.
"""

import os
import tempfile

from sqlalchemy import Connection, create_engine, text

from holdfast import App, Client, SyncContext

URL = os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/bank.db"
app = App(URL, auto_migrate=True)
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))

# Versions count per account, so none can appear behind one that was applied already, as a sequence's numbers can.
EVENTS = "CREATE TABLE event (account text, version integer, amount integer NOT NULL, PRIMARY KEY (account, version))"
BALANCES = "CREATE TABLE balance (account text PRIMARY KEY, version integer, balance integer, lowest integer)"


def append(client: Client, connection: Connection, account: str, amount: int) -> None:
    """An event, and the job that projects it, in the caller's transaction."""
    connection.execute(
        text(
            "INSERT INTO event (account, version, amount) "
            "SELECT :account, coalesce(max(version), 0) + 1, :amount FROM event WHERE account = :account"
        ),
        {"account": account, "amount": amount},
    )
    client.enqueue(project.call(account), tx=connection)


# One job of an account at a time, a rebuild too; accounts run side by side.
@app.job(partition_key=lambda account, from_scratch: f"account:{account}")
def project(ctx: SyncContext, account: str, from_scratch: bool = False) -> None:
    with engine.begin() as connection:
        if from_scratch:
            connection.execute(text("DELETE FROM balance WHERE account = :account"), {"account": account})
        row = connection.execute(
            text("SELECT version, balance, lowest FROM balance WHERE account = :account"), {"account": account}
        ).one_or_none()
        version, balance, lowest = row or (0, 0, 0)
        for event in connection.execute(
            text("SELECT version, amount FROM event WHERE account = :account AND version > :version ORDER BY version"),
            {"account": account, "version": version},
        ):
            version = event.version
            balance += event.amount
            lowest = min(lowest, balance)
        connection.execute(
            text(
                "INSERT INTO balance (account, version, balance, lowest) VALUES (:account, :version, :balance, :lowest)"
                " ON CONFLICT (account) DO UPDATE SET version = :version, balance = :balance, lowest = :lowest"
            ),
            {"account": account, "version": version, "balance": balance, "lowest": lowest},
        )
        # A worker that was taken for dead and comes back cannot commit: the job is not its own any more.
        ctx.complete(tx=connection)


def rebuild(client: Client) -> None:
    """Have every account computed anew, behind what is under way for it; events may keep coming."""
    with engine.begin() as connection:
        accounts = connection.execute(text("SELECT DISTINCT account FROM event")).scalars().all()
        client.enqueue_many([project.call(account, from_scratch=True) for account in accounts], tx=connection)


def show(title: str) -> None:
    with engine.begin() as connection:
        for row in connection.execute(text("SELECT account, version, balance, lowest FROM balance ORDER BY account")):
            print(f"{title}: {row.account} has {row.balance} after {row.version} events, lowest {row.lowest}")


def main() -> None:
    with app.client() as client:
        client.migrate()
        with engine.begin() as connection:
            connection.execute(text(EVENTS))
            connection.execute(text(BALANCES))
        for account, amount in [("ada", 10), ("bob", 5), ("ada", -30), ("bob", -1), ("ada", 25)]:
            with engine.begin() as connection:
                append(client, connection, account, amount)
        app.drain()
        show("projected")
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE balance"))
            connection.execute(text(BALANCES))
        rebuild(client)
        with engine.begin() as connection:
            append(client, connection, "bob", 7)
        app.drain()
        show("rebuilt")


if __name__ == "__main__":
    main()
