"""list_chains: chains by what was enqueued and by how their last jobs stand."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.errors import InvalidCursor, InvalidOption
from holdfast.model.job import ChainRecord, Page
from holdfast.model.job_filter import JobFilter
from holdfast.operations.get_chain import get_chain
from holdfast.operations.lease import Lease
from holdfast.operations.list_chains import list_chains
from holdfast.operations.list_jobs import list_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.get_chain import continue_with, put_chain
from holdfast.testing.conformance.harness import Harness, refused

CASES = Cases("list_chains")


async def _list(h: Harness, **options: Any) -> Page[ChainRecord]:
    paging = {name: options.pop(name) for name in ("limit", "cursor", "newest_first") if name in options}
    return await h.run(lambda: list_chains(JobFilter(**options), **paging), read_only=True)


async def _ids(h: Harness, **options: Any) -> list[str]:
    return [chain.id for chain in (await _list(h, **options)).items]


async def put_in_every_state(h: Harness, **fields: Any) -> dict[str, list[str]]:
    """By status, a chain of one job and a chain of three whose last job has it."""
    found: dict[str, list[str]] = {}
    for status in ("blocked", "dead_letter", "cancelled", "completed", "running", "pending"):
        found[status] = []
        for length in (1, 3):
            ids = await put_chain(h, length, **fields)
            found[status].append(ids[0])
            if status == "blocked":
                h.sql("UPDATE {job} SET status = 'blocked', waiting_for = 1 WHERE id = :id", id=ids[-1])
            elif status == "cancelled":
                text = "UPDATE {job} SET status = 'cancelled', finished_at = created_at WHERE id = :id"
                h.sql(text, id=ids[-1])
            elif status != "pending":
                (job,) = await h.claim(queues=[fields.get("queue", "default")])
                lease = Lease(job.id, job.lease_generation)
                if status == "completed":
                    await h.complete(lease)
                elif status == "dead_letter":
                    await h.fail(lease, is_final=True)
            else:
                h.sql("UPDATE {job} SET ready_at = :later WHERE id = :id", later="2999-01-01T00:00:00Z", id=ids[-1])
    return found


@CASES
async def empty(h: Harness) -> None:
    """An empty page without a cursor, looked for anywhere."""
    everywhere: list[dict[str, Any]] = [
        {}, {"status": "dead_letter"}, {"status": "pending"}, {"tenant": "x"}, {"status": []}
    ]  # fmt: skip
    for filters in everywhere:
        assert await _list(h, **filters) == Page([], None)


@CASES
async def one_entry_per_chain(h: Harness) -> None:
    """However many jobs; each is what get_chain says of it, in order of enqueue."""
    chains = [(await put_chain(h, length))[0] for length in (1, 3, 2, 1) if await _nothing_due(h)]
    assert await _ids(h) == chains[::-1]
    assert await _ids(h, newest_first=False) == chains
    for chain in (await _list(h)).items:
        assert chain == await h.run(partial(get_chain, chain.id), read_only=True)


async def _nothing_due(h: Harness) -> bool:
    """What was enqueued before is in nobody's way."""
    h.sql("UPDATE {job} SET ready_at = :later WHERE status = 'pending'", later="2999-01-01T00:00:00Z")
    return True


@CASES
async def by_the_state_of_the_last_job(h: Harness) -> None:
    """Each state alone, several together, all; a first job that is long completed does not count."""
    found = await put_in_every_state(h)
    for status, chains in found.items():
        assert await _ids(h, status=status, newest_first=False) == chains, status
        assert await _ids(h, status=status) == chains[::-1], status
    order = [chain for chains in found.values() for chain in chains]
    assert await _ids(h, newest_first=False) == order
    assert await _ids(h, newest_first=False, status=list(found)) == order
    aside = ["blocked", "dead_letter", "cancelled", "running"]
    assert await _ids(h, newest_first=False, status=aside) == [chain for name in aside for chain in found[name]]
    mixed = ["dead_letter", "completed", "pending"]
    assert await _ids(h, newest_first=False, status=mixed) == [chain for name in mixed for chain in found[name]]
    assert await _ids(h, status=[]) == []


@CASES
async def held_and_suspect_chains_are_pending(h: Harness) -> None:
    """Wherever a pending job stands, it is listed as pending."""
    plain, held, suspect = await h.put(3)
    h.sql("UPDATE {job} SET held = :yes WHERE id = :id", yes=True, id=held)
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=suspect)
    assert await _ids(h, status="pending", newest_first=False) == [plain, held, suspect]
    page = await h.run(lambda: list_jobs(JobFilter(status="pending"), newest_first=False), read_only=True)
    assert [job.id for job in page.items] == [plain, held, suspect]


@CASES
async def by_what_was_enqueued(h: Harness) -> None:
    """Type, queue, tenant and time are the first job's, whatever the chain has become."""
    start = h.now
    chain = await h.put_one(type_name="import", queue="q1", tenant="acme")
    (job,) = await h.claim(queues=["q1"])
    h.clock.advance(timedelta(hours=1))
    later = await continue_with(h, Lease(job.id, job.lease_generation), type_name="check", queue="q2")
    other = await h.put_one(type_name="check", queue="q2")
    h.sql("UPDATE {job} SET partition_key = :key WHERE id = :id", key="order:1", id=chain)
    found = {
        "type": await _ids(h, type_name="import"),
        "later type": await _ids(h, type_name="check"),
        "chain type": await _ids(h, chain_type_name="import"),
        "queue": await _ids(h, queue="q1"),
        "later queue": await _ids(h, queue="q2"),
        "tenant": await _ids(h, tenant="acme"),
        "no tenant": await _ids(h, tenant="other"),
        "key": await _ids(h, partition_key="order:1"),
        "until": await _ids(h, until=start + timedelta(seconds=1)),
        "since": await _ids(h, since=start + timedelta(seconds=1)),
        "id": await _ids(h, ids=chain),
        "later id": await _ids(h, ids=later),
        "chain id": await _ids(h, chain_ids=[chain, other]),
        "both": await _ids(h, ids=[chain], chain_ids=[other]),
        "all": await _ids(h, type_name="import", queue="q1", tenant="acme", status="pending", since=start, ids=chain),
    }
    assert found == {
        "type": [chain],
        "later type": [other],
        "chain type": [chain],
        "queue": [chain],
        "later queue": [other],
        "tenant": [chain],
        "no tenant": [],
        "key": [chain],
        "until": [chain],
        "since": [other],
        "id": [chain],
        "later id": [],
        "chain id": [other, chain],
        "both": [],
        "all": [chain],
    }


@CASES
async def state_and_other_filters(h: Harness) -> None:
    """Each source of a state keeps to the other filters and to the page."""
    mine = await put_in_every_state(h, tenant="mine")
    await put_in_every_state(h, tenant="theirs")
    for status, chains in mine.items():
        assert await _ids(h, status=status, tenant="mine", newest_first=False) == chains, status
        assert await _ids(h, status=status, tenant="mine", queue="nowhere") == []
        first = await _list(h, status=status, tenant="mine", limit=1)
        rest = await _ids(h, status=status, tenant="mine", limit=5, cursor=first.next_cursor)
        assert [first.items[0].id, *rest] == chains[::-1], status


@CASES
async def pages_hold_while_chains_go_on(h: Harness) -> None:
    """A chain that gets its next job between two pages is neither skipped nor repeated, either way."""
    for newest_first in (True, False):
        chains = await h.put(9, queue=f"newest first: {newest_first}")
        queue = f"newest first: {newest_first}"
        seen: list[str] = []
        cursor = None
        while True:
            page = await _list(h, queue=queue, limit=2, cursor=cursor, newest_first=newest_first)
            seen += [chain.id for chain in page.items]
            for job in await h.claim(3, queues=[queue]):
                await continue_with(h, Lease(job.id, job.lease_generation), queue=queue, chain_id=job.chain_id)
            await h.put(1, queue="elsewhere")
            if (cursor := page.next_cursor) is None:
                break
        assert seen == (chains[::-1] if newest_first else chains)


@CASES
async def cursors_belong_to_their_query(h: Harness) -> None:
    """Not to other filters, another direction, or a list of jobs."""
    await h.put(5, queue="a")
    cursor = (await _list(h, limit=2, queue="a")).next_cursor
    assert cursor is not None
    for other in ({}, {"queue": "b"}, {"queue": "a", "newest_first": False}, {"queue": "a", "status": "pending"}):
        await refused(InvalidCursor, _list(h, cursor=cursor, **other))
    await refused(InvalidCursor, h.run(lambda: list_jobs(JobFilter(queue="a"), cursor=cursor), read_only=True))
    jobs = await h.run(lambda: list_jobs(JobFilter(queue="a"), limit=2), read_only=True)
    await refused(InvalidCursor, _list(h, queue="a", cursor=jobs.next_cursor))
    for garbage in ("", "x", "=", "é", 17, cursor[:-2]):
        await refused(InvalidCursor, _list(h, queue="a", cursor=garbage))
    for wrong in (0, 1001, True, "5"):
        await refused(InvalidOption, _list(h, limit=wrong))
