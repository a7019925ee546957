"""Rates under reallocation: a simulation of many workers that ask, claim, stall, die and come back.

The operation and the buckets are the real ones; time and the order of things are drawn by lot, and so is which answers
are lost.  The tables are two dictionaries, which is all that matters to the promise: in any t seconds no more than
burst + rate × t jobs start, whoever starts them.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from holdfast.model.rate import TokenBucket
from holdfast.model.sharing import MILLIONTHS, Limits, Share
from holdfast.operations.drive import drive
from holdfast.operations.share_queue import SharedQueue, share_queue
from holdfast.operations.statement import Rows, Statement
from tests.crew.limited import worst_excess


@dataclass
class World:
    """What the database knows, and what happened when."""

    limits: Limits
    chance: random.Random
    restlessness: float = 0.05
    now: float = 0.0
    shares: dict[str, Share] = field(default_factory=dict)
    starts: list[float] = field(default_factory=list)
    refusals: int = 0
    started_later: int = 0
    lost: int = 0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), what))

    def soon(self, what: Callable[[], None]) -> None:
        """A moment later, or, seldom, much later."""
        self.after(self.chance.expovariate(1) if self.chance.random() < 0.02 else self.chance.expovariate(50), what)

    @property
    def is_quiet(self) -> bool:
        """Nothing to claim for a while, so that everybody saves up; then there is, for all."""
        return self.now % 20 < 12

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            what()

    def execute(self, statement: Statement) -> Rows:
        given = statement.parameters
        if statement.name == "lock_queue":
            return [[*self.limits, 5 * int(self.now)]]
        if statement.name == "collect_shares":
            return list(self.shares.values())
        if statement.name != "share_queue":
            return []
        share = Share(
            *(str(given["worker"]), int(str(given["permits"])), int(str(given["in_use"])), int(str(given["wanted"]))),
            *(int(str(given["rate"])), int(str(given["burst"]))),
        )
        self.shares[share.worker_id] = share
        assert sum(each.rate for each in self.shares.values()) <= (self.limits.rate or 0)
        assert sum(each.burst for each in self.shares.values()) <= (self.limits.burst or 0)
        return [[share.permits, share.rate, share.burst]]


class Worker:
    """Asks and claims by turns; what it believes is never better than its last answer."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.bucket = TokenBucket(0.0)
        self.is_known = False
        #: claimed ahead
        self.waiting = 0
        world.soon(self.act)

    def act(self) -> None:
        luck = self.world.chance.random()
        self.start_some()
        if luck < self.world.restlessness and self.bucket.reserved == 0:
            self.ask()
        elif luck > 1 - self.world.restlessness / 20:
            self.be_taken_for_dead()
        else:
            self.claim()

    def ask(self) -> None:
        wanted = 0 if self.world.chance.random() < 0.1 else 1
        is_known, self.is_known = self.is_known, False
        self.bucket.freeze(self.world.now)

        def commit() -> None:
            operation = share_queue(self.name, "q", 0, wanted, is_known=is_known)
            answer = drive(operation, self.world.execute)
            self.world.soon(lambda: self.hear(answer))

        self.world.soon(commit)

    def hear(self, answer: SharedQueue) -> None:
        now = self.world.now
        if self.world.chance.random() < 0.05:
            self.world.lost += 1
        else:
            self.bucket.resize(answer.share.rate / MILLIONTHS, answer.share.burst, now)
            self.is_known = True
        self.bucket.thaw(now)
        self.world.soon(self.act)

    def claim(self) -> None:
        room = int(self.bucket.level(self.world.now)) if self.is_known and not self.world.is_quiet else 0
        if room == 0:
            self.world.soon(self.act)
            return
        count = self.world.chance.choice((room, self.world.chance.randint(1, room)))
        self.bucket.take(count, self.world.now)

        def commit() -> None:
            # As the claim looks for a share: without one it takes nothing.
            share = self.world.shares.get(self.name)
            is_let_through = share is not None and share.burst > 0
            self.world.refusals += not is_let_through
            claimed = self.world.chance.choice((count, count, 0)) if is_let_through else 0
            waiting = self.world.chance.choice((0, claimed))
            self.world.starts += [self.world.now] * (claimed - waiting)
            self.world.soon(lambda: self.settle(claimed, waiting))

        self.world.soon(commit)

    def settle(self, claimed: int, waiting: int) -> None:
        self.bucket.settle(claimed, self.world.now)
        self.waiting += waiting
        self.world.soon(self.act)

    def start_some(self) -> None:
        """Of what was claimed ahead; it says so before it claims or asks again."""
        count = self.world.chance.choice((self.waiting, self.world.chance.randint(0, self.waiting)))
        self.world.starts += [self.world.now] * count
        self.world.started_later += count
        self.waiting -= count
        self.bucket.started(self.waiting, self.world.now)

    def be_taken_for_dead(self) -> None:
        """It does nothing for a while; somebody takes its share, and it goes on as if nothing had happened."""
        self.waiting = 0  # its leases are gone with its share
        self.world.after(1.0, lambda: self.world.shares.pop(self.name, None) and None)
        self.world.after(self.world.chance.uniform(1.1, 5), self.act)


def simulated(seed: int, seconds: float = 200.0) -> tuple[World, float, int]:
    chance = random.Random(seed)  # noqa: S311 - a lot, drawn again the same
    rate, burst = chance.choice((0.5, 3.0, 20.0)), chance.choice((1, 4, 25))
    world = World(Limits(None, int(rate * MILLIONTHS), burst), chance, chance.choice((0.002, 0.01, 0.05)))
    for number in range(chance.choice((1, 3, 8))):
        Worker(world, f"w{number}")
    world.run(seconds)
    return world, rate, burst


@pytest.mark.parametrize("seed", range(30))
def test_no_window_has_more_than_burst_and_rate_allow(seed: int) -> None:
    """Over thousands of reallocations, with lost answers, stalls and workers that were taken for dead."""
    world, rate, burst = simulated(seed)
    assert world.starts
    assert worst_excess(world.starts, rate) <= burst + 1e-6


class _FullBucket(TokenBucket):
    """What is added to it comes full."""

    def resize(self, rate: float, burst: int, now: float) -> None:
        added = burst - self.burst
        super().resize(rate, burst, now)
        self._tokens += max(0, added)


class _RoomyBucket(TokenBucket):
    """It fills up while what it gave away has not started."""

    @property
    def _room(self) -> int:
        return self.burst


@pytest.mark.parametrize("broken", [_FullBucket, _RoomyBucket])
def test_the_simulation_finds_a_broken_bucket(broken: type[TokenBucket], monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would show nothing."""
    monkeypatch.setitem(globals(), "TokenBucket", broken)
    found = [worst_excess(world.starts, rate) > burst + 1e-6 for world, rate, burst in map(simulated, range(6))]
    assert any(found)


def test_the_simulation_has_seen_what_it_is_for() -> None:
    """The bound was reached, answers were lost, and claims of the presumed dead came and were not let through."""
    runs = [simulated(seed) for seed in range(6)]
    assert max(worst_excess(world.starts, rate) / burst for world, rate, burst in runs) > 0.999
    assert sum(world.lost for world, _, _ in runs) > 10
    assert sum(world.refusals for world, _, _ in runs) > 10
    assert sum(world.started_later for world, _, _ in runs) > 100


def test_the_worst_window() -> None:
    """By hand."""
    assert worst_excess([0.0] * 11, 20.0) == 11.0
    assert worst_excess([0.0, 0.5, 1.0], 2.0) == 1.0
    assert worst_excess([0.0, 0.25, 1.0], 2.0) == 1.5
