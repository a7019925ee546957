"""What contexts give back, and what they refuse: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""

from __future__ import annotations

import sqlite3
from typing import Any, assert_type

import psycopg

import holdfast
from holdfast import App, Blocker, Call, Cancellation, Context, JobHandle, SyncContext
from holdfast.testing import FakeContext

app = App("sqlite:///never-opened.db")


def plain(number: int, *, text: str = "") -> list[str]:
    return [text] * number


async def awaited(number: int) -> dict[str, int]:
    return {"n": number}


@app.job()
async def last(order_id: int) -> str:
    return str(order_id)


@app.job()
async def in_a_loop(ctx: Context, order_id: int) -> str:
    assert_type(await ctx.step("a", plain, 3, text="x"), list[str])
    assert_type(await ctx.step("b", awaited, 3), dict[str, int])
    assert_type(await ctx.step("c", lambda: 7), int)
    await ctx.step("d", plain, "x")  # type: ignore[call-overload]
    connection = await psycopg.AsyncConnection.connect("")
    assert_type(await ctx.step_tx(connection, "e", awaited, 3), dict[str, int])
    assert_type(await ctx.once("key", tx=connection), bool)
    await ctx.once("key", tx=sqlite3.connect(""))  # type: ignore[arg-type]
    await ctx.complete("x", tx=connection)
    async with ctx.transaction() as tx:
        await ctx.complete("x", tx=tx)
        await tx.execute("SELECT 1")
    assert_type(ctx.cancelled, Cancellation | None)
    assert_type(ctx.blockers, list[Blocker])
    assert_type(ctx.log("text", level="info", n=1), None)
    assert_type(await ctx.continue_with(last.call(order_id=1)), str)
    return await ctx.continue_with(last.call(order_id=order_id))


@app.job()
def in_a_thread(ctx: SyncContext, order_id: int) -> str:
    assert_type(ctx.step("a", plain, 3, text="x"), list[str])
    connection = psycopg.connect("")
    assert_type(ctx.step_tx(connection, "e", plain, 3), list[str])
    assert_type(ctx.once("key", tx=connection), bool)
    with ctx.transaction() as tx:
        ctx.complete("x", tx=tx)
        tx.execute("SELECT 1")
    assert_type(ctx.continue_with(last.call(order_id=1)), str)
    return ctx.continue_with(last.call(order_id=order_id))


assert_type(holdfast.testing.context(), FakeContext)
assert_type(holdfast.testing.drain(app).expired, int)
assert_type(app.drain().completed, int)
holdfast.tasting  # type: ignore[attr-defined]  # noqa: B018 - must be an error

declared: JobHandle[..., str] = app.declare("elsewhere", input={"order_id": int}, output=str)
call: Call[str] = declared.call(order_id=1)
untyped: JobHandle[..., Any] = app.declare("elsewhere_too")
