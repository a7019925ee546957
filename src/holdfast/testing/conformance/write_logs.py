"""write_logs: what handlers write down is kept in order."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from msgspec import Raw

from holdfast.operations.lease import Lease
from holdfast.operations.write_logs import LogLine, LogRecord, list_logs, write_logs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness
from holdfast.testing.conformance.stale_holders import claimed_again, deleted, from_the_future

CASES = Cases("write_logs")


def line(lease: Lease, message: str, **fields: Any) -> LogLine:
    return LogLine(lease.id, lease.lease_generation, "info", message, **fields)


async def logs(h: Harness, job_id: str) -> list[LogRecord]:
    return await h.run(lambda: list_logs(job_id), read_only=True)


@CASES
async def in_order_with_fields(h: Harness) -> None:
    """As they were written, with the time of their writing."""
    first, second = await h.put_and_claim(2)
    lines = [
        line(first, "a 'quoted' line\nof two", fields=Raw(b'{"n": [1, null], "s": "\\u00e4"}'), age_ms=1500),
        line(second, "of another"),
        line(first, "last"),
    ]
    await h.run(lambda: write_logs(lines))
    found = await logs(h, first.id)
    assert [(entry.message, entry.fields) for entry in found] == [
        ("a 'quoted' line\nof two", {"n": [1, None], "s": "ä"}),
        ("last", None),
    ]
    assert (found[0].logged_at, found[1].logged_at) == (h.now - timedelta(seconds=1.5), h.now)
    assert {(entry.level, entry.lease_generation) for entry in found} == {("info", 1)}


@CASES
async def after_the_end_of_the_attempt(h: Harness) -> None:
    """Lines are sent in batches, so the last ones may come when the job is completed."""
    (lease,) = await h.put_and_claim()
    await h.complete(lease)
    await h.run(lambda: write_logs([line(lease, "bye")]))
    assert [entry.message for entry in await logs(h, lease.id)] == ["bye"]


@CASES
async def of_a_stale_holder_are_dropped(h: Harness) -> None:
    """Nor are there any for a job that is gone."""
    for situation in (claimed_again, from_the_future, deleted):
        lease = await situation(h)
        await h.run(partial(write_logs, [line(lease, "late")]))
        assert await logs(h, lease.id) == []


@CASES
async def nothing_to_write(h: Harness) -> None:
    """An empty list is no error."""
    await h.run(lambda: write_logs([]))
    assert h.count("job_log") == 0
