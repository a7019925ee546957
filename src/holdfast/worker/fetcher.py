"""The one fetcher of a process: claims in batches and keeps the slots fed."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from holdfast.errors import DatabaseUnavailable, SerializationConflict
from holdfast.model.scan_position import Instant, Lane, ScanPosition
from holdfast.model.tenant_turns import FairQueues, Part
from holdfast.notify import Waker
from holdfast.operations.claim_jobs import (
    Claim,
    FoundLane,
    claim_jobs,
    claim_size,
    claim_suspect,
    find_lanes,
    find_tenants,
)
from holdfast.operations.release_jobs import release_orphans
from holdfast.worker.backoff import Backoff
from holdfast.worker.buffer import Buffer
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.config import WorkerConfig
from holdfast.worker.demand import Demand
from holdfast.worker.due_times import DueTimes
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.plain_queues import PlainQueues
from holdfast.worker.selection import Selection
from holdfast.worker.share_keeper import ShareKeeper
from holdfast.worker.slots import Slots
from holdfast.worker.stock import Stock

_log = logging.getLogger("holdfast.worker")

#: how long a suspect waits for the process to be otherwise empty, and others for the suspect
_SUSPECT_PATIENCE = 5.0
#: how many suspects are looked at before others have their turn
_MOST_PASSED = 20
#: how long claimed jobs may wait behind others that take all slots before somebody else gets them
_STALL_SECONDS = 0.5
#: and at least so many times what is to be at hand, so that a distant database is no reason
_STALL_HORIZONS = 3


class Fetcher:
    """Asks for work when there is room, looks back within its budget, and sleeps exactly as long as it may."""

    def __init__(
        self,
        store: PatientStore,
        worker_id: str,
        queues: Sequence[str],
        config: WorkerConfig,
        *,
        buffer: Buffer,
        slots: Slots,
        demand: Demand,
        waker: Waker,
        selection: Selection,
        shares: ShareKeeper,
        stock: Stock,
        woken: Callable[[Iterable[str]], None],
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._queues = queues
        self._config = config
        self._buffer = buffer
        self._slots = slots
        self._waker = waker
        self._selection = selection
        self._shares = shares
        self._stock = stock
        #: called with the queues that jobs went back to
        self._woken = woken
        #: limited queues of which a claim was sent, and for how many
        self._unanswered: dict[str, int] = {}
        self._position = ScanPosition()
        self._fair = FairQueues()
        self._plain = PlainQueues()
        self._demand = demand
        self._due = DueTimes(shares, self._look_soon)
        self._suspect_due_at: float | None = None
        self._suspect_turn_from = 0.0
        #: the last claim came back short: there is nothing more until a hint, a due time or a poll says otherwise
        self._is_dry = False
        #: there was nothing to do before the claim that comes next
        self._has_slept = False
        self._is_stopping = False
        #: nothing is claimed while it sleeps; the number tells one sleep from the next
        self.is_asleep = False
        self.sleep_number = 0
        self._has_looked_since_claim = False
        #: while nothing else is to be done; a hint may overtake it
        self._looking: asyncio.Task[None] | None = None
        self._last_gain = time.monotonic()
        self._next_audit = time.monotonic() + config.renew.total_seconds()

    def stop(self) -> None:
        """Claim no more; `run` ends soon."""
        self._is_stopping = True
        self._demand.room()

    def look_again(self) -> None:
        """Jobs that were passed by may be this worker's now."""
        self._look_soon()
        self._waker.poke()

    def _look_soon(self) -> None:
        self._position.look_back_soon()
        self._has_looked_since_claim = False

    async def run(self) -> None:
        try:
            await self._until_stopped()
        finally:
            if self._looking is not None:
                await cancel_tasks([self._looking])

    async def _until_stopped(self) -> None:
        backoff = Backoff()
        while not self._is_stopping:
            try:
                await self._step()
                backoff.reset()
            except (DatabaseUnavailable, SerializationConflict) as error:
                self._demand.is_unsure = True  # a claim may have been committed without our hearing of it
                _log.warning("cannot claim: %s; again in %.1f s", error, backoff.seconds)
                await backoff.wait()

    async def _step(self) -> None:
        self._buffer.measure(self._slots.finished)
        self._stock.measure(self._shares.with_permits)
        self._let_go_of_stalled()
        if not self._slots.may_claim:
            await self._demand.wait(1.0)
            return
        if self._demand.is_unsure or time.monotonic() >= self._next_audit:
            await self._release_orphans()
        if self._suspect_due_at is not None and time.monotonic() >= max(self._suspect_due_at, self._suspect_turn_from):
            await self._suspect_turn()
        if self._is_dry and not self._buffer.reserve:
            self._has_slept = True
            self._is_dry = not await self._rest()
            if self._is_dry or self._is_stopping:
                return
        limit, is_prefetch = self._buffer.wanted(self._slots.free, is_first=self._has_slept)
        if limit == 0 or all(map(self._stock.is_enough, self._queues)):
            await self._demand.wait(_STALL_SECONDS)
            return
        began = time.monotonic()
        self._is_dry = not await self._claim(limit, is_prefetch=is_prefetch)
        self._has_slept = False
        if self._is_dry:
            await asyncio.sleep(0)  # what was claimed starts first; all that comes next is to wait for more
            self._due.forget_taken(began)
        rests_next = self._is_dry and not self._buffer.reserve
        if not rests_next and self._position.may_look_back(time.monotonic(), is_busy=True):
            await self._look_back()

    async def _claim(self, limit: int, *, is_prefetch: bool) -> bool:
        """Whether there may be more."""
        is_more = False
        reserve = self._buffer.reserve
        self._due.begin_claims()
        left = claim_size(min(self._buffer.lines.width(limit), self._config.batch))
        fair = self._fair.names
        lanes = self._position.lanes
        if fair:
            await self._walk_on()
            lanes = [*lanes, *self._fair.lanes]
        for some, most in self._shares.portions(self._selection.arrange(lanes), limit, fair):
            queue = some[0].queue
            if self._shares.room(queue) is not None:
                count, has_more = await self._claim_limited(queue, some, min(most, left), is_prefetch=is_prefetch)
                left -= count
                is_more |= has_more or left <= 0
                continue
            for part in self._fair.parts(some, claim_size(left)) if left > 0 else []:
                count, has_more = await self._claim_freely(part, is_prefetch=is_prefetch)
                left -= count
                is_more |= has_more
            is_more |= left <= 0
        if reserve and self._buffer.reserve is reserve:  # none of these claims has made it ready
            await self._fetch(Part([], 1, None), is_prefetch=True, is_limited=False)
        return is_more or self._fair.seconds_until_walk(time.monotonic()) <= 0

    async def _claim_freely(self, part: Part, *, is_prefetch: bool) -> tuple[int, bool]:
        """How many were claimed, and whether there may be more."""
        claimed, is_more = await self._fetch(part, is_prefetch=is_prefetch, is_limited=False)
        if not claimed and not claimed.aside:
            self._shares.wonder()
        return len(claimed), is_more

    async def _claim_limited(self, queue: str, lanes: list[Lane], most: int, *, is_prefetch: bool) -> tuple[int, bool]:
        """The same, as far as its limits go."""
        # Another claim may have come between, and an ask about the share with it.
        room = self._shares.room(queue) or 0
        most = min(most, room)
        unused = self._slots.free - len(self._buffer.ready)
        now = min(most, self._shares.room(queue, is_ahead=False) or 0, unused)
        is_ahead = self._shares.may_wait(queue) and self._is_ahead(queue, now, is_prefetch=is_prefetch)
        if is_ahead and unused > 0:
            # Slots are there: what is of use goes by the pace of this queue, which may have grown before that of all.
            most = max(most, min(room, self._stock.appetite(queue)))
        limit = claim_size(most if is_ahead else now)
        if limit <= 0:
            self._due.lacks_slot |= most > 0
            return 0, False
        self._shares.claiming(queue, limit)
        self._unanswered[queue] = limit
        is_more = False
        count = 0
        for part in self._fair.parts(lanes, limit):
            claimed, has_more = await self._fetch(part, is_prefetch=is_ahead, is_limited=True)
            count += len(claimed)
            is_more |= has_more
        self._answered(queue, count)
        if is_more:
            self._due.wants_room(queue)
        return count, is_more and bool(self._shares.room(queue))

    def _is_ahead(self, queue: str, now: int, *, is_prefetch: bool) -> bool:
        """Whether to claim more than `now` can be started, which wait in reserve, as `Buffer.wanted` for all queues."""
        if self._shares.permits(queue) is None:
            return is_prefetch
        return now <= 0 or not (self._has_slept or now >= self._stock.appetite(queue))

    async def _fetch(self, part: Part, *, is_prefetch: bool, is_limited: bool) -> tuple[Claim, bool]:
        """What was claimed, which is started now, or lies in reserve; and whether there may be more.

        Where each job counts, nobody comes along behind another.
        """
        start = self._buffer.reserved_at if is_prefetch else None
        drops = self._buffer.take_idle_marks()
        run = 0 if is_limited else self._buffer.lines.run
        claimed, is_more = await self._run_claim(
            part, prefetch=is_prefetch, start=start, drops=drops, run=run, is_limited=is_limited
        )
        first = self._buffer.lines.enter(claimed)
        self._buffer.lines.learn_width(len(first), len(claimed), self._room(part))
        if is_prefetch:
            self._buffer.promote(first)
        else:
            self._buffer.ready.extend(first)
        if is_prefetch and not self._slots.takes_batches:
            # The next claim goes out first, and is under way while these are started: until then none is stalled.
            self._slots.fill_soon()
            self._last_gain = time.monotonic() if self._slots.free > 0 else self._last_gain
        else:
            self._slots.fill()
        if not is_limited:  # which says nothing of what the slots could take
            self._slots.learn_batch_size(was_full=len(first) >= part.limit)
        return claimed, is_more

    async def _run_claim(
        self,
        part: Part,
        *,
        prefetch: bool = False,
        start: Instant | None = None,
        drops: Sequence[Instant] = (),
        run: int = 0,
        is_limited: bool = False,
    ) -> tuple[Claim, bool]:
        """What was claimed, and whether there may be more."""
        taste = self._selection.taste
        plain = not is_limited and self._may_be_plain(part, taste)
        began = time.monotonic()
        claimed = await self._store.run(
            lambda: claim_jobs(
                self._worker_id,
                part.lanes,
                part.limit,
                self._config.lease,
                prefetch=prefetch,
                start=start,
                drops=drops,
                run=run if part.most is None else min(run, part.most),
                room=self._room(part),
                taste=taste,
                most=part.most,
                plain=plain,
            )
        )
        if claimed.was_not_plain:
            self._plain.were_not_plain(lane.queue for lane in part.lanes)
        ended = time.monotonic()
        self._buffer.learn_round_trip(ended - began)
        if claimed and self._slots.free > 0:
            self._last_gain = ended
        self._has_looked_since_claim = False
        # Followers come from behind the candidates; the position moves past these only.
        candidates = [job for job in claimed if job.standing != "follows"]
        if part.most is not None:
            self._fair.took(part, candidates, claimed.passed, claimed.left)
            is_more = self._fair.has_turn(part.lanes[0].queue)
        else:
            self._position.advance(candidates)
            self._position.advance(claimed.passed)
            # What was passed by counts: it is in front of others, and stays there as long as somebody holds it up.
            is_more = len(claimed) + sum(claimed.left.values()) >= part.limit
            if part.lanes:
                self._fair.took_plain(part.lanes[0].queue, is_more=is_more)
        self._due.claimed((lane.queue for lane in part.lanes), is_more=is_more)
        return claimed, is_more

    def _may_be_plain(self, part: Part, taste: str | None) -> bool:
        """Whether the short statement for plain jobs is worth a try."""
        if not (self._store.claims_plainly and part.lanes and part.most is None and taste is None):
            return False
        return self._plain.are_worth_a_try(lane.queue for lane in part.lanes)

    def _room(self, part: Part) -> int:
        """Who comes along behind another needs no slot of its own; where queues or tenants take turns, each counts."""
        takes_turns = part.most is not None or self._selection.is_weighted
        if takes_turns or any(lane.queue in self._fair.names for lane in part.lanes):
            return part.limit
        return self._config.batch

    def _answered(self, queue: str, count: int) -> None:
        del self._unanswered[queue]
        self._shares.claimed(queue, count)

    async def _look_back(self) -> None:
        """See where claimable jobs are, from the beginning: what came in behind the position, and new lanes."""
        began = time.monotonic()
        self._has_looked_since_claim = True  # not in the end: there may be a claim before that
        try:
            found = await self._find_lanes()
        except BaseException:
            self._has_looked_since_claim = False
            raise
        ended = time.monotonic()
        # A lane whose first job is due later keeps its place: what comes in before that job must not lie behind it.
        self._position.look_back(
            (lane for lane in found if not lane.is_suspect and not lane.is_fair and lane.due_in_ms == 0), began, ended
        )
        suspects = [lane.due_in_ms for lane in found if lane.is_suspect]
        self._suspect_due_at = ended + min(suspects) / 1000 if suspects else None
        self._due.looked((self._due_at(lane, ended), lane.queue) for lane in found if not lane.is_suspect)
        if self._due.seconds_left(ended) <= 0:
            self._is_dry = False

    async def _find_lanes(self) -> Sequence[FoundLane]:
        taste = self._selection.taste
        found = await self._store.run(lambda: find_lanes(self._queues, taste), read_only=True)
        if self._fair.names or any(lane.is_fair for lane in found):
            await self._look_for_tenants(found, taste)
        return found

    async def _look_for_tenants(self, found: Sequence[FoundLane], taste: str | None) -> None:
        """See whose turn it is in the queues in which tenants take turns."""
        due = {lane.queue for lane in found if lane.is_fair and lane.due_in_ms == 0}
        plain = {lane.queue for lane in found if not lane.is_fair and not lane.is_suspect and lane.due_in_ms == 0}
        tenants = {}
        for queue in due:
            verb = partial(find_tenants, queue, self._fair.after(queue), taste)
            tenants[queue] = await self._store.run(verb, read_only=True)
        self._fair.look(tenants, plain, self._fair.names - {lane.queue for lane in found if lane.is_fair})

    async def _walk_on(self) -> None:
        """See whose turn is next, where everybody we know of has had one."""
        began = time.monotonic()
        found = {}
        for queue in self._fair.to_walk(began):
            verb = partial(find_tenants, queue, self._fair.after(queue), self._selection.taste)
            found[queue] = await self._store.run(verb, read_only=True)
        if found:
            self._fair.walked(found, began, time.monotonic())

    def _due_at(self, lane: FoundLane, now: float) -> float:
        if lane.is_fair and not lane.due_in_ms and not self._fair.has_turn(lane.queue):
            # It is due, but its tenant is not among those that we know: the next look may show it, or a walk before.
            return now + self._position.seconds_until_look_back(now)
        return now + lane.due_in_ms / 1000

    async def _rest(self) -> bool:
        """Nothing claimable, as far as we know; whether there is a reason to claim now."""
        if self._has_missed_slot:
            return True
        if self._wants_look and self._position.may_look_back(time.monotonic()):
            return await self._look_beside_hints()
        return await self._sleep()

    @property
    def _has_missed_slot(self) -> bool:
        """The last claim passed a limited queue by for want of a slot, and one was freed before we waited for that."""
        return self._due.lacks_slot and self._slots.free > len(self._buffer.ready)

    @property
    def _wants_look(self) -> bool:
        return not self._has_looked_since_claim and self._looking is None

    async def _look_beside_hints(self) -> bool:
        """Look back; a hint that comes meanwhile does not wait for that, and what was looked for is seen later."""
        if self._fair.names:  # turns are not dealt out while they are taken
            await self._look_back()
            return not self._is_dry
        self._looking = looking = asyncio.create_task(self._look_back(), name="holdfast-look")
        is_hinted = await self._waker.wait(self._config.poll.total_seconds(), beside=looking)
        if is_hinted:
            self._has_looked_since_claim = False  # what it tells of may have come after this look
        if looking.done():
            self._looking = None
            looking.result()
        else:
            looking.add_done_callback(self._looked_late)
        return is_hinted or not self._is_dry

    def _looked_late(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled() and (error := looking.exception()) is not None:
            _log.debug("a look was in vain: %s", error)
        self._waker.poke()

    async def _sleep(self) -> bool:
        """Until something is due, a hint comes, or it is time to look or to claim anyway; whether to claim.

        Only to look, nothing is claimed: that would take locks just to find nothing.
        """
        if self._has_missed_slot:
            return True
        now = time.monotonic()
        poll = now + self._config.poll.total_seconds() * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        until = [poll, now + self._due.seconds_left(now)]
        if self._suspect_due_at is not None:
            until.append(max(self._suspect_due_at, self._suspect_turn_from))
        until.append(now + self._fair.seconds_until_walk(now))
        if len(self._buffer):
            until.append(now + _STALL_SECONDS)
        claim_at = min(until)
        look_at = now + self._position.seconds_until_look_back(now) if self._wants_look else math.inf
        self.sleep_number += 1
        self.is_asleep = True
        self._demand.second_bell = self._waker.poke if self._due.lacks_slot or self._due.lacks_room else None
        is_hinted = await self._waker.wait(max(0.0, min(claim_at, look_at) - now))
        self._demand.second_bell = None
        self.is_asleep = False
        # Whatever woke us may have come after the last look, and stand in a lane that we do not know.
        self._has_looked_since_claim = False
        self._fair.revive()
        return is_hinted or time.monotonic() >= claim_at

    def _let_go_of_stalled(self) -> None:
        """Long jobs have taken all slots, or permits: what waits behind them goes back, for whoever has room."""
        last_move = max(self._slots.last_start, self._last_gain)
        if len(self._buffer) and time.monotonic() - last_move >= _STALL_SECONDS:
            self._slots.give_back(self._buffer.clear())
            self._buffer.rest()
        for queue in self._buffer.shelf.overdue(max(_STALL_SECONDS, _STALL_HORIZONS * self._buffer.horizon)):
            self._slots.give_back(self._buffer.take_out(queue))
            self._stock.rest(queue)

    async def _suspect_turn(self) -> None:
        """Run one suspect with nothing else in the process, so that a crash points at the culprit.

        Long jobs are not waited for without end: they may share a process with a suspect, but no two suspects do, so an
        innocent is in a crash at most once.
        """
        if self._slots.has_suspect or self._slots.is_clogged:
            self._suspect_turn_from = time.monotonic() + _SUSPECT_PATIENCE
            return
        began = time.monotonic()
        self._slots.give_back(self._buffer.clear())
        await self._slots.wait_empty(_SUSPECT_PATIENCE)
        await self._slots.wait_written(_SUSPECT_PATIENCE)
        taste = self._selection.taste
        rooms = {queue: self._shares.room(queue, is_ahead=False) for queue in self._queues}
        queues = [queue for queue, room in rooms.items() if room != 0]
        for queue in queues:
            if rooms[queue] is not None:
                self._shares.claiming(queue, 1)
                self._unanswered[queue] = 1
        suspects = await self._claim_suspect(queues, taste)
        for queue in list(self._unanswered):
            self._answered(queue, sum(suspect.queue == queue for suspect in suspects))
        for suspect in suspects:
            self._slots.start_alone(suspect)
            await self._slots.wait_empty(_SUSPECT_PATIENCE)
        self._suspect_due_at = None
        # Ordinary work gets at least as much time as the suspect took.
        self._suspect_turn_from = time.monotonic() + (time.monotonic() - began)
        await self._look_back()

    async def _claim_suspect(self, queues: Sequence[str], taste: str | None) -> Claim:
        """The first that may run: one behind something that somebody is just changing does not hide the others."""
        passed: list[int] = []
        while True:
            verb = partial(claim_suspect, self._worker_id, queues, self._config.lease, taste, tuple(passed))
            claimed = await self._store.run(verb)
            passed += [place.seq for place in claimed.passed]
            if claimed or not (claimed.passed or claimed.aside) or len(passed) >= _MOST_PASSED:
                return claimed

    async def _release_orphans(self) -> None:
        """Give back what the database says we hold and we do not know of; our heartbeat keeps it from others."""
        known = [lease.id for lease in self._slots.leases()]
        released, woken, _ = await self._store.run(lambda: release_orphans(self._worker_id, known, started=False))
        if released:
            _log.warning("gave back %d jobs whose claim was never answered", len(released))
            # They went back to their old places, which this worker has passed; and it may have no room for them now.
            self._look_soon()
            self._woken(woken)
        for queue, count in list(self._unanswered.items()):
            self._answered(queue, count)  # what it really got, if anything, has just gone back
        self._demand.is_unsure = False
        self._next_audit = time.monotonic() + self._config.renew.total_seconds()
