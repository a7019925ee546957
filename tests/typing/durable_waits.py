"""What a type checker says of durable waits and of children: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import psycopg

from holdfast import App, AsyncClient, Chain, Client, Context, SyncContext
from holdfast.errors import ChildFailed

app = App("sqlite:///typing.db")


@dataclass
class Verdict:
    by: str


@app.job()
async def count(text: str) -> int:
    return len(text)


@app.job()
async def spell(number: int) -> str:
    return str(number)


@app.job()
async def waits(ctx: Context, order_id: int) -> None:
    assert_type(await ctx.sleep("a", 3), None)
    await ctx.sleep("b", timedelta(days=1))
    await ctx.sleep("c", until=datetime.now(UTC))
    await ctx.sleep(3)  # type: ignore[arg-type]
    assert_type(await ctx.wait_signal("d"), Any)
    assert_type(await ctx.wait_signal("e", 60, payload=Verdict), Verdict)
    assert_type(await ctx.wait_signal("f", timedelta(1), signal="d", payload=Verdict, default=None), Verdict | None)
    left = await ctx.enqueue("g", count.call("x"))
    right = await ctx.enqueue("h", spell.call(number=1), delay=3)
    assert_type(left, Chain[int])
    assert_type(await ctx.gather(left, right), tuple[int, str])
    assert_type(await ctx.gather(left), tuple[int])
    assert_type(await ctx.gather(left, right, left), tuple[int, str, int])
    many = await ctx.enqueue_many("i", [count.call("x"), count.call("y")])
    assert_type(many, list[Chain[int]])
    assert_type(await ctx.gather(many), tuple[int, ...])
    assert_type(await ctx.gather(*many), tuple[int, ...])
    assert_type(await ctx.gather(*many, on_failure="return"), tuple[int | ChildFailed, ...])
    assert_type(await ctx.gather(many, on_failure="return"), tuple[int | ChildFailed, ...])
    assert_type(await ctx.gather(left, right, on_failure="wait"), tuple[int, str])
    await ctx.gather("an id")  # type: ignore[arg-type]
    await ctx.gather(left, on_failure="panic")  # type: ignore[call-overload]
    await ctx.enqueue("j", count)  # type: ignore[arg-type]
    await ctx.enqueue("k", count.call("x"), tx=psycopg.connect(""))  # type: ignore[arg-type]
    await ctx.enqueue("l", count.call("x"), tx=await psycopg.AsyncConnection.connect(""))


@app.job()
def waits_in_a_thread(ctx: SyncContext, order_id: int) -> None:
    assert_type(ctx.sleep("a", 3), None)
    assert_type(ctx.wait_signal("e", 60, payload=Verdict), Verdict)
    left = ctx.enqueue("g", count.call("x"))
    right = ctx.enqueue("h", spell.call(number=1), tx=psycopg.connect(""))
    assert_type(ctx.gather(left, right), tuple[int, str])
    assert_type(ctx.gather([left, left], on_failure="return"), tuple[int | ChildFailed, ...])


def says(client: Client, chain: Chain[int]) -> None:
    assert_type(client.signal(chain, "go", {"by": "ada"}), None)
    client.signal(chain.id, "go")
    client.signal(chain, "go", tx=psycopg.connect(""))
    client.signal(17, "go")  # type: ignore[arg-type]


async def says_async(client: AsyncClient, chain: Chain[int]) -> None:
    assert_type(await client.signal(chain, "go", [1]), None)
    await client.signal(chain, "go", tx=await psycopg.AsyncConnection.connect(""))
