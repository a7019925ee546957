"""register_types: queue and retry policy of each job type, for the reaper and for SQL users."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from holdfast.model.job_type import CallSignature, JobType
from holdfast.model.payload import PayloadCodec
from holdfast.model.retry import Retry
from holdfast.operations.register_types import register_types
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness

CASES = Cases("register_types")


def _job_type(name: str, *, queue: str = "default", timeout: timedelta | None = None, **retry: Any) -> JobType:
    def handler() -> None: ...

    signature = CallSignature(name, handler, (), 1000)
    return JobType(name, queue, 0, Retry(**retry), timeout, signature, PayloadCodec(name, None))


async def _register(h: Harness, *types: JobType) -> None:
    await h.run(lambda: register_types(types))


@CASES
async def stores_the_policy(h: Harness) -> None:
    """Name, queue, attempts, timeout and the whole retry policy."""
    retry = {"max_attempts": 8, "initial": 2.5, "factor": 3.0, "maximum": 60.0, "jitter": 0.25}
    await _register(h, _job_type("send", queue="mail", timeout=timedelta(seconds=1.5), **retry))
    text = "SELECT name, queue, priority, max_attempts, timeout_ms, CAST(retry AS text) FROM {job_type}"
    ((*fields, policy),) = h.sql(text)
    assert fields == ["send", "mail", 0, 8, 1_500]
    assert msgspec.json.decode(policy) == retry


@CASES
async def changes_replace(h: Harness) -> None:
    """A new policy takes effect; other types stay."""
    await _register(h, _job_type("a", max_attempts=3), _job_type("b", max_attempts=3))
    await _register(h, _job_type("a", max_attempts=4, queue="slow"))
    assert h.sql("SELECT name, queue, max_attempts FROM {job_type} ORDER BY name") == [
        ("a", "slow", 4),
        ("b", "default", 3),
    ]


@CASES
async def every_field_is_compared_and_written(h: Harness) -> None:
    """A change of one field alone is written, and taken back, a timeout that comes or goes included."""
    base = _job_type("a")
    text = "SELECT queue, max_attempts, timeout_ms, CAST(retry AS text), registered_at FROM {job_type}"
    for variant in (
        _job_type("a", queue="q"),
        _job_type("a", max_attempts=9),
        _job_type("a", factor=5.0),
        _job_type("a", jitter=0.5),
        _job_type("a", timeout=timedelta(seconds=1)),
    ):
        for job_type in (base, variant, base):
            h.clock.advance(1)
            before = h.sql(text)
            await _register(h, job_type)
            ((queue, max_attempts, timeout_ms, policy, registered_at),) = h.sql(text)
            retry = msgspec.json.decode(policy)
            found = (queue, max_attempts, timeout_ms, retry["factor"], retry["jitter"], retry["max_attempts"])
            timeout = None if job_type.timeout is None else 1_000
            wanted = job_type.retry
            assert found == (
                job_type.queue,
                wanted.max_attempts,
                timeout,
                wanted.factor,
                wanted.jitter,
                wanted.max_attempts,
            )
            if job_type is variant:
                assert registered_at != before[0][4]


@CASES
async def unchanged_is_not_written(h: Harness) -> None:
    """A fleet that starts with what is known already writes nothing."""
    await _register(h, _job_type("a", timeout=timedelta(seconds=1)), _job_type("b"))
    before = h.sql("SELECT * FROM {job_type} ORDER BY name")
    h.clock.advance(60)
    await _register(h, _job_type("b"), _job_type("a", timeout=timedelta(seconds=1)))
    assert h.sql("SELECT * FROM {job_type} ORDER BY name") == before


@CASES
async def nothing_to_register(h: Harness) -> None:
    """No types, no statement."""
    await _register(h)
    assert h.count("job_type") == 0


@CASES
async def fleet_starting_at_once(h: Harness) -> None:
    """Race: many workers register many types in different orders, and neither deadlock nor fail."""
    stores = h.neighbours(6)
    types = [_job_type(f"type-{number:02d}") for number in range(40)]
    for start in range(5):
        changed = [_job_type(f"type-{number:02d}", max_attempts=start + 2) for number in range(40)]
        await asyncio.gather(
            *(
                store.run(partial(register_types, changed[shift:] + changed[:shift]))
                for shift, store in enumerate(stores)
            )
        )
    assert h.count("job_type") == len(types)
