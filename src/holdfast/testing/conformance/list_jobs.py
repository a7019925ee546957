"""list_jobs: pages that neither overlap nor skip."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.errors import InvalidCursor, InvalidOption
from holdfast.model.ids import new_id
from holdfast.model.job import Job, Page
from holdfast.model.job_filter import JobFilter
from holdfast.operations.lease import Lease
from holdfast.operations.list_jobs import list_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.get_chain import continue_with, put_chain
from holdfast.testing.conformance.harness import Harness, ids_of, refused
from holdfast.testing.conformance.list_chains import put_in_every_state

CASES = Cases("list_jobs")


async def _list(h: Harness, **options: Any) -> Page[Job]:
    paging = {name: options.pop(name) for name in ("limit", "cursor", "newest_first") if name in options}
    return await h.run(lambda: list_jobs(JobFilter(**options), **paging), read_only=True)


async def _ids(h: Harness, **filters: Any) -> list[str]:
    return ids_of((await _list(h, **filters)).items)


@CASES
async def empty(h: Harness) -> None:
    """An empty page without a cursor."""
    assert await _list(h) == Page([], None)


@CASES
async def newest_first_or_oldest_first(h: Harness) -> None:
    """In order of enqueue, either way; newest first unless told."""
    ids = await h.put(5)
    assert await _ids(h) == ids[::-1]
    assert await _ids(h, newest_first=True) == ids[::-1]
    assert await _ids(h, newest_first=False) == ids


@CASES
async def same_job_as_get_job(h: Harness) -> None:
    """A listed job has every field that a single one has."""
    await h.put(input={"n": None}, tenant="t", max_attempts=3, timeout_ms=9)
    await h.fail(await h.claim_one(), delay=timedelta(hours=1))
    (done,) = await h.put_and_claim()
    await h.complete(done, output="[1]")
    await h.put_and_claim()
    for job in (await _list(h)).items:
        assert job == await h.job(job.id)


@CASES
async def filters(h: Harness) -> None:
    """Type, queue, tenant and status, each alone and together."""
    a = await h.put_one(type_name="a", queue="q1", tenant="t1")
    b = await h.put_one(type_name="b", queue="q1", tenant="t2")
    c = await h.put_one(type_name="a", queue="q2")
    (claimed,) = await h.claim(queues=("q2",))
    assert claimed.id == c
    found = {
        "type": await _ids(h, type_name="a"),
        "queue": await _ids(h, queue="q1"),
        "tenant": await _ids(h, tenant="t2"),
        "status": await _ids(h, status="running"),
        "statuses": await _ids(h, status=["running", "pending"]),
        "no status": await _ids(h, status=[]),
        "together": await _ids(h, type_name="a", queue="q1", tenant="t1", status=["pending"]),
        "nothing": await _ids(h, type_name="a", tenant="t2"),
        "case matters": await _ids(h, type_name="A"),
        "no wildcard": await _ids(h, queue="q%"),
    }
    assert found == {
        "type": [c, a],
        "queue": [b, a],
        "tenant": [b],
        "status": [c],
        "statuses": [c, b, a],
        "no status": [],
        "together": [a],
        "nothing": [],
        "case matters": [],
        "no wildcard": [],
    }


@CASES
async def by_id_and_chain(h: Harness) -> None:
    """Single ids or lists of them; unknown ones match nothing; a chain means all of its jobs."""
    a, b = await h.put(2)
    lonely = await h.put_one(type_name="check")
    leases = {job.id: Lease(job.id, job.lease_generation) for job in await h.claim()}
    later = await continue_with(h, leases[a], type_name="check")
    found = {
        "id": await _ids(h, ids=b),
        "ids": await _ids(h, ids=[a, b, new_id()]),
        "no ids": await _ids(h, ids=[]),
        "later id": await _ids(h, ids=later),
        "chain": await _ids(h, chain_ids=a),
        "chains": await _ids(h, chain_ids={a, b}),
        "no chain": await _ids(h, chain_ids=[later]),
        "id of chain": await _ids(h, ids=[later, b], chain_ids=a),
        "type": await _ids(h, type_name="check"),
        "chain type": await _ids(h, chain_type_name="sum"),
        "both types": await _ids(h, type_name="check", chain_type_name="sum"),
        "state": await _ids(h, ids=[a, b, later], status=["pending", "completed"]),
    }
    assert found == {
        "id": [b],
        "ids": [b, a],
        "no ids": [],
        "later id": [later],
        "chain": [later, a],
        "chains": [later, b, a],
        "no chain": [],
        "id of chain": [later],
        "type": [later, lonely],
        "chain type": [later, b, a],
        "both types": [later],
        "state": [later, a],
    }


@CASES
async def by_partition_key(h: Harness) -> None:
    """Exactly that key."""
    a, b = await h.put(2)
    for job_id, key in ((a, "order:1"), (b, "order:11")):
        h.sql("UPDATE {job} SET partition_key = :key WHERE id = :id", key=key, id=job_id)
    assert await _ids(h, partition_key="order:1") == [a]
    assert await _ids(h, partition_key="order:") == []
    assert (await h.job(a)).partition_key == "order:1"


@CASES
async def by_every_state(h: Harness) -> None:
    """Alone and together, first jobs and later ones, in one order."""
    states = ("blocked", "dead_letter", "cancelled", "running", "completed", "pending")
    found = await _put_in_every_state(h)
    everything = sorted((job for jobs in found.values() for job in jobs), key=lambda job: job[0])
    for state in states:
        assert await _ids(h, status=state, newest_first=False) == [job_id for _, job_id in found[state]], state
    for count in range(2, 7):
        for chosen in itertools.combinations(states, count):
            expected = [job_id for _, job_id in everything if any((_, job_id) in found[state] for state in chosen)]
            assert await _ids(h, status=chosen, newest_first=False) == expected, chosen
            assert await _ids(h, status=chosen) == expected[::-1], chosen


async def _put_in_every_state(h: Harness) -> dict[str, list[tuple[int, str]]]:
    """By state, (seq, id) of first jobs and of later ones among each other."""
    await put_in_every_state(h)
    await put_in_every_state(h)
    found: dict[str, list[tuple[int, str]]] = {}
    for seq, job_id, status in h.sql("SELECT seq, id, status FROM {job} ORDER BY seq"):
        found.setdefault(status, []).append((seq, str(job_id)))
    return found


@CASES
async def pages_within_states(h: Harness) -> None:
    """Every job once, whichever index leads to it, while more are inserted."""
    found = await _put_in_every_state(h)
    for chosen in (["dead_letter"], ["blocked", "running"], ["pending"], ["cancelled", "pending", "running"]):
        expected = sorted(job for state in chosen for job in found[state])

        async def insert() -> None:
            await put_chain(h, 1, queue="elsewhere", at=h.now + timedelta(days=1))

        seen = await _walk(h, between=insert, status=chosen)
        assert seen == [job_id for _, job_id in expected][::-1], chosen
        h.sql("DELETE FROM {job} WHERE queue = 'elsewhere'")


@CASES
async def many_pending_jobs(h: Harness) -> None:
    """More than are sorted in one go: still each once, in order."""
    done = [await h.put_one() for _ in range(3)]
    await h.complete(*[Lease(job.id, job.lease_generation) for job in await h.claim()])
    ids = await h.put(5200, queue="many")
    late = await h.put_one()
    await h.complete(await h.claim_one())
    first = await _list(h, status="pending", limit=1000)
    assert ids_of(first.items) == ids[:-1001:-1]
    oldest = await _list(h, status=["pending", "running"], limit=1000, newest_first=False)
    assert ids_of(oldest.items) == ids[:1000]
    assert await _ids(h, status="completed") == [late, *done[::-1]]


@CASES
async def since_and_until(h: Harness) -> None:
    """From `since` on, up to but without `until`, to the microsecond and in any time zone."""
    start = h.now
    ids = []
    for _ in range(4):
        ids.append(await h.put_one())
        h.clock.advance(timedelta(microseconds=1))
    second, fourth = start + timedelta(microseconds=1), start + timedelta(microseconds=3)
    assert await _ids(h, since=second, until=fourth, newest_first=False) == ids[1:3]
    assert await _ids(h, since=fourth) == ids[3:]
    assert await _ids(h, until=second) == ids[:1]
    assert await _ids(h, since=second.astimezone(_zone(9)), newest_first=False) == ids[1:]


async def _walk(h: Harness, between: Callable[[], Any] | None = None, **filters: Any) -> list[str]:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await _list(h, cursor=cursor, limit=3, **filters)
        seen += ids_of(page.items)
        assert len(page.items) <= 3
        if page.next_cursor is None:
            return seen
        assert len(page.items) == 3
        cursor = page.next_cursor
        if between is not None:
            await between()


@CASES
async def pages_cover_all(h: Harness) -> None:
    """Every job once; no empty last page when the number is a multiple of the page."""
    ids = await h.put(9)
    assert await _walk(h, newest_first=False) == ids
    assert await _walk(h) == ids[::-1]
    await h.put(1)
    assert len(await _walk(h)) == 10


@CASES
async def pages_hold_while_rows_are_inserted(h: Harness) -> None:
    """Insertions between pages neither repeat nor hide what was there; oldest first, they come at the end."""
    old = await h.put(10)
    assert await _walk(h, between=h.put) == old[::-1]
    everything = await _ids(h, newest_first=False)
    fresh: list[str] = []

    async def insert() -> None:
        if len(fresh) < 4:
            fresh.extend(await h.put(2))

    assert await _walk(h, between=insert, newest_first=False) == everything + fresh


@CASES
async def pages_hold_while_rows_are_deleted(h: Harness) -> None:
    """Deletions behind the cursor shift nothing."""
    ids = await h.put(9)
    first = await _list(h, limit=3, newest_first=False)
    for job_id in ids[:3]:
        h.sql("DELETE FROM {job} WHERE id = :id", id=job_id)
    assert await _ids(h, cursor=first.next_cursor, limit=3, newest_first=False) == ids[3:6]


@CASES
async def pages_keep_their_filters(h: Harness) -> None:
    """A cursor goes on within its filters."""
    wanted = []
    for _ in range(7):
        wanted.append(await h.put_one(queue="a", tenant="t"))
        await h.put(queue="b", tenant="t")
    assert await _walk(h, queue="a", tenant="t", newest_first=False) == wanted


@CASES
async def page_size_may_change(h: Harness) -> None:
    """The limit is not part of the query that a cursor belongs to."""
    ids = await h.put(6)
    page = await _list(h, limit=2, newest_first=False)
    assert await _ids(h, limit=100, cursor=page.next_cursor, newest_first=False) == ids[2:]


@CASES
async def cursor_of_another_query(h: Harness) -> None:
    """Other filters or another direction: refused, with the cursor in the error."""
    await h.put(5, queue="a", tenant="t")
    cursor = (await _list(h, limit=2, queue="a")).next_cursor
    assert cursor is not None
    others: list[dict[str, Any]] = [
        {},
        {"queue": "b"},
        {"queue": "a", "tenant": "t"},
        {"queue": "a", "newest_first": False},
        {"tenant": "a"},
        {"queue": "a", "status": "pending"},
        {"queue": "a", "since": datetime(2026, 1, 1, tzinfo=UTC)},
    ]
    for other in others:
        error = await refused(InvalidCursor, _list(h, cursor=cursor, **other))
        assert cursor in str(error)


@CASES
async def cursor_that_is_garbage(h: Harness) -> None:
    """Whatever it is, it is refused before anything is sent."""
    await h.put(5)
    good = (await _list(h, limit=2)).next_cursor
    assert good is not None
    garbage: list[object] = [
        "",
        "x",
        "!!!",
        "é",
        "null",
        "\x00",
        "=" * 5,
        "A" * 5000,
        good[:-2],
        good[1:],
        good[::-1],
        17,
        b"x",
        _cursor('{"seq": 1}'),
        _cursor('{"seq": "1", "query": "x"}'),
        _cursor("[]"),
        _altered(good, 2**70),
        _altered(good, -(2**70)),
    ]
    for wrong in garbage:
        await refused(InvalidCursor, _list(h, cursor=wrong))


@CASES
async def limit_bounds(h: Harness) -> None:
    """From 1 to 1,000, whole numbers only."""
    await h.put(2)
    assert len(await _ids(h, limit=1)) == 1
    assert len(await _ids(h, limit=1000)) == 2
    for wrong in (0, -1, 1001, 2**70, 1.5, "10", None, True):
        error = await refused(InvalidOption, _list(h, limit=wrong))
        assert "limit" in str(error)


@CASES
async def filter_values_are_checked(h: Harness) -> None:
    """A bad filter is named before anything is sent."""
    wrong: list[tuple[str, object]] = [
        ("status", "done"),
        ("status", ["pending", "PENDING"]),
        ("type_name", ""),
        ("queue", "a\x00b"),
        ("tenant", 7),
        ("since", "2026-01-01"),
        ("until", datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
    ]
    for option, value in wrong:
        error = await refused(InvalidOption, _list(h, **{option: value}))
        assert error.option == option


@CASES
async def uncommitted_work_is_not_listed(h: Harness) -> None:
    """Another transaction's deletions and changes do not show before they commit."""
    ids = await h.put(3)
    with h.holding("DELETE FROM {job}"):
        assert await _ids(h, newest_first=False) == ids
    assert await _ids(h, newest_first=False) == ids


@CASES
async def readers_do_not_disturb_each_other(h: Harness) -> None:
    """Race: pages are read from many sides while jobs are written."""
    ids = await h.put(30)

    async def read() -> None:
        for _ in range(5):
            assert set(ids) <= set(await _ids(h, limit=1000))

    async def write() -> None:
        for _ in range(10):
            await h.put(3)

    await asyncio.gather(read(), write(), read(), read())


def _zone(hours: int) -> Any:
    from datetime import timezone

    return timezone(timedelta(hours=hours))


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _altered(cursor: str, seq: int) -> str:
    """A cursor of the right query with a place that no job can have."""
    import msgspec

    content = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    return _cursor(msgspec.json.encode(content | {"seq": seq}).decode())
