"""A worker's shares of the limits of its queues: asked for, kept to, given back.

What whoever claims asks and says, for every queue, limited or not:

    room = shares.room(queue)            # before a claim: how many may be claimed of it now; None: any number
    shares.claiming(queue, count)        # it is sent, for at most so many
    shares.claimed(queue, count)         # it is answered: so many were claimed, and wait or start
    shares.given_back(queue)             # one of them will not start

And whoever starts handlers, before each:

    most = shares.most(queue)            # how many may run at a time; None: any number

A claim that goes over several queues is split by `portions`.  A concurrency is one of handlers, and a rate one of
starts: what is claimed ahead takes no permit before it starts, and keeps its token until then.  What limits of keys
admit must start at once, because nobody here counts it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from functools import partial

from holdfast.errors import HoldfastError
from holdfast.model.rate import TokenBucket
from holdfast.model.scan_position import Lane
from holdfast.model.sharing import MILLIONTHS, Limits, Share
from holdfast.operations.queue_settings import read_queues
from holdfast.operations.share_queue import SharedQueue, share_queue
from holdfast.worker.maintenance.service import VerbRunner
from holdfast.worker.moment import Moment

_log = logging.getLogger("holdfast.worker")

#: how long before others take the worker for dead its shares are void, and at most which part of that time
_MARGIN_SECONDS = 5.0
_MARGIN = 0.25
#: how soon a worker that wants more asks again
_HUNGRY_SECONDS = 0.5
#: and whoever has just got another share; then after twice as long, and so on
_RESTLESS_SECONDS = 0.1
#: for so long after it had a slot free a worker wants its part of a rate: to save up for a start takes no slot
_FULL_SECONDS = 30.0
#: of a queue that has no limits but those of its concurrency keys
_PLENTY = 1_000_000
#: a claim or its answer is under way, or jobs wait for a slot: asked a moment later
_BUSY_SECONDS = 0.005


class _Held:
    """What the worker knows of its share of one queue."""

    __slots__ = ("answer", "asked", "bucket", "is_asking", "is_due", "is_known", "next_ask", "pause", "said")

    def __init__(self, worker_id: str, now: float) -> None:
        self.answer = SharedQueue(Limits(), Share(worker_id))
        #: how many handlers were running when it asked; none where it did not know what it has
        self.said = 0
        self.bucket = TokenBucket(now)
        #: it has an answer, and none was lost since
        self.is_known = False
        self.is_asking = False
        #: it is time to ask, and nothing is claimed until that has happened
        self.is_due = False
        self.asked = Moment()
        self.next_ask = now
        #: between the last two asks
        self.pause = _RESTLESS_SECONDS


class ShareKeeper:
    """Knows at any moment how much this worker may claim of each queue, and how many of its handlers may run.

    - `demand`: how many jobs of a queue the worker could run at a time: those that it runs, and its free slots.
    - `interval` (5 s): how often it asks for its shares, and half as often looks for changed limits.
    - `dead_after` (20 s): when others take the worker for dead, and its shares for free.
    - `in_use` (what `claimed` and `ended` say): how many handlers of a queue run here.
    - `waiting` (none): how many jobs have been claimed and not started, for all that can be seen.
    - `at_hand` (none): how many of them do not count as running yet.
    - `ahead` (none): how many more to claim of a queue of which so many are at hand that have no permit.

    While it asks about a queue nothing is claimed of that, and no more handlers run than it said. It does not ask while
    a claim of it is under way, or while jobs wait that have their tokens; so what is in use, and what is saved up, is
    never more than it said.
    """

    def __init__(
        self,
        store: VerbRunner,
        worker_id: str,
        queues: Iterable[str],
        demand: Callable[[str], int],
        *,
        interval: timedelta = timedelta(seconds=5),
        dead_after: timedelta = timedelta(seconds=20),
        changed: Callable[[], None] = lambda: None,
        in_use: Callable[[str], int] | None = None,
        waiting: Callable[[str], int] = lambda _: 0,
        at_hand: Callable[[str], int] = lambda _: 0,
        ahead: Callable[[str, int], int] = lambda _, __: 0,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._queues = frozenset(queues)
        self._demand = demand
        self._interval = interval.total_seconds()
        patience = dead_after.total_seconds()
        self._valid_seconds = patience - min(_MARGIN_SECONDS, patience * _MARGIN)
        self._changed = changed
        self._counted: Counter[str] = Counter()
        self._in_use = in_use or self._counted.__getitem__
        self._waiting = waiting
        self._at_hand = at_hand
        self._ahead = ahead
        self._claiming: dict[str, int] = {}
        self._held: dict[str, _Held] = {}
        #: queues whose concurrency keys are limited: what the claim admits must start at once
        self._keyed: frozenset[str] = frozenset()
        self._next_look = 0.0
        self._looked = Moment()
        #: a handler of any queue has ended since somebody looked; and when that was, or there was a free slot
        self._has_freed = True
        self._last_free = 0.0
        self._is_draining = False
        self._stir = asyncio.Event()

    # --- what whoever claims asks and says --------------------------------------------------------------------------

    @property
    def with_permits(self) -> list[str]:
        """The queues of the worker that have a concurrency limit, as far as it knows."""
        return [queue for queue, held in self._held.items() if held.answer.limits.concurrency is not None]

    def room(self, queue: str, *, is_ahead: bool = True) -> int | None:
        """How many jobs of a queue may be claimed now; None if it has no limits.

        - `is_ahead`: also those that have to wait for a permit.
        """
        held = self._held.get(queue)
        if held is None:
            return _PLENTY if queue in self._keyed else None
        if queue in self._claiming or held.is_asking or held.is_due or not self._is_valid(held):
            return 0
        room = math.inf
        if held.answer.limits.concurrency is not None:
            room = self._room_for_handlers(queue, held, is_ahead=is_ahead)
            if room == 0 and self._wanted(queue) > held.answer.share.wanted:
                self._ask_soon(held)
        if held.answer.limits.rate is not None:
            now = time.monotonic()
            held.bucket.started(self._waiting(queue), now)
            room = min(room, math.floor(held.bucket.level(now)))
            if held.answer.share.wanted == 0 < self._wanted(queue):
                self._ask_soon(held)  # it had no slot free when it asked
        if room == math.inf:
            return _PLENTY if queue in self._keyed else None
        return int(room)

    def _room_for_handlers(self, queue: str, held: _Held, *, is_ahead: bool = True) -> int:
        free = held.answer.allowed - self._in_use(queue) - self._at_hand(queue)
        # Who has no permit at all has no share, and the claim would bring nothing.
        is_ahead = is_ahead and held.answer.allowed > 0 and self.may_wait(queue)
        return max(0, free) + (self._ahead(queue, max(0, -free)) if is_ahead else 0)

    def most(self, queue: str) -> int | None:
        """How many handlers of a queue may run here at a time; None: any number.

        While it asks no more than it said, because its share may be as small as that already; and none where it does
        not know what it has.
        """
        held = self._held.get(queue)
        if held is None:
            return None
        is_limited = held.answer.limits.concurrency is not None
        if held.is_asking:
            return min(held.said, held.answer.allowed) if is_limited else held.said
        if not self._is_valid(held):
            return 0
        return held.answer.allowed if is_limited else None

    def may_wait(self, queue: str) -> bool:
        """Whether jobs of it may be claimed before there are slots for them: otherwise others always have these."""
        return queue not in self._keyed

    def portions(self, lanes: Iterable[Lane], limit: int, apart: Collection[str] = ()) -> list[tuple[list[Lane], int]]:
        """The claims to make in the place of one of `lanes`, in their order, each with how many it may bring at most.

        All queues without limits come in one, and each limited queue in one of its own: what is counted by queue must
        be claimed by queue. So do those that are to be kept `apart`. `limit` goes for each; who makes several takes off
        what the first ones have brought.
        """
        portions: dict[str | None, tuple[list[Lane], int]] = {}
        for lane in lanes:
            room = self.room(lane.queue)
            key = None if room is None and lane.queue not in apart else lane.queue
            portions.setdefault(key, ([], limit if room is None else min(limit, room)))[0].append(lane)
        return [portion for portion in portions.values() if portion[1] > 0]

    def permits(self, queue: str) -> int | None:
        """How many jobs of a queue may run here at a time; None if that is not limited."""
        held = self._held.get(queue)
        return None if held is None or held.answer.limits.concurrency is None else held.answer.share.permits

    def tokens(self, queue: str) -> float | None:
        """How many jobs of a queue may start here now; None if it has no rate."""
        held = self._held.get(queue)
        return None if held is None or held.answer.limits.rate is None else held.bucket.level(time.monotonic())

    def seconds_until_room(self, queue: str) -> float:
        """How long until `room` may be more than nothing by time alone; infinite where something else must happen."""
        held = self._held.get(queue)
        if held is None:
            return 0.0
        if not self._is_valid(held) or (
            held.answer.limits.concurrency is not None and not self._room_for_handlers(queue, held)
        ):
            return math.inf
        return 0.0 if held.answer.limits.rate is None else held.bucket.seconds_until_one(time.monotonic())

    def claiming(self, queue: str, count: int) -> None:
        """A claim of at most so many is sent; no more than `room` says."""
        if queue in self._claiming:
            raise RuntimeError(f"a claim of {queue} is under way already")
        room = self.room(queue)
        if room is not None and count > room:
            raise RuntimeError(f"{count} jobs of {queue} are to be claimed where {room} may be")
        self._claiming[queue] = count
        held = self._held.get(queue)
        if held is not None and held.answer.limits.rate is not None:
            held.bucket.take(count, time.monotonic())

    def claimed(self, queue: str, count: int) -> None:
        """It is answered. Whatever is claimed is to be told, of any queue: it counts when a limit comes."""
        self._counted[queue] += count
        was_claiming = self._claiming.pop(queue, None)
        held = self._held.get(queue)
        if was_claiming is not None and held is not None:
            held.bucket.settle(count, time.monotonic())

    def given_back(self, queue: str) -> None:
        """A job that was claimed will not start here."""
        if (held := self._held.get(queue)) is not None:
            held.bucket.put_back(1, time.monotonic())

    def ended(self, queue: str, count: int = 1) -> None:
        """So many that were claimed have ended, where nobody else counts."""
        self._counted[queue] -= count
        self.freed(queue)

    def freed(self, queue: str) -> None:
        """Less is in use: others are to have it, perhaps."""
        self._has_freed = True
        held = self._held.get(queue)
        if held is not None and self._is_draining:
            self._ask_soon(held)
        if held is None or held.answer.share.permits <= held.answer.allowed or held.is_asking:
            return
        if self._in_use(queue) > held.answer.allowed:
            self._ask_soon(held)
        elif held.next_ask > 0:  # all that was called back
            held.next_ask = 0.0
            self._stir.set()

    # --- what it does by itself -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """For ever: look for limits, ask for shares, sooner where there is too little or too much."""
        while True:
            try:
                await self.look()
            except (HoldfastError, TimeoutError) as error:
                _log.warning("cannot ask for shares of limited queues: %s: %s", type(error).__name__, error)
                self._next_look = time.monotonic() + self._interval
            now = time.monotonic()
            until = min([self._next_look, *(held.next_ask for held in self._held.values())])
            try:
                async with asyncio.timeout(max(0.0, until - now)):
                    await self._stir.wait()
            except TimeoutError:
                pass
            self._stir.clear()

    def wonder(self) -> None:
        """A claim found nothing where there was something: perhaps a limit that we have not heard of."""
        if self._looked.age > _HUNGRY_SECONDS:
            self._next_look = 0.0
            self._stir.set()

    def look_soon(self) -> None:
        """Something has changed: limits, or what the worker could run."""
        self._next_look = 0.0
        for held in self._held.values():
            held.next_ask = 0.0
        self._stir.set()

    async def look(self) -> None:
        """One round: read the limits if it is time, and ask wherever it is time."""
        if time.monotonic() >= self._next_look:
            await self._read_limits()
        for queue, held in list(self._held.items()):
            if time.monotonic() >= held.next_ask:
                if self._has_tokens_out(queue, held) or queue in self._claiming:
                    held.is_due = True
                    held.next_ask = time.monotonic() + _BUSY_SECONDS
                else:
                    await self._ask(queue, held)

    def drain(self) -> None:
        """Nothing more will be claimed: what is not in use is for others, and what is, as soon as it is not."""
        self._is_draining = True
        self.look_soon()

    async def _read_limits(self) -> None:
        settings = await self._store.run(read_queues, read_only=True)
        now = time.monotonic()
        limited = {
            each.name for each in settings
            if each.name in self._queues and (each.concurrency is not None or each.rate is not None)
        }  # fmt: skip
        self._keyed = frozenset(
            each.name for each in settings
            if each.name in self._queues and (each.key_concurrency is not None or each.key_rate is not None)
        )  # fmt: skip
        for queue in limited - self._held.keys():
            self._held[queue] = _Held(self._worker_id, now)
        gone = self._held.keys() - limited - self._claiming.keys()
        for queue in gone:
            del self._held[queue]
        self._looked = Moment()
        self._next_look = now + 2 * self._interval * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        if gone:
            self._changed()

    def _has_tokens_out(self, queue: str, held: _Held) -> bool:
        """Whether jobs wait that may start whatever the next answer says; if so, nothing more is claimed ahead."""
        if held.answer.limits.rate is None:
            return False
        held.bucket.started(self._waiting(queue), time.monotonic())
        return held.bucket.reserved > 0

    async def _ask(self, queue: str, held: _Held) -> None:
        held.is_asking, held.is_due = True, False
        held.next_ask = time.monotonic() + self._interval
        had = held.answer.share.permits
        try:
            answer = await self._ask_once(queue, held)
            if answer.is_new:
                answer = await self._ask_once(queue, held)
        finally:
            held.is_asking = False
        # Workers come together, more often than not: whoever is first has all permits, and should give back soon.
        # Of a rate more is lost than won by that: who asks while his slots are full gives up what he has saved.
        longest = min(_HUNGRY_SECONDS, self._interval) if answer.is_owed else self._interval
        is_restless = answer.limits.concurrency is not None
        has_changed = answer.share.permits != had
        held.pause = min(_RESTLESS_SECONDS if has_changed else 2 * held.pause, longest) if is_restless else longest
        held.next_ask = time.monotonic() + held.pause * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        self._stir.set()  # whoever asked may not be `run`, which has to know when to ask next
        self._changed()

    async def _ask_once(self, queue: str, held: _Held) -> SharedQueue:
        is_known = self._is_valid(held)
        held.bucket.freeze(time.monotonic())
        asked = Moment()
        held.is_known = False
        in_use = self._in_use(queue)
        # Of a share that may be somebody else's by now nothing is used until it is known again.
        held.said = in_use if is_known else 0
        verb = partial(share_queue, self._worker_id, queue, in_use, self._wish(queue, held), is_known=is_known)
        # Should no answer come, it may have been done all the same, and part of what we had be somebody else's: nothing
        # is claimed before we have been entered anew, with nothing.
        answer = await self._store.run(verb)
        now = time.monotonic()
        held.bucket.resize(answer.share.rate / MILLIONTHS, answer.share.burst, now)
        held.bucket.thaw(now)
        held.answer, held.asked, held.is_known = answer, asked, True
        return answer

    def _ask_soon(self, held: _Held) -> None:
        soon = time.monotonic() if held.asked.age > _HUNGRY_SECONDS else time.monotonic() + _HUNGRY_SECONDS
        if soon < held.next_ask:
            held.next_ask = soon
            self._stir.set()

    def _wanted(self, queue: str) -> int:
        return 0 if self._is_draining else max(0, self._demand(queue))

    def _wish(self, queue: str, held: _Held) -> int:
        """What it says it wants: whoever wants nothing of a rate loses what he has saved up to others."""
        now = time.monotonic()
        wanted = self._wanted(queue)
        if wanted or self._has_freed:
            self._has_freed, self._last_free = False, now
        is_full_for_a_moment = now - self._last_free < _FULL_SECONDS and not self._is_draining
        return max(wanted, int(is_full_for_a_moment and held.answer.limits.rate is not None))

    def _is_valid(self, held: _Held) -> bool:
        """Nobody has taken us for dead since we were last told what we have."""
        return held.is_known and held.asked.age < self._valid_seconds
