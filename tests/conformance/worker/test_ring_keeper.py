"""Which buckets a worker takes for its own, while others come, pause, drain and go."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, WorkerConfig
from holdfast.errors import HoldfastError
from holdfast.model.ring import BUCKETS, Ring
from holdfast.operations.worker_life import WorkerIdentity, heartbeat, register_worker, retire_worker
from holdfast.stores import StoreConfig, open_store
from holdfast.testing import FakeClock
from holdfast.worker.config import Affinity
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.ring_keeper import RingKeeper
from tests.conformance.worker.conftest import BRISK

ALL = frozenset(range(BUCKETS))
NOTHING: frozenset[int] = frozenset()


class Member:
    """A worker, as far as rings are concerned."""

    def __init__(self, store: PatientStore, name: str, queues: Sequence[str], affinity: Affinity = "ring") -> None:
        self.config = WorkerConfig(affinity=affinity)
        self.identity = WorkerIdentity(id=name, version="1", queues=queues, metadata={"affinity": affinity})
        self.is_draining = False
        self.gained: list[list[str]] = []
        self.store = store
        self.keeper = RingKeeper(
            store,
            name,
            queues,
            self.config,
            is_draining=lambda: self.is_draining,
            gained=lambda grown: self.gained.append(list(grown)),
        )

    async def join(self) -> None:
        await self.store.run(lambda: register_worker(self.identity))

    async def beat(self) -> None:
        await self.store.run(lambda: heartbeat(self.identity, self.config.dead_after, is_draining=self.is_draining))

    async def leave(self) -> None:
        await self.store.run(lambda: retire_worker(self.identity.id))


class Crew:
    """Several of them on one database, with a clock of its own."""

    def __init__(self, url: str) -> None:
        self.clock = FakeClock()
        self.store = PatientStore(open_store(url, StoreConfig(clock=self.clock)).asynchronous(), timedelta(seconds=20))

    async def hire(self, name: str, *queues: str, affinity: Affinity = "ring") -> Member:
        member = Member(self.store, name, queues, affinity)
        await member.join()
        return member

    async def look(self, *members: Member) -> None:
        for member in members:
            await member.keeper.run_once()


@pytest.fixture
async def crew(place: tuple[str, Any]) -> AsyncIterator[Crew]:
    made = Crew(place[0])
    yield made
    await made.store.close()


def shared_out(queue: str, *members: Member) -> bool:
    """Whether each bucket is somebody's, and nobody else's."""
    shares = [member.keeper.owned(queue) for member in members]
    assert None not in shares
    pairs = itertools.combinations([share for share in shares if share is not None], 2)
    return (
        all(one.isdisjoint(other) for one, other in pairs)
        and NOTHING.union(*(share for share in shares if share is not None)) == ALL
    )


async def test_off(crew: Crew) -> None:
    """With affinity "any" there is no filter, whoever else there is, and nothing is asked."""
    one, _ = await crew.hire("a", "mail", affinity="any"), await crew.hire("b", "mail")
    assert one.keeper.owned("mail") is None
    await crew.store.close()
    assert await one.keeper.run_once() == {"gained": 0, "lost": 0}
    assert one.keeper.owned("mail") is None


async def test_alone(crew: Crew) -> None:
    """Nothing before the first look; then no filter, as nobody is there to share with, and those who are do not."""
    one, _ = await crew.hire("a", "mail"), await crew.hire("b", "mail", affinity="any")
    assert one.keeper.owned("mail") == NOTHING
    assert await one.keeper.run_once() == {"gained": BUCKETS, "lost": 0}
    assert one.keeper.owned("mail") is None
    assert one.gained == [["mail"]]


async def test_a_queue_is_shared_by_those_who_serve_it(crew: Crew) -> None:
    """Three workers, two queues: each queue is shared out among its own, and all views fit together."""
    both, mail, other = [
        await crew.hire("a", "mail", "other"),
        await crew.hire("b", "mail"),
        await crew.hire("c", "other"),
    ]
    await crew.look(both, mail, other)
    assert shared_out("mail", both, mail)
    assert shared_out("other", both, other)
    assert both.keeper.owned("mail") == Ring(["a", "b"]).owned_by("a")


async def test_joining_and_leaving(crew: Crew) -> None:
    """What one more worker takes it gives back when it leaves; who gains is told, and only then."""
    members = [await crew.hire(name, "mail") for name in "abc"]
    await crew.look(*members)
    before = [member.keeper.owned("mail") for member in members]
    late = await crew.hire("d", "mail")
    await crew.look(*members, late)
    assert shared_out("mail", *members, late)
    assert [len(member.gained) for member in members] == [1, 1, 1]
    await late.leave()
    await crew.look(*members)
    assert [member.keeper.owned("mail") for member in members] == before
    assert [len(member.gained) for member in members] == [2, 2, 2]
    assert await members[0].keeper.run_once() == {"gained": 0, "lost": 0}
    assert [len(member.gained) for member in members] == [2, 2, 2]


async def test_a_dead_worker_is_followed(crew: Crew) -> None:
    """One falls silent: after `dead_after` the others own what it had, and it gets that back when it is heard again."""
    members = [await crew.hire(name, "mail") for name in "abc"]
    await crew.look(*members)
    before = [member.keeper.owned("mail") for member in members]
    paused, *others = members
    for _ in range(3):
        crew.clock.advance(timedelta(seconds=8))
        for member in others:
            await member.beat()
    await crew.look(*others)
    assert shared_out("mail", *others)

    # It may believe in its buckets until it looks; then it knows that others have them.
    await crew.look(paused)
    assert paused.keeper.owned("mail") == NOTHING
    await paused.beat()
    await crew.look(*members)
    assert [member.keeper.owned("mail") for member in members] == before


async def test_a_draining_worker_owns_nothing(crew: Crew) -> None:
    """By its own account at once, and by that of others as soon as they have heard of it."""
    leaving, staying = await crew.hire("a", "mail"), await crew.hire("b", "mail")
    await crew.look(leaving, staying)
    leaving.is_draining = True
    assert leaving.keeper.owned("mail") == NOTHING
    await leaving.beat()
    await crew.look(leaving, staying)
    assert leaving.keeper.owned("mail") == NOTHING
    assert staying.keeper.owned("mail") is None


async def test_without_a_row(crew: Crew) -> None:
    """Whoever is unknown to the others owns nothing, until its next heartbeat; but without others it goes on."""
    lost, other = await crew.hire("a", "mail"), await crew.hire("b", "mail")
    await lost.leave()
    await crew.look(lost, other)
    assert (lost.keeper.owned("mail"), other.keeper.owned("mail")) == (NOTHING, None)
    await lost.beat()
    await crew.look(lost, other)
    assert shared_out("mail", lost, other)
    await lost.leave()
    await other.leave()
    await crew.look(lost)
    assert lost.keeper.owned("mail") is None


async def test_what_cannot_be_read_changes_nothing(crew: Crew, place: tuple[str, Any]) -> None:
    """It keeps to what it knew."""
    one, other = await crew.hire("a", "mail"), await crew.hire("b", "mail")
    await crew.look(one, other)
    before = one.keeper.owned("mail")
    url, backdoor = place
    table, away = ("holdfast_worker", "away") if url.startswith("sqlite") else ("holdfast.worker", "holdfast.away")
    backdoor.execute(f"ALTER TABLE {table} RENAME TO away", {})
    try:
        with pytest.raises(HoldfastError):
            await one.keeper.run_once()
        assert one.keeper.owned("mail") == before
    finally:
        backdoor.execute(f"ALTER TABLE {away} RENAME TO {table.rpartition('.')[2]}", {})
    assert await one.keeper.run_once() == {"gained": 0, "lost": 0}


async def test_a_worker_says_that_it_wants_to_share(place: tuple[str, Any]) -> None:
    """In its metadata, where the others find it; by default it does not."""
    app = App(place[0])

    @app.job(queue="mail")
    async def work() -> None: ...

    async with app.async_client() as client:
        for affinity, settings in (("any", {}), ("ring", {"affinity": "ring"})):
            async with app.worker(config=BRISK, **settings):  # type: ignore[arg-type]  # as users give it
                (worker,) = await client.workers.list()
                assert worker.metadata["affinity"] == affinity
    app.close()
