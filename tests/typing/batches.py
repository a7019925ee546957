"""What batch handlers may look like: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""

from __future__ import annotations

from typing import assert_type

from holdfast import App, Batch, Context, Item, SyncBatch, SyncContext
from holdfast.app import JobHandle

app = App("sqlite:///never-opened.db")


@app.job(batch=10)
async def outputs(batch: Batch[int]) -> list[str | Exception]:
    for item in batch:
        assert_type(item, Item[int, Context])
        assert_type(item.input, int)
        assert_type(item.ctx, Context)
    assert_type(batch.inputs, list[int])
    return ["" for _ in batch]


@app.job(batch=10)
def nothing(batch: SyncBatch[dict[str, int]]) -> None:
    assert_type(batch[0].ctx, SyncContext)


assert_type(nothing, JobHandle[[dict[str, int]], None])
with app.client() as client:
    assert_type(client.wait(client.enqueue(outputs.call(5))), str)
outputs.call("five")  # type: ignore[arg-type]
nothing.call(5)  # type: ignore[arg-type]


@app.job(batch=10)  # type: ignore[arg-type]
def wrong(number: int) -> None: ...


@app.job(batch="ten")  # type: ignore[call-overload, untyped-decorator]
def no_number(batch: SyncBatch[int]) -> None: ...
