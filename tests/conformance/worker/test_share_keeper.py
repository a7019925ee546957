"""What a share keeper answers at any moment: by what it was last told, and nothing while that is in doubt."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest

from holdfast import App
from holdfast.client import Client
from holdfast.errors import DatabaseUnavailable
from holdfast.model.scan_position import Lane
from holdfast.operations.statement import Verb
from holdfast.operations.worker_life import WorkerIdentity, register_worker, retire_worker
from holdfast.stores import AsyncStore, open_store
from holdfast.stores.open import StoreConfig
from holdfast.worker import share_keeper
from holdfast.worker.share_keeper import ShareKeeper

T = TypeVar("T")
Place = tuple[str, Any]


class Line:
    """A store whose answers to writes can be delayed, or lost after the commit."""

    def __init__(self, store: AsyncStore) -> None:
        self.store = store
        self.is_losing = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.writes = 0

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        answer = await self.store.run(verb, read_only=read_only)
        if read_only:
            return answer
        self.writes += 1
        await self.may_answer.wait()
        if self.is_losing:
            raise DatabaseUnavailable("the connection was lost after the commit")
        return answer


@pytest.fixture
def client(place: Place) -> Iterator[Client]:
    app = App(place[0], notify=False)
    with app.client() as client:
        yield client
    app.close()


async def _register(store: AsyncStore, worker_id: str) -> None:
    await store.run(partial(register_worker, WorkerIdentity(id=worker_id, version="0.1.0", queues=["q"])))


@pytest.fixture
async def line(place: Place) -> AsyncIterator[Line]:
    store = open_store(place[0], StoreConfig()).asynchronous()
    for name in ("w1", "w2"):
        await _register(store, name)
    yield Line(store)
    await store.close()


def keeper(line: Line, worker_id: str = "w1", demand: int = 4, **options: Any) -> ShareKeeper:
    return ShareKeeper(line, worker_id, ["q"], lambda _: demand, interval=timedelta(seconds=0), **options)


async def test_a_queue_without_limits(line: Line, client: Client) -> None:
    """Any number, and nothing is written; a limit on a queue that it does not serve is none of its business."""
    client.queues.limit("other", concurrency=1)
    shares = keeper(line)
    await shares.look()
    assert (shares.room("q"), shares.permits("q"), shares.tokens("q"), shares.seconds_until_room("q")) == (
        *(None, None, None),
        0.0,
    )
    assert (shares.room("other"), line.writes) == (None, 0)
    shares.claiming("q", 100)
    shares.claimed("q", 100)


async def test_permits_are_used_and_come_back(line: Line, client: Client) -> None:
    """Claimed, under way, and ended."""
    client.queues.limit("q", concurrency=3)
    shares = keeper(line)
    await shares.look()
    assert (shares.room("q"), shares.permits("q"), shares.tokens("q")) == (3, 3, None)
    with pytest.raises(RuntimeError, match="4 jobs of q"):
        shares.claiming("q", 4)
    shares.claiming("q", 3)
    assert shares.room("q") == 0
    with pytest.raises(RuntimeError, match="under way"):
        shares.claiming("q", 1)
    shares.claimed("q", 2)
    assert shares.room("q") == 1
    shares.claiming("q", 1)
    shares.claimed("q", 1)
    assert (shares.room("q"), shares.seconds_until_room("q")) == (0, math.inf)
    shares.ended("q", 2)
    assert (shares.room("q"), shares.seconds_until_room("q")) == (2, 0.0)


async def test_what_ran_before_the_limit_counts(line: Line, client: Client) -> None:
    """It has told of that all along."""
    shares = keeper(line)
    await shares.look()
    shares.claiming("q", 3)
    shares.claimed("q", 3)
    client.queues.limit("q", concurrency=4)
    await shares.look()
    assert (shares.permits("q"), shares.room("q")) == (4, 1)


async def test_nothing_is_claimed_while_it_asks(line: Line, client: Client) -> None:
    """Nor asked while it claims; but when it is time to ask, no other claim comes first."""
    client.queues.limit("q", concurrency=3)
    shares = keeper(line)
    await shares.look()
    line.may_answer.clear()
    writes = line.writes
    asking = asyncio.create_task(shares.look())
    while line.writes == writes:  # noqa: ASYNC110 - there is nobody to tell
        await asyncio.sleep(0.001)
    assert shares.room("q") == 0
    line.may_answer.set()
    await asking
    assert shares.room("q") == 3
    shares.claiming("q", 1)
    writes = line.writes
    await shares.look()
    assert line.writes == writes
    shares.claimed("q", 0)
    assert shares.room("q") == 0
    shares.look_soon()
    await shares.look()
    assert shares.room("q") == 3


async def test_no_more_handlers_start_while_it_asks(line: Line, client: Client) -> None:
    """Than it said: by the time of the answer others may have the rest."""
    running = 1
    client.queues.limit("q", concurrency=3)
    shares = keeper(line, in_use=lambda _: running)
    assert shares.most("q") is None
    await shares.look()
    assert shares.most("q") == 3
    line.may_answer.clear()
    writes = line.writes
    asking = asyncio.create_task(shares.look())
    while line.writes == writes:  # noqa: ASYNC110 - there is nobody to tell
        await asyncio.sleep(0.001)
    assert shares.most("q") == 1
    line.may_answer.set()
    await asking
    assert shares.most("q") == 3
    line.is_losing = True
    with pytest.raises(DatabaseUnavailable):
        await shares.look()
    assert shares.most("q") == 0


async def test_no_handler_starts_by_what_is_not_known(line: Line, client: Client) -> None:
    """A limit that it has just heard of, and an answer after which it may have been taken for dead."""
    client.queues.limit("q", concurrency=3)
    shares = keeper(line, dead_after=timedelta(seconds=0.3), in_use=lambda _: 1)
    line.is_losing = True
    with pytest.raises(DatabaseUnavailable):
        await shares.look()
    assert shares.most("q") == 0
    line.is_losing = False
    await shares.look()
    assert shares.most("q") == 3
    await asyncio.sleep(0.3)
    assert shares.most("q") == 0
    line.may_answer.clear()
    writes = line.writes
    asking = asyncio.create_task(shares.look())
    while line.writes == writes:  # noqa: ASYNC110 - there is nobody to tell
        await asyncio.sleep(0.001)
    assert shares.most("q") == 0
    line.may_answer.set()
    await asking
    client.queues.limit("q")
    shares.look_soon()
    await shares.look()
    assert shares.most("q") is None


async def test_jobs_are_claimed_ahead_of_permits(line: Line, client: Client) -> None:
    """As many as it is told to keep at hand; none without a permit, nor where keys are limited."""
    at_hand = 0
    client.queues.limit("q", concurrency=3)
    shares = keeper(line, in_use=lambda _: 2, at_hand=lambda _: at_hand, ahead=lambda _, waiting: 10 - waiting)
    await shares.look()
    assert (shares.room("q"), shares.room("q", is_ahead=False)) == (11, 1)
    at_hand = 4
    assert (shares.room("q"), shares.room("q", is_ahead=False)) == (7, 0)
    client.queues.limit("q", concurrency=3, key_concurrency=1)
    shares.look_soon()
    await shares.look()
    assert shares.room("q") == 0
    client.queues.limit("q", concurrency=2)
    other = keeper(line, "w2", ahead=lambda _, __: 10)
    shares.look_soon()
    await shares.look()
    await other.look()
    assert other.room("q") == 0


async def test_a_lost_answer_is_nothing_to_go_by(line: Line, client: Client) -> None:
    """What was asked for may have been done: nothing is claimed until it has been entered anew, and told."""
    client.queues.limit("q", concurrency=6, rate=1000, burst=4)
    shares = keeper(line)
    await shares.look()
    await asyncio.sleep(0.05)
    assert shares.room("q") == 4
    line.is_losing = True
    with pytest.raises(DatabaseUnavailable):
        await shares.look()
    assert (shares.room("q"), shares.seconds_until_room("q")) == (0, math.inf)
    line.is_losing = False
    shares.look_soon()
    await shares.look()
    assert shares.permits("q") == 4
    assert (shares.tokens("q") or 0) < 4
    await asyncio.sleep(0.05)
    assert shares.room("q") == 4


async def test_an_old_answer_is_nothing_to_go_by(line: Line, client: Client) -> None:
    """Others may have taken the worker for dead by now."""
    client.queues.limit("q", concurrency=3)
    shares = keeper(line, dead_after=timedelta(seconds=0.3))
    await shares.look()
    assert (shares.room("q"), shares.most("q")) == (3, 3)
    await asyncio.sleep(0.3)
    assert (shares.room("q"), shares.most("q"), shares.permits("q")) == (0, 0, 3)
    await shares.look()
    assert (shares.room("q"), shares.most("q")) == (3, 3)


async def test_what_lies_at_hand_of_a_rate_does_not_start_by_an_old_answer(line: Line, client: Client) -> None:
    """Its token was somebody else's from when the worker could be taken for dead."""
    client.queues.limit("q", rate=3)
    shares = keeper(line, dead_after=timedelta(seconds=0.3))
    await shares.look()
    assert shares.most("q") is None
    await asyncio.sleep(0.3)
    assert shares.most("q") == 0


async def test_who_was_taken_for_dead_begins_anew(line: Line, client: Client) -> None:
    """Its share has gone to another, who has saved up starts meanwhile; it gets what that one gives back, empty."""
    client.queues.limit("q", rate=0.5, burst=4)
    first, second = keeper(line), keeper(line, "w2")
    await first.look()
    await line.store.run(partial(retire_worker, "w1"))
    await second.look()
    assert second.seconds_until_room("q") == pytest.approx(2, abs=0.5)
    await _register(line.store, "w1")
    await first.look()
    assert first.seconds_until_room("q") == math.inf
    await second.look()
    await first.look()
    assert first.seconds_until_room("q") == pytest.approx(4, abs=0.5)


async def test_tokens_are_spent_and_come_with_time(line: Line, client: Client) -> None:
    """And what was not started comes back."""
    client.queues.limit("q", rate=50, burst=2)
    shares = keeper(line)
    await shares.look()
    assert shares.room("q") == 0
    assert 0 < shares.seconds_until_room("q") <= 0.02
    await asyncio.sleep(0.1)
    assert shares.room("q") == 2
    shares.claiming("q", 2)
    shares.claimed("q", 1)
    assert shares.room("q") == 1
    assert 1 <= (shares.tokens("q") or 0) < 2


async def test_who_is_full_for_a_moment_saves_up(line: Line, client: Client) -> None:
    """Its part of a rate needs no slot until there is a start to be made; who stops leaves it to others."""
    client.queues.limit("q", rate=50, burst=2)
    slots = [4]
    full = ShareKeeper(line, "w1", ["q"], lambda _: slots[0], interval=timedelta(seconds=0))
    other = keeper(line, "w2")
    for each in (full, other, full):
        await each.look()
    slots[0] = 0
    for each in (full, other):
        await each.look()
    await asyncio.sleep(0.1)
    assert (full.room("q"), other.room("q")) == (1, 1)
    full.drain()
    for each in (full, other):
        await each.look()
    await asyncio.sleep(0.1)
    assert (full.room("q"), other.room("q")) == (0, 2)


async def test_who_was_full_when_it_asked_does_not_wait_for_its_next_ask(
    line: Line, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was for so long that it wanted no share of the rate; it has a slot long before it would ask again."""
    monkeypatch.setattr(share_keeper, "_FULL_SECONDS", 0.0)
    client.queues.limit("q", rate=50, burst=1)
    slots = [0]
    shares = ShareKeeper(line, "w1", ["q"], lambda _: slots[0], interval=timedelta(seconds=60))
    await shares.look()
    await asyncio.sleep(0.1)
    assert (shares.room("q"), shares.tokens("q")) == (0, 0)
    slots[0] = 1
    assert shares.room("q") == 0
    await asyncio.sleep(0.6)
    await shares.look()
    await asyncio.sleep(0.1)
    assert shares.room("q") == 1


async def test_what_waits_keeps_its_token(line: Line, client: Client) -> None:
    """It may start at any moment: until then it fills the bucket, and the share must not be given away."""
    waiting = 0
    client.queues.limit("q", rate=50, burst=3)
    shares = keeper(line, waiting=lambda _: waiting)
    await shares.look()
    await asyncio.sleep(0.1)
    shares.claiming("q", 2)
    waiting = 2
    shares.claimed("q", 2)
    await asyncio.sleep(0.1)
    assert shares.room("q") == 1
    writes = line.writes
    await shares.look()
    assert line.writes == writes
    assert shares.room("q") == 0  # so that it comes to asking
    waiting = 0
    await asyncio.sleep(0.02)
    await shares.look()
    assert line.writes == writes + 1
    assert shares.room("q") == 1
    await asyncio.sleep(0.1)
    assert shares.room("q") == 3


async def test_what_keys_admit_must_not_wait(line: Line, client: Client) -> None:
    """The claim counts it, and nobody here does."""
    client.queues.limit("q", rate=50, burst=3)
    shares = keeper(line)
    await shares.look()
    assert shares.may_wait("q")
    client.queues.limit("q", rate=50, burst=3, key_concurrency=1)
    shares.look_soon()
    await shares.look()
    assert not shares.may_wait("q")


async def test_what_is_given_back_gives_its_token_back(line: Line, client: Client) -> None:
    waiting = 0
    client.queues.limit("q", rate=0.01, burst=100)
    shares = keeper(line, waiting=lambda _: waiting)
    await shares.look()
    bucket = shares._held["q"].bucket
    bucket.resize(0.01, 100, time.monotonic())
    bucket._tokens = 2.0
    shares.claiming("q", 2)
    waiting = 2
    shares.claimed("q", 2)
    assert shares.room("q") == 0
    waiting = 0
    shares.given_back("q")
    assert shares.room("q") == 1  # the other one has started
    shares.given_back("q")
    assert shares.room("q") == 1  # that was never reserved


async def test_it_gives_back_what_it_does_not_use(line: Line, client: Client) -> None:
    """When the worker stops, and at once."""
    client.queues.limit("q", concurrency=4)
    first, second = keeper(line), keeper(line, "w2")
    await first.look()
    first.claiming("q", 1)
    first.claimed("q", 1)
    first.drain()
    await first.look()
    await second.look()
    assert (first.permits("q"), first.room("q"), second.room("q")) == (1, 0, 3)


async def test_what_is_called_back_is_not_used_again(line: Line, client: Client) -> None:
    """Another has come and wants its part: what ends is not followed by more, and the other gets it."""
    client.queues.limit("q", concurrency=4)
    first, second = keeper(line), keeper(line, "w2")
    await first.look()
    first.claiming("q", 4)
    first.claimed("q", 4)
    await second.look()
    assert second.room("q") == 0
    await first.look()
    first.ended("q", 1)
    assert (first.permits("q"), first.room("q")) == (4, 0)
    await first.look()
    await second.look()
    assert (first.permits("q"), first.room("q"), second.room("q")) == (3, 0, 1)


async def test_who_comes_at_the_same_time_shares_soon(line: Line, client: Client) -> None:
    """Though each asks once a minute at most: whoever is first has everything, asks again, and gives half of it back.

    The first ask is not made by `run`, as in a worker, which claims nothing before.
    """
    client.queues.limit("q", concurrency=4)
    keepers = [
        ShareKeeper(line, name, ["q"], lambda _: 4, interval=timedelta(seconds=60), in_use=lambda _: 0)
        for name in ("w1", "w2")
    ]
    asking = [asyncio.create_task(shares.look()) for shares in keepers]
    running = [asyncio.create_task(shares.run()) for shares in keepers]
    await asyncio.gather(*asking)
    async with asyncio.timeout(20):
        while [shares.room("q") for shares in keepers] != [2, 2]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_what_was_called_back_is_given_back_when_it_is_free(line: Line, client: Client) -> None:
    """At once, where the handlers that used it have ended."""
    in_use = 4
    client.queues.limit("q", concurrency=4)
    shares = ShareKeeper(line, "w1", ["q"], lambda _: 4, interval=timedelta(seconds=60), in_use=lambda _: in_use)
    other = keeper(line, "w2")
    running = asyncio.create_task(shares.run())
    async with asyncio.timeout(20):
        while shares.permits("q") != 4:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        await other.look()
        shares.look_soon()
        while shares.most("q") != 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        assert shares.permits("q") == 4
        in_use = 2
        shares.freed("q")
        while shares.permits("q") != 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    await other.look()
    assert other.most("q") == 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_limits_come_and_go(line: Line, client: Client) -> None:
    """At the next look."""
    shares = keeper(line)
    for limit in (2, None, 3, 1):
        client.queues.limit("q", concurrency=limit)
        shares.look_soon()
        await shares.look()
        assert shares.room("q") == limit


async def test_it_runs_by_itself(line: Line, client: Client) -> None:
    """Looks again and again, also after an error, and says when something has changed."""
    changed = asyncio.Event()
    shares = ShareKeeper(line, "w1", ["q"], lambda _: 4, interval=timedelta(seconds=0.05), changed=changed.set)
    running = asyncio.create_task(shares.run())
    line.is_losing = True
    client.queues.limit("q", concurrency=2)
    while shares.room("q") is None:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.005)
    assert not changed.is_set()
    line.is_losing = False
    await asyncio.wait_for(changed.wait(), 10)
    assert shares.room("q") == 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_claim_over_several_queues_is_split(line: Line, client: Client) -> None:
    """Those without limits together, the others each by itself and up to its room; what has none is left out."""
    client.queues.limit("b", concurrency=2)
    client.queues.limit("d", concurrency=2)
    shares = ShareKeeper(line, "w1", ["a", "b", "c", "d"], lambda _: 9, interval=timedelta(seconds=0))
    await shares.look()
    shares.claiming("d", 2)
    shares.claimed("d", 2)
    lanes = [Lane(queue, priority, "", 0) for priority in (0, 1) for queue in ("b", "a", "d", "c")]
    assert [([lane.queue for lane in portion], most) for portion, most in shares.portions(lanes, 5)] == [
        (["b", "b"], 2),
        (["a", "c", "a", "c"], 5),
    ]
    assert [most for _, most in shares.portions(lanes, 1)] == [1, 1]
