"""What listeners are told of the verbs of clients: of both faces the same, and after the commit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from holdfast import (
    App,
    ChainDeleted,
    Dedup,
    JobCancelled,
    JobCompleted,
    JobContinued,
    JobEnqueued,
    JobFailed,
    JobFilter,
    JobHandle,
    JobReplaced,
    JobRescheduled,
    JobRetried,
    JobStarted,
    Status,
)
from holdfast.errors import InvalidOption
from tests.conformance.client.conftest import Place, settled


@pytest.fixture
def heard(place: Place) -> list[Any]:
    events: list[Any] = []
    place.app.on_event(events.append)
    return events


@pytest.fixture
def work(place: Place) -> JobHandle[..., None]:
    @place.app.job(queue="shop")
    def work(number: int = 0) -> None: ...

    return work


async def test_enqueue(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    """In the order of the calls, each with what it was created as."""
    first, second = await settled(place.client.enqueue_many([work.call(), work.call(1)], tenant="acme"))
    third = await settled(place.client.enqueue(work.call(), blockers=[first]))
    assert heard == [
        JobEnqueued(first.id, first.id, "work", "shop", "acme", Status.PENDING),
        JobEnqueued(second.id, second.id, "work", "shop", "acme", Status.PENDING),
        JobEnqueued(third.id, third.id, "work", "shop", None, Status.BLOCKED),
    ]


async def test_deduplication(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    """Kept: nothing has happened. Replaced in place: the same job. Superseded: a new one."""
    first = await settled(place.client.enqueue(work.call(), dedup="a"))
    await settled(place.client.enqueue(work.call(), dedup="a"))
    await settled(place.client.enqueue(work.call(), dedup=Dedup("a", on_conflict="replace")))
    assert [(type(event), event.job_id) for event in heard] == [(JobEnqueued, first.id), (JobReplaced, first.id)]


async def test_verbs_of_people(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    """What was done, to each job once; of what was refused, nothing."""
    chain = await settled(place.client.enqueue(work.call(), tenant="acme"))
    heard.clear()
    identity = (chain.id, chain.id, "work", "shop", "acme", 0, 0, None)
    await settled(place.client.reschedule([chain, chain.id], delay=60))
    await settled(place.client.cancel(chain, reason="enough"))
    await settled(place.client.cancel(chain))
    await settled(place.client.retry(chain))
    await settled(place.client.delete_chains(chain))
    assert heard == [
        JobRescheduled(*identity),
        JobCancelled(*identity, heard[1].error),
        JobRetried(*identity),
        ChainDeleted(chain.id),
    ]
    assert heard[1].error.message == "enough"


async def test_remove(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    chain = await settled(place.client.enqueue(work.call(), dedup="a"))
    await settled(place.client.remove(work, "a"))
    assert heard[1:] == [ChainDeleted(chain.id)]


async def test_a_filter(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    """Batch by batch, each after its commit."""
    chains = await settled(place.client.enqueue_many([work.call(number) for number in range(5)]))
    heard.clear()
    await settled(place.client.cancel(JobFilter(queue="shop")))
    assert [(type(event), event.job_id) for event in heard] == [(JobCancelled, chain.id) for chain in chains]


async def test_schedules(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    await settled(place.client.schedules.create("daily", work.call(), every=timedelta(days=1)))
    chain = await settled(place.client.schedules.run("daily"))
    assert heard == [JobEnqueued(chain.id, chain.id, "work", "shop", None, Status.PENDING)]


async def test_a_connection_whose_commit_nobody_sees(
    place: Place, heard: list[Any], work: JobHandle[..., None]
) -> None:
    """Nothing is told, neither of what is committed nor of what is rolled back."""
    connection = await place.connect()
    await settled(place.client.enqueue(work.call(), tx=connection))
    await settled(connection.rollback())
    await settled(place.client.enqueue(work.call(), tx=connection))
    await settled(connection.commit())
    await settled(connection.close())
    assert len(await place.jobs()) == 1
    assert heard == []


def _engine_url(place: Place) -> sqlalchemy.URL:
    url = sqlalchemy.make_url(place.url)
    if place.app.store.dialect == "postgres":
        return url.set(drivername="postgresql+psycopg")
    return url.set(drivername="sqlite+aiosqlite" if place.face == "async" else "sqlite")


async def test_a_session(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    """After its commit, for its library says when that is; nothing of what a rollback or a savepoint takes back."""
    if place.face == "sync":
        engine = sqlalchemy.create_engine(_engine_url(place))
        opened: Any = orm.Session(engine)
    else:
        async_engine = sqlalchemy_asyncio.create_async_engine(_engine_url(place))
        opened = sqlalchemy_asyncio.AsyncSession(async_engine)
    gone = await settled(place.client.enqueue(work.call(), tx=opened))
    await settled(opened.rollback())
    assert heard == []
    chain = await settled(place.client.enqueue(work.call(), tx=opened))
    await settled(place.client.complete_job(chain, tx=opened))
    savepoint = await settled(opened.begin_nested())
    await settled(place.client.enqueue(work.call(), tx=opened))
    await settled(savepoint.rollback())
    cancelled = await settled(place.client.enqueue(work.call(), tx=opened))
    await settled(place.client.cancel(cancelled, tx=opened))
    assert heard == []
    await settled(opened.commit())
    await settled(opened.close())
    if place.face == "sync":
        engine.dispose()
    else:
        await async_engine.dispose()
    assert [(type(event), event.job_id) for event in heard] == [
        (JobEnqueued, chain.id),
        (JobCompleted, chain.id),
        (JobEnqueued, cancelled.id),
        (JobCancelled, cancelled.id),
    ]
    assert gone.id not in {event.job_id for event in heard}


async def test_a_refused_batch(place: Place, heard: list[Any], work: JobHandle[..., None]) -> None:
    """All or nothing: nothing."""
    with pytest.raises(InvalidOption):
        await settled(place.client.enqueue_many([work.call(), work.call().options(id="no uuid")]))
    assert heard == []


def test_what_may_listen() -> None:
    app = App("sqlite:////nowhere/at/all.db")

    async def waiting(event: object) -> None: ...

    with pytest.raises(InvalidOption, match="called, not awaited"):
        app.on_event(waiting)
    with pytest.raises(InvalidOption, match="Event"):
        app.on_event(JobStarted, int)(print)  # type: ignore[type-var]  # that is the point
    with pytest.raises(InvalidOption, match="plain function"):
        app.on_event(JobFailed)(3)  # type: ignore[arg-type]  # likewise


def test_what_is_adopted() -> None:
    """Listeners come along with the job types."""
    heard: list[Any] = []
    app, other = App("sqlite:////nowhere/at/all.db"), App("sqlite:////nowhere/else.db")
    other.on_event(JobContinued)(heard.append)
    app.adopt(other)
    assert set(app._listeners.heard) == {JobContinued}
