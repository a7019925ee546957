"""list_blocked_jobs: who waits for a chain."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidCursor
from holdfast.model.call import Extras
from holdfast.model.ids import new_id
from holdfast.model.job import Job, Page
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.list_jobs import list_blocked_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.get_chain import continue_with
from holdfast.testing.conformance.harness import Harness, document, ids_of, lease_of, refused

CASES = Cases("list_blocked_jobs")


async def _waiting(h: Harness, chain_id: str, **paging: Any) -> Page[Job]:
    return await h.run(lambda: list_blocked_jobs(chain_id, **paging), read_only=True)


async def put_behind(h: Harness, *chains: str, count: int = 1, **extras: Any) -> list[str]:
    """Jobs that wait for all of these."""
    documents = [document(more=Extras(blockers=list(chains), **extras)) for _ in range(count)]
    await h.run(lambda: enqueue_guarded(documents, None))
    return [each.id for each in documents]


@CASES
async def nobody(h: Harness) -> None:
    """A chain that nobody waits for, and one that does not exist."""
    assert await _waiting(h, await h.put_one()) == Page([], None)
    assert await _waiting(h, new_id()) == Page([], None)


@CASES
async def those_who_wait(h: Harness) -> None:
    """In order of enqueue, with all their columns; not those who wait for something else."""
    one, two = await h.put(2)
    first = await put_behind(h, one)
    both = await put_behind(h, two, one)
    await put_behind(h, two)
    page = await _waiting(h, one)
    assert ids_of(page.items) == first + both
    assert [job.waiting_for for job in page.items] == [1, 2]
    assert page.items[0] == await h.job(first[0])
    assert ids_of((await _waiting(h, one, newest_first=True)).items) == both + first


@CASES
async def until_the_chain_has_ended(h: Harness) -> None:
    """A chain that goes on is still waited for; once it has ended nobody waits for it any more."""
    chain = await h.put_one()
    (dependant,) = await put_behind(h, chain)
    (job,) = await h.claim()
    await continue_with(h, lease_of(job))
    assert ids_of((await _waiting(h, chain)).items) == [dependant]
    (job,) = await h.claim()
    await h.complete(lease_of(job))
    assert await _waiting(h, chain) == Page([], None)


@CASES
async def a_dead_letter_is_waited_for(h: Harness) -> None:
    """Until somebody retries it."""
    chain = await h.put_one()
    (dependant,) = await put_behind(h, chain)
    await h.fail(await h.claim_one(), is_final=True)
    assert ids_of((await _waiting(h, chain)).items) == [dependant]


@CASES
async def who_was_cancelled_does_not_wait(h: Harness) -> None:
    """With on_blocker_failure="cancel", the dependant ends with the chain."""
    chain = await h.put_one()
    await put_behind(h, chain, on_blocker_failure="cancel")
    await h.fail(await h.claim_one(), is_final=True)
    assert await _waiting(h, chain) == Page([], None)


@CASES
async def pages(h: Harness) -> None:
    """They neither overlap nor skip while more begin to wait; a cursor belongs to its chain."""
    chain, other = await h.put(2)
    waiting = await put_behind(h, chain, count=5)
    page = await _waiting(h, chain, limit=2)
    waiting += await put_behind(h, chain)
    rest = await _waiting(h, chain, limit=10, cursor=page.next_cursor)
    assert ids_of(page.items) + ids_of(rest.items) == waiting
    await refused(InvalidCursor, _waiting(h, other, cursor=page.next_cursor))
    await refused(InvalidCursor, _waiting(h, chain, cursor=page.next_cursor, newest_first=True))
