"""The application of the demo: a shop that charges orders, sends receipts, writes invoices and closes its books.

It is written as yours would be, but for the imports: there everything comes `from holdfast import …`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.app import App
from holdfast.cli.demo.executions import EXECUTIONS, ExecutionLog, awitnessed, witnessed
from holdfast.cli.demo.gateway import GATEWAY, Gateway, Payment
from holdfast.model.retry import Retry
from holdfast.worker import Context


@dataclass(frozen=True, slots=True)
class Order:
    """What a customer sent. Inputs and outputs of jobs are JSON; dataclasses go in and come out typed."""

    id: int
    customer: str
    card: str
    cents: int


@dataclass(frozen=True, slots=True)
class Invoice:
    """What the bookkeeper wants."""

    number: str
    cents: int


@dataclass(frozen=True, slots=True)
class Shop:
    """What the handlers of one worker process share: `ctx.state`."""

    gateway: Gateway
    log: ExecutionLog


@contextmanager
def open_shop(_app: App) -> Iterator[Shop]:
    """Entered before a worker's first job, left after its last: the place for connection pools and HTTP clients."""
    directory = Path(os.environ["HOLDFAST_DEMO_DIRECTORY"])
    with ExecutionLog(directory / EXECUTIONS) as log:
        yield Shop(Gateway(directory / GATEWAY), log)


#: The middleware writes down who ran what, for the ledger; the handlers do not know of it.
app = App("sqlite:///shop.db", name="shop", lifespan=open_shop, middleware=[awitnessed, witnessed])


#: Smaller runs first: orders that are under way are finished before new ones are begun.
FIRST = -1


@app.job(retry=Retry(max_attempts=5, initial=0.3, maximum=1))
async def charge(ctx: Context, order: Order) -> str:
    """Take the money; then the receipt, the invoice and the books follow, all of them or none."""
    shop: Shop = ctx.state
    # A step is done once: an attempt after this one finds its result. Between taking the money and saving that it was
    # taken a crash may fall, so the provider gets a key by which it knows the request again.
    payment = await ctx.step("take the money", shop.gateway.take, str(order.id), order.card, order.cents)
    async with ctx.transaction() as tx:
        invoice = await ctx.client.enqueue(write_invoice.call(order, payment), tx=tx)
        await ctx.client.enqueue(report_order.call(order), blockers=[ctx.job.chain_id, invoice], tx=tx)
        # The chain goes on: its output, and what `report_order` waits for, is what `send_receipt` returns.
        return await ctx.continue_with(send_receipt.call(order, payment), tx=tx)


@app.job(priority=FIRST)
async def send_receipt(order: Order, payment: Payment) -> str:
    """Waits for a mail server, so it is async: hundreds of them share one thread."""
    await asyncio.sleep(0.03)
    return f"receipt for {payment.reference} to {order.customer}"


@app.job(priority=FIRST, partition_key=lambda order, **_: order.customer)
def write_invoice(order: Order, payment: Payment) -> Invoice:
    """One at a time for each customer, in the order of the charges, whichever workers write them.

    It works without waiting, so it is a plain `def`, which runs in a thread.
    """
    time.sleep(0.02)
    return Invoice(f"{order.customer}/{order.id}", payment.cents)


@app.job(priority=FIRST)
async def report_order(ctx: Context, order: Order) -> int:
    """Runs when receipt and invoice are there, with what they returned; reports how much the order brought in."""
    _receipt, invoice = ctx.blockers
    if invoice.output["cents"] != order.cents:
        raise ValueError(f"order {order.id} is about {order.cents} cents, but its invoice is {invoice.output}")
    return order.cents
