"""Verbs of people with the values that most of their cases want, and the record that they leave."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from holdfast.model.call import JobDocument
from holdfast.model.control import ControlOutcome, ControlResult
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.control import ControlBatch, Orders
from holdfast.operations.deduplication_keys import Key
from holdfast.operations.delete_chains import delete_chains
from holdfast.operations.enqueue_guarded import Enqueued, enqueue_guarded
from holdfast.operations.remove_job import remove_job
from holdfast.operations.reschedule_jobs import reschedule_jobs
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.testing.conformance.harness import Harness

ORDERS = Orders(actor="ada")
STRICT = Orders(actor="ada", is_strict=True)
HASTY = Orders(actor="ada", is_patient=False, is_chain=False)
EXACT = Orders(actor="ada", is_chain=False)


async def cancel(h: Harness, *ids: str, orders: Orders = ORDERS, reason: str | None = None) -> ControlBatch:
    return await h.run(lambda: cancel_jobs(ids, orders, reason))


async def retry(h: Harness, *ids: str, orders: Orders = ORDERS) -> ControlBatch:
    return await h.run(lambda: retry_jobs(ids, orders))


async def reschedule(
    h: Harness, *ids: str, at: datetime | None = None, delay: timedelta | None = None, orders: Orders = ORDERS
) -> ControlBatch:
    return await h.run(lambda: reschedule_jobs(ids, orders, at=at, delay=delay))


async def remove(h: Harness, key: str = "k", type_name: str = "sum", orders: Orders = ORDERS) -> ControlResult:
    return (await h.run(lambda: remove_job(Key(type_name, key), orders))).results[0]


async def delete(
    h: Harness, *ids: str, cascade: bool = False, is_partial: bool = False, orders: Orders = ORDERS
) -> ControlBatch:
    return await h.run(lambda: delete_chains(ids, orders, cascade=cascade, is_partial=is_partial))


async def send(h: Harness, *jobs: JobDocument) -> list[Enqueued]:
    return await h.run(lambda: enqueue_guarded(jobs, None))


async def send_one(h: Harness, job: JobDocument) -> str:
    (result,) = await send(h, job)
    return result.id


def outcomes(batch: ControlBatch) -> list[ControlOutcome]:
    return [result.outcome for result in batch.results]


def audit(h: Harness) -> list[tuple[Any, ...]]:
    """Actor, verb, chain, job and outcome of every entry, oldest first."""
    rows = h.sql("SELECT actor, verb, chain_id, job_id, outcome FROM {audit} ORDER BY seq")
    return [tuple(None if value is None else str(value) for value in row) for row in rows]


def column(h: Harness, name: str, job_id: str) -> Any:
    """What a job has in a column that `Job` does not show."""
    return h.sql(f"SELECT {name} FROM {{job}} WHERE id = :id", id=job_id)[0][0]  # noqa: S608 - a column of ours


async def dead_letter(h: Harness, **fields: Any) -> str:
    """A job whose only attempt has failed; nothing else may be due."""
    (lease,) = await h.put_and_claim(**fields)
    await h.fail(lease, is_final=True)
    return lease.id
