"""What a type checker says of waiting and of completing: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type
from uuid import UUID

import aiosqlite

from holdfast import App, AsyncClient, Chain, Client, Context, Job

app = App("sqlite:///typing.db")


@dataclass
class Receipt:
    number: int


@app.job()
async def pay(ctx: Context, order_id: int) -> Receipt:
    return Receipt(order_id)


@app.job()
def tell(text: str) -> None:
    """Returns nothing."""


def sync_wait(client: Client, record: Job, uuid: UUID) -> None:
    chain = client.enqueue(pay.call(order_id=1))
    assert_type(chain, Chain[Receipt])
    assert_type(client.wait(chain), Receipt)
    assert_type(client.wait(chain, timeout=30), Receipt)
    assert_type(client.wait(chain, 0.5), Receipt)
    assert_type(client.wait(chain, timedelta(minutes=1)), Receipt)
    assert_type(client.wait(chain.id), Any)
    assert_type(client.wait(record), Any)
    assert_type(client.wait(uuid, timeout=1), Any)
    client.wait(client.enqueue(tell.call("x")))
    assert_type(client.wait(chain).number, int)


async def async_wait(client: AsyncClient) -> None:
    chain = await client.enqueue(pay.call(1))
    assert_type(await client.wait(chain, timeout=30), Receipt)
    assert_type(await client.wait(chain.id), Any)


def sync_wait_refuses(client: Client) -> None:
    chain = client.enqueue(pay.call(1))
    client.wait(chain, timeout="soon")  # type: ignore[call-overload]
    client.wait(17)  # type: ignore[call-overload]
    client.wait([chain])  # type: ignore[call-overload]
    client.wait(pay)  # type: ignore[call-overload]
    client.wait(chain).total  # type: ignore[attr-defined]  # noqa: B018 - only the checkers see it


def sync_complete(client: Client, job: Job, connection: sqlite3.Connection) -> None:
    chain = client.enqueue(pay.call(1))
    assert_type(client.complete_job(job, Receipt(1)), Job)
    client.complete_job(chain, Receipt(1), tx=connection)
    client.complete_job(job.id, pay.call(2))
    client.complete_job(job)
    assert_type(client.complete_chain(chain, pay.call(2), tell.call("x"), None), Job)
    client.complete_chain(job, Receipt(1), tx=connection)
    client.complete_chain(chain.id)


async def async_complete(client: AsyncClient, job: Job, connection: aiosqlite.Connection) -> None:
    assert_type(await client.complete_job(job, Receipt(1), tx=connection), Job)
    assert_type(await client.complete_chain(job, pay.call(2), Receipt(1), tx=connection), Job)


def sync_complete_refuses(client: Client, job: Job, connection: aiosqlite.Connection) -> None:
    client.complete_job(17, Receipt(1))  # type: ignore[arg-type]
    client.complete_job(pay, Receipt(1))  # type: ignore[arg-type]
    client.complete_job(job, Receipt(1), tx=connection)  # type: ignore[arg-type]
    client.complete_chain(17, Receipt(1))  # type: ignore[arg-type]
    client.complete_chain(job, Receipt(1), tx=connection)  # type: ignore[arg-type]


async def async_complete_refuses(client: AsyncClient, job: Job, connection: sqlite3.Connection) -> None:
    await client.complete_job(job, Receipt(1), tx=connection)  # type: ignore[arg-type]
    await client.complete_chain(job, Receipt(1), tx=connection)  # type: ignore[arg-type]
