"""insert_jobs: the short way in for plain jobs makes the same rows as the long one."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.ids import new_ids
from holdfast.operations.enqueue_jobs import are_insertable, enqueue_jobs, insert_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, refused

CASES = Cases("insert_jobs")

#: what tells two jobs that are otherwise the same apart
_OWN = {"id", "chain_id", "seq"}


@CASES
async def the_same_rows(h: Harness) -> None:
    """Whichever option of a plain job is given, alone and with others: field by field as enqueue_jobs writes them."""
    now = h.now
    options: tuple[dict[str, Any], ...] = (
        {},
        {"type_name": "send", "queue": "mail", "priority": -7},
        {"delay_ms": 90_000},
        {"at": now + timedelta(hours=1)},
        {"at": now - timedelta(hours=1)},
        {"max_attempts": 2, "timeout_ms": 1500},
        {"headers": msgspec.Raw(b'{"trace":"1"}'), "input": {"text": "é \u2028"}},
    )
    for fields in options:
        alone, first, second, long = (document(id=job_id, **fields) for job_id in new_ids(4))
        assert are_insertable([alone])
        await h.run(partial(insert_jobs, [alone], None))
        await h.run(partial(insert_jobs, [first, second], None))
        await h.run(partial(enqueue_jobs, [long], None))
        jobs = [await h.job(each.id) for each in (alone, first, second, long)]
        assert all(job.chain_id == job.id for job in jobs)
        rows = [
            {name: value for name, value in msgspec.structs.asdict(job).items() if name not in _OWN} for job in jobs
        ]
        assert all(row == rows[-1] for row in rows)


@CASES
async def in_the_order_given(h: Harness) -> None:
    """Whatever their ids are."""
    ids = sorted(new_ids(20), reverse=True)
    await h.run(lambda: insert_jobs([document(id=job_id) for job_id in ids], None))
    jobs = [await h.job(job_id) for job_id in ids]
    assert [job.seq for job in jobs] == sorted(job.seq for job in jobs)


@CASES
async def an_id_that_exists(h: Harness) -> None:
    """Is an error, and none of the batch is written: ids were made for it."""
    known = await h.put_one()
    await refused(HoldfastError, h.run(lambda: insert_jobs([document(), document(id=known)], None)))
    assert h.count("job") == 1
