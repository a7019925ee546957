"""What may be a partition key, an order and a flag: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""

from __future__ import annotations

from typing import Any, assert_type

from holdfast import App, Call, JobHandle

app = App("sqlite:///never-opened.db")


def key_of(order_id: int, note: str = "") -> str:
    return f"{order_id}{note}"


def maybe(order_id: int, note: str = "") -> str | None:
    return key_of(order_id, note) if note else None


def number(order_id: int, note: str = "") -> int:
    return order_id + len(note)


@app.job(partition_key="orders", ordering="serial", shards=8)
async def one_key(order_id: int, note: str = "") -> str:
    return note


@app.job(partition_key=key_of)
def by_function(order_id: int, note: str = "") -> None: ...


@app.job(partition_key=maybe, ordering="fifo")
def by_some(order_id: int, note: str = "") -> None: ...


@app.job(partition_key=lambda order_id, note: f"{order_id}:{note}")
def by_lambda(order_id: int, note: str = "") -> None: ...


assert_type(one_key.call(1), Call[str])
one_key.call("one")  # type: ignore[arg-type]


@app.job(partition_key=number)  # type: ignore[arg-type]
def by_number(order_id: int, note: str = "") -> None: ...


@app.job(ordering="lifo")  # type: ignore[call-overload, untyped-decorator]
def no_order(order_id: int) -> None: ...


@app.job(partition_key="k", shards="two")  # type: ignore[call-overload, untyped-decorator]
def no_shards(order_id: int) -> None: ...


declared: JobHandle[..., Any] = app.declare("elsewhere", partition_key=maybe, ordering="serial", shards=2)
app.declare("elsewhere", partition_key=number)  # type: ignore[arg-type]
app.declare("elsewhere", ordering="lifo")  # type: ignore[arg-type]

by_function.call(1).options(partition_key="k", ordering="fifo", shards=3, concurrency_key="psp", flags=["gpu"])
by_function.call(1).options(flags={"gpu"}, partition_key=None, ordering=None, shards=None)
by_function.call(1).options(ordering="lifo")  # type: ignore[arg-type]
by_function.call(1).options(partition_key=key_of)  # type: ignore[arg-type]
by_function.call(1).options(flags=5)  # type: ignore[arg-type]
with app.client() as client:
    client.enqueue(one_key.call(1), partition_key="k", ordering="serial", flags=("gpu", "big"))
    client.enqueue(one_key.call(1), shards="two")  # type: ignore[arg-type]
