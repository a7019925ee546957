"""A table of your own beside the jobs: what belongs to one kind of job, typed, indexed and joined by the job's id.

Needs `pip install holdfast sqlalchemy`. Run it with `python examples/subtype.py`; DATABASE_URL may name another
database than a new SQLite file.
"""

import os
import tempfile
from typing import Any

from sqlalchemy import Connection, create_engine, event, text

from holdfast import App, Chain, Client, SyncContext

URL = os.environ.get("DATABASE_URL") or f"sqlite:///{tempfile.mkdtemp()}/mail.db"
IS_SQLITE = URL.startswith("sqlite")
JOB, ID_TYPE = ("holdfast_job", "text") if IS_SQLITE else ("holdfast.job", "uuid")
app = App(URL, auto_migrate=True)
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))

if IS_SQLITE:

    @event.listens_for(engine, "connect")
    def check_foreign_keys(connection: Any, _record: Any) -> None:
        """SQLite looks at foreign keys only where it was told to."""
        connection.execute("PRAGMA foreign_keys = ON")


TABLE = f"""
CREATE TABLE email_job (
    job_id    {ID_TYPE} PRIMARY KEY REFERENCES {JOB} (id) ON DELETE CASCADE,
    recipient text NOT NULL CHECK (recipient LIKE '%@%'),
    campaign  text NOT NULL,
    receipt   text
)
"""


@app.job()
def send_email(ctx: SyncContext) -> None:
    """The input is the row: what the job is about, and what came of it, can be asked for in SQL."""
    with engine.begin() as connection:
        row = connection.execute(text("SELECT recipient FROM email_job WHERE job_id = :id"), {"id": ctx.job.id}).one()
        connection.execute(
            text("UPDATE email_job SET receipt = :receipt WHERE job_id = :id"),
            {"receipt": f"sent to {row.recipient}", "id": ctx.job.id},
        )
        ctx.complete(tx=connection)


def enqueue_email(client: Client, connection: Connection, recipient: str, campaign: str) -> Chain[None]:
    """The job and its row, in the caller's transaction: both or neither."""
    chain = client.enqueue(send_email.call(), tx=connection)
    connection.execute(
        text("INSERT INTO email_job (job_id, recipient, campaign) VALUES (:id, :recipient, :campaign)"),
        {"id": chain.job, "recipient": recipient, "campaign": campaign},
    )
    return chain


def show(title: str) -> None:
    with engine.begin() as connection:
        for row in connection.execute(
            text(
                "SELECT email.recipient, email.campaign, job.status, email.receipt FROM email_job AS email "
                f"JOIN {JOB} AS job ON job.id = email.job_id ORDER BY email.recipient"
            )
        ):
            print(f"{title}: {row.campaign} to {row.recipient} is {row.status}, receipt: {row.receipt}")


def main() -> None:
    with app.client() as client:
        client.migrate()
        with engine.begin() as connection:
            connection.execute(text(TABLE))
            chains = [enqueue_email(client, connection, f"{name}@example.com", "spring") for name in ("ada", "bob")]
        show("enqueued")
        app.drain()
        show("run")
        client.delete_chains(chains[:1])
        show("after a deletion")


if __name__ == "__main__":
    main()
