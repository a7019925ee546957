"""enqueue_jobs: jobs come into being in order, once, and exactly as they were sent."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from holdfast.errors import HoldfastError, InvalidOption
from holdfast.model.call import JobDocument
from holdfast.model.ids import new_id, new_ids
from holdfast.model.status import Status
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.enqueue_jobs import Aliases, enqueue_jobs, enqueue_plain
from holdfast.operations.list_jobs import list_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, ids_of, refused

CASES = Cases("enqueue_jobs")


async def _plain(h: Harness, *jobs: JobDocument, aliases: Aliases | None = None) -> dict[str, Status]:
    given = {job.id for job in jobs}
    return await h.run(lambda: enqueue_plain(jobs, None, given, aliases))


@CASES
async def given_id_of_another_job(h: Harness) -> None:
    """An id of another type, or of a later job of a chain, is refused with all of its batch; sent again it is kept."""
    (lease,) = await h.put_and_claim()
    following = new_id()
    continuation = Continuation(lease.id, lease.lease_generation, document(id=following, type_name="next"))
    await h.run(lambda: continue_jobs("w1", [continuation]))
    others_have = ((lease.id, "next", "'sum'"), (following, "next", "later"), (following, "sum", "later"))
    for job_id, type_name, named in others_have:
        for others in ((), (document(),)):
            error = await refused(InvalidOption, _plain(h, *others, document(id=job_id, type_name=type_name)))
            assert (error.option, error.value, named in str(error)) == ("id", job_id, True)
    assert h.count("job") == 2
    assert await _plain(h, document(), document(id=lease.id)) == {lease.id: Status.COMPLETED}
    renamed = document(id=lease.id, type_name="total")
    assert await _plain(h, renamed, aliases={"total": ("sum",)}) == {lease.id: Status.COMPLETED}
    assert h.count("job") == 3


@CASES
async def first_job_is_pending_and_clean(h: Harness) -> None:
    """A first job is its own chain, pending, at attempt 0, with every finish, lease and error field empty."""
    job_id = await h.put_one(type_name="send", queue="mail", priority=-7)
    job = await h.job(job_id)
    assert (job.id, job.chain_id, job.chain_index, job.chain_type_name) == (job_id, job_id, 0, "send")
    assert (job.type_name, job.queue, job.priority) == ("send", "mail", -7)
    assert (job.status, job.held, job.attempt, job.crash_count, job.lease_generation) == (
        Status.PENDING,
        False,
        0,
        0,
        0,
    )
    assert job.created_at == job.scheduled_at == job.ready_at == h.now
    empty = (
        job.output,
        job.max_attempts,
        job.timeout_ms,
        job.last_attempt_at,
        job.finished_at,
        job.completed_by,
        job.duration_ms,
        job.last_attempt_error,
        job.leased_by,
        job.leased_until,
        job.tenant,
        job.headers,
    )
    assert empty == (None,) * len(empty)
    assert await h.attempts(job_id) == []


@CASES
async def options_are_stored(h: Harness) -> None:
    """Attempts, timeout, tenant and headers arrive as they were sent."""
    headers = {"trace": "00-4bf9", "naïve": "✓ 'quoted' \"text\""}
    job = await h.job(
        await h.put_one(
            max_attempts=32_767, timeout_ms=1, tenant="Müller & Söhne", headers=_raw(headers), priority=32_767
        )
    )
    assert (job.max_attempts, job.timeout_ms, job.tenant, job.headers) == (32_767, 1, "Müller & Söhne", headers)
    assert job.priority == 32_767


_INPUTS: dict[str, object] = {
    "empty_object": {},
    "null": {"value": None, "inner": [None, {"deep": None}]},
    "nested": {"a": {"b": [[], {}, [{"c": [1, [2, [3]]]}]]}},
    "empty_array_and_text": {"list": [], "text": "", "blank": " "},
    "booleans_beside_numbers": {"values": [True, False, 0, 1]},
    "floats": {"values": [0.1, 1e300, -1e-300, 5e-324, 1.7976931348623157e308, 3.0, -0.5, 1 / 3]},
    "big_integers": {"values": [2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**70, -(2**100)]},
    "unicode": {
        "grüße": "Ærøskøbing",
        "中文": "汉字",
        "עברית": "שלום",
        "combining": "e\u0301",
        "line\u2028end": "\u2029",
    },
    "emoji": {"text": "👩‍👩‍👧‍👦 🏳️‍🌈 \U0001d4b3 🇦🇹"},
    "control_characters": {"text": "\x01\x1f\x7f\t\r\n\b\f"},
    "quotes_and_escapes": {
        "it's": 'say "hi" \\ / \\u0041 \\n',
        "$.path": "$[0]",
        "": "empty key",
        "a.b[0]": "' OR 1=1 --",
    },
    "sql_and_placeholders": {"text": ":id %s %(id)s $1 ? {job} /*schema.*/ -- ; DROP TABLE job"},
    "long_text": {"text": "ö" * 100_000},
    "deep_nesting": {"value": [[[[[[[[[[[[[[[[[[[["deep"]]]]]]]]]]]]]]]]]]]]},
}


async def _round_trip(h: Harness, sent: object) -> None:
    job_id = await h.put_one(input=sent)
    found = (await h.job(job_id)).input
    assert found == sent
    assert _kinds(found) == _kinds(sent)
    (claimed,) = await h.claim()
    assert _decoded(claimed.input) == sent
    page = await h.run(list_jobs, read_only=True)
    assert [job.input for job in page.items] == [sent]


for _name, _sent in _INPUTS.items():
    CASES.add(f"input_round_trips_{_name}", "Input comes back exactly.", partial(_round_trip, sent=_sent))


@CASES
async def batch_keeps_order(h: Harness) -> None:
    """The order of a batch is the order of seq, whatever its ids sort like."""
    ids = sorted(new_ids(50), reverse=True)
    await h.enqueue(*(document(id=job_id) for job_id in ids))
    page = await h.run(lambda: list_jobs(newest_first=False), read_only=True)
    assert ids_of(page.items) == ids
    assert [job.seq for job in page.items] == sorted({job.seq for job in page.items})


@CASES
async def later_enqueue_is_behind(h: Harness) -> None:
    """A job whose enqueue began after another's returned has the greater seq, through whatever connection it came."""
    stores = h.neighbours(3)
    ids = new_ids(30)
    for number, job_id in enumerate(ids):
        await stores[number % 3].run(partial(enqueue_jobs, [document(id=job_id)], None))
    page = await h.run(lambda: list_jobs(newest_first=False), read_only=True)
    assert ids_of(page.items) == ids


@CASES
async def large_batch(h: Harness) -> None:
    """Thousands of jobs go in one statement."""
    ids = await h.put(5_000, input={"text": "x" * 50})
    assert h.count("job") == 5_000
    assert len(set(ids)) == 5_000


@CASES
async def batch_is_all_or_nothing(h: Harness) -> None:
    """One job that the database refuses takes the whole batch with it."""
    bad = document(priority=40_000)
    await refused(HoldfastError, h.enqueue(document(), bad, document()))
    assert h.count("job") == 0
    await h.put()


@CASES
async def empty_batch(h: Harness) -> None:
    """Nothing sent, nothing made."""
    assert await h.enqueue() == {}
    assert h.count("job") == 0


@CASES
async def past_is_clamped_to_now(h: Harness) -> None:
    """A time in the past means now, for display and for order."""
    job = await h.job(await h.put_one(at=h.now - timedelta(days=400)))
    assert job.scheduled_at == job.ready_at == h.now


@CASES
async def future_time_is_kept(h: Harness) -> None:
    """A time in the future is kept to the microsecond, and the job is created now."""
    at = h.now + timedelta(days=3, microseconds=123_457)
    job = await h.job(await h.put_one(at=at))
    assert (job.scheduled_at, job.ready_at, job.created_at) == (at, at, h.now)


@CASES
async def far_future_time_is_kept(h: Harness) -> None:
    """The last day that a datetime can hold."""
    at = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert (await h.job(await h.put_one(at=at))).ready_at == at


@CASES
async def delay_counts_from_now(h: Harness) -> None:
    """A delay of milliseconds, minutes and a hundred years."""
    for delay_ms in (1, 1_500, 90_061_007, 366 * 100 * 86_400_000):
        job = await h.job(await h.put_one(delay_ms=delay_ms))
        assert job.scheduled_at == job.ready_at == h.now + timedelta(milliseconds=delay_ms)


@CASES
async def delay_of_zero_is_now(h: Harness) -> None:
    """No delay and a delay of zero are the same, also between two milliseconds."""
    h.clock.advance(timedelta(microseconds=1_499))
    job = await h.job(await h.put_one(delay_ms=0))
    assert job.ready_at == h.now


@CASES
async def existing_id_is_kept(h: Harness) -> None:
    """An id that exists changes nothing, is reported with its status, and others of the batch are made."""
    first = await h.put_one(input={"first": True})
    before = await h.job(first)
    other = new_id()
    h.clock.advance(60)
    existing = await h.enqueue(document(id=first, input={"first": False}, queue="other"), document(id=other))
    assert existing == {first: Status.PENDING}
    assert await h.job(first) == before
    assert (await h.job(other)).status is Status.PENDING


@CASES
async def existing_id_reports_any_status(h: Harness) -> None:
    """A finished job is not made anew by its id."""
    (lease,) = await h.put_and_claim()
    await h.complete(lease)
    assert await h.enqueue(document(id=lease.id)) == {lease.id: Status.COMPLETED}
    assert h.count("job") == 1


@CASES
async def own_id_sent_again_is_not_reported(h: Harness) -> None:
    """An id that the client made and that exists was sent by a try whose answer was lost: nothing is made or said."""
    sent = document()
    for _ in range(2):
        assert await h.run(lambda: enqueue_jobs([sent], None)) == {}
    assert h.count("job") == 1


@CASES
async def same_id_at_once_makes_one_job(h: Harness) -> None:
    """Race: many connections enqueue one id; one job comes of it and nobody fails."""
    stores = h.neighbours(6)
    for _ in range(15):
        job_id = new_id()
        answers = await asyncio.gather(
            *(store.run(partial(enqueue_jobs, [document(id=job_id)], None, {job_id})) for store in stores)
        )
        assert sum(answer == {} for answer in answers) == 1
        assert all(answer in ({}, {job_id: Status.PENDING}) for answer in answers)
    assert h.count("job") == 15


@CASES
async def parallel_enqueues_lose_nothing(h: Harness) -> None:
    """Race: batches of several connections are all there, each in its own order."""
    stores = h.neighbours(6)
    batches = [new_ids(40) for _ in range(18)]
    await asyncio.gather(
        *(
            stores[number % 6].run(partial(enqueue_jobs, [document(id=job_id) for job_id in ids], None))
            for number, ids in enumerate(batches)
        )
    )
    page = await h.run(lambda: list_jobs(newest_first=False, limit=1000), read_only=True)
    place = {job.id: number for number, job in enumerate(page.items)}
    assert len(place) == 720
    for ids in batches:
        assert [place[job_id] for job_id in ids] == sorted(place[job_id] for job_id in ids)


def _raw(value: object) -> Any:
    return document(input=value).input


def _decoded(data: bytes | str) -> object:
    import msgspec

    return msgspec.json.decode(data)


def _kinds(value: object) -> object:
    """Equality alone would take 1, 1.0 and True for the same."""
    if isinstance(value, dict):
        return {key: _kinds(child) for key, child in value.items()}
    return [_kinds(child) for child in value] if isinstance(value, list) else type(value)
