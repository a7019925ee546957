"""What Holdfast should do, in as few words as possible: jobs in a dict, one verb after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

UNFINISHED = ("pending", "blocked", "running")
WAITING = ("pending", "blocked")


@dataclass
class Record:
    """A job; `unresolved` are the chains for which it still waits."""

    id: str
    seq: int
    type_name: str
    chain_id: str
    chain_type: str
    chain_index: int
    number: int
    priority: int
    scheduled_at: datetime
    ready_at: datetime
    status: str
    policy: str | None = None
    blockers: list[str] = field(default_factory=list)
    unresolved: set[str] = field(default_factory=set)
    key: str | None = None
    scope: str | None = None
    max_attempts: int | None = None
    attempt: int = 0
    generation: int = 0
    revision: int = 0
    is_tail: bool = True
    output: int | None = None
    is_cancel_requested: bool = False
    crashes: int = 0
    expires_at: datetime | None = None
    refused_since: datetime | None = None
    worker: str = ""
    leased_until: datetime | None = None

    def observed(self) -> tuple[object, ...]:
        """What anybody can see of it."""
        return (
            *(self.type_name, self.chain_id, self.chain_type, self.chain_index, self.number, self.priority),
            *(self.scheduled_at, self.ready_at, self.status, self.attempt, self.generation, self.revision),
            *(self.output, len(self.unresolved), self.crashes, self.expires_at),
        )


@dataclass(frozen=True)
class Order:
    """One job that somebody wants to enqueue."""

    id: str
    type_name: str
    number: int
    priority: int = 0
    delay: int = 0
    key: str | None = None
    scope: str = "unfinished"
    on_conflict: str = "keep"
    blockers: tuple[str, ...] = ()
    policy: str | None = None
    expires: int | None = None


class Refused(Exception):
    """Nothing was changed; the name is that of the error."""


class Model:
    """All jobs and keys, and the time."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[str, Record] = {}
        #: (type, key) -> chain and scope of whoever took it last
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        self._seq = 0

    # --- looking ------------------------------------------------------------------------------------------------------

    def tail(self, chain_id: str) -> Record | None:
        return next((job for job in self.jobs.values() if job.chain_id == chain_id and job.is_tail), None)

    def chains(self) -> list[str]:
        return [job.id for job in self.jobs.values() if job.chain_index == 0]

    def holder(self, type_name: str, key: str) -> str | None:
        """The chain that holds the key now."""
        chain_id, scope = self.keys.get((type_name, key), ("", ""))
        if scope == "forever":
            return chain_id
        first, tail = self.jobs.get(chain_id), self.tail(chain_id)
        if first is None or tail is None:
            return None
        if scope == "pending":
            return chain_id if first.generation == 0 and first.status in WAITING else None
        return chain_id if tail.status in UNFINISHED else None

    def dependants(self, chain_id: str) -> list[Record]:
        """Unfinished jobs of other chains that need it."""
        return [
            job
            for job in self.jobs.values()
            if chain_id in job.blockers and job.chain_id != chain_id and job.status in UNFINISHED
        ]

    # --- enqueue ------------------------------------------------------------------------------------------------------

    def enqueue(self, orders: Sequence[Order]) -> list[tuple[str, str, str | None]]:
        """Id, outcome and superseded chain of each; all or nothing."""
        for order in orders:
            if order.key is not None:
                holder = self.holder(order.type_name, order.key)
                if holder is not None and order.on_conflict == "reject":
                    raise Refused("DuplicateKey")
                if holder is not None and self._is_replaceable(holder, order) and self._awaits(order.blockers, holder):
                    raise Refused("BlockerCycle")
        return [self._enqueue(order) for order in orders]

    def _enqueue(self, order: Order) -> tuple[str, str, str | None]:
        superseded = None
        if order.key is not None:
            holder = self.holder(order.type_name, order.key)
            if holder is not None and order.on_conflict == "keep":
                return holder, "kept", None
            if holder is not None and self._is_replaceable(holder, order):
                self._replace(self.jobs[holder], order)
                self.keys[order.type_name, order.key] = (holder, order.scope)
                return holder, "replaced", None
            superseded = holder
            self.keys[order.type_name, order.key] = (order.id, order.scope)
        self._seq += 1
        due = self.now + timedelta(seconds=order.delay)
        job = Record(
            *(order.id, self._seq, order.type_name, order.id, order.type_name, 0, order.number, order.priority),
            *(due, due, "pending"),
            key=order.key,
            scope=order.scope if order.key else None,
            expires_at=None if order.expires is None else self.now + timedelta(seconds=order.expires),
        )
        self.jobs[job.id] = job
        self._block(job, order)
        return order.id, "created", superseded

    def _is_replaceable(self, chain_id: str, order: Order) -> bool:
        first = self.jobs.get(chain_id)
        is_waiting = first is not None and first.is_tail and first.status in WAITING
        return is_waiting and order.on_conflict.startswith("replace")

    def _replace(self, job: Record, order: Order) -> None:
        keeps = order.on_conflict == "replace_keep_schedule" and job.attempt == 0
        due = self.now + timedelta(seconds=order.delay)
        if not keeps:
            job.scheduled_at = job.ready_at = due
        elif job.status == "blocked":
            job.ready_at = max(job.scheduled_at, self.now)
        job.number, job.priority, job.key, job.scope = order.number, order.priority, order.key, order.scope
        job.attempt, job.crashes, job.max_attempts, job.status = 0, 0, None, "pending"
        job.refused_since = None
        job.revision += 1
        job.blockers, job.unresolved = [], set()
        self._block(job, order)

    def _block(self, job: Record, order: Order) -> None:
        job.blockers, job.policy = list(order.blockers), order.policy
        failed = False
        for chain_id in order.blockers:
            tail = self.tail(chain_id)
            assert tail is not None
            if tail.status in UNFINISHED or (tail.status != "completed" and order.policy != "run"):
                job.unresolved.add(chain_id)
            failed |= tail.status in ("dead_letter", "cancelled")
        if job.unresolved:
            job.status = "blocked"
            if failed and order.policy == "cancel":
                self._end(job, "cancelled")

    def _has_failed(self, chain_id: str) -> bool:
        tail = self.tail(chain_id)
        return tail is not None and tail.status in ("dead_letter", "cancelled")

    def _awaits(self, chains: Iterable[str], target: str) -> bool:
        seen, open_ = set(), list(chains)
        while open_:
            chain_id = open_.pop()
            if chain_id == target:
                return True
            if chain_id not in seen:
                seen.add(chain_id)
                waiting = (job for job in self.jobs.values() if job.chain_id == chain_id and job.status == "blocked")
                open_ += [blocker for job in waiting for blocker in job.unresolved]
        return False

    # --- holders ------------------------------------------------------------------------------------------------------

    def claim(self, worker: str, limit: int, lease: timedelta) -> list[tuple[str, int]]:
        """Those that no worker has died of."""
        return [self._start(job, worker, lease) for job in self._due(suspects=False)[:limit]]

    def claim_suspect(self, worker: str, lease: timedelta) -> list[tuple[str, int]]:
        """One at a time."""
        return [self._start(job, worker, lease) for job in self._due(suspects=True)[:1]]

    def _due(self, *, suspects: bool) -> list[Record]:
        due = [
            job
            for job in self.jobs.values()
            if job.status == "pending"
            and job.ready_at <= self.now
            and bool(job.crashes) == suspects
            and not self._is_overdue(job)
        ]
        return sorted(due, key=lambda job: (job.priority, job.ready_at, job.seq))

    def _is_overdue(self, job: Record) -> bool:
        is_unstarted = job.status in WAITING and job.attempt == 0
        return is_unstarted and job.expires_at is not None and job.expires_at <= self.now

    def _start(self, job: Record, worker: str, lease: timedelta) -> tuple[str, int]:
        job.status, job.worker, job.leased_until = "running", worker, self.now + lease
        job.attempt += 1
        job.generation += 1
        return job.id, job.generation

    def _held(self, job_id: str, generation: int) -> Record | None:
        job = self.jobs.get(job_id)
        return job if job and job.status == "running" and job.generation == generation else None

    def complete(self, job_id: str, generation: int, output: int) -> bool:
        job = self._held(job_id, generation)
        if job is None:
            return False
        job.output = output
        self._end(job, "completed")
        return True

    def fail(self, job_id: str, generation: int, delay: int, *, is_final: bool, attempts: int) -> bool:
        job = self._held(job_id, generation)
        if job is None:
            return False
        job.refused_since = None
        if job.is_cancel_requested:
            self._end(job, "cancelled")
        elif is_final or job.attempt >= (job.max_attempts or attempts):
            self._end(job, "dead_letter")
        else:
            job.status, job.ready_at = "pending", self.now + timedelta(seconds=delay)
        return True

    def release(self, job_id: str, generation: int, *, is_started: bool) -> bool:
        job = self._held(job_id, generation)
        if job is None:
            return False
        if is_started:
            job.expires_at = job.refused_since = None
        self._put_back(job, job.ready_at)
        return True

    def snooze(self, job_id: str, generation: int, delay: int) -> bool:
        job = self._held(job_id, generation)
        if job is None:
            return False
        job.expires_at = job.refused_since = None
        self._put_back(job, self.now + timedelta(seconds=delay))
        return True

    def refuse(self, job_id: str, generation: int, patience: timedelta) -> bool:
        """By a worker that does not know its type: for as long as it has been refused, and not for ever."""
        job = self._held(job_id, generation)
        if job is None:
            return False
        job.refused_since = job.refused_since or self.now
        waited = self.now - job.refused_since
        pause = min(max(waited, timedelta(seconds=1)), timedelta(minutes=5))
        self._put_back(job, self.now + pause, ends="dead_letter" if waited >= patience else None)
        return True

    def _put_back(self, job: Record, ready_at: datetime, ends: str | None = None) -> None:
        """With its attempt refunded; unless it ends by this."""
        job.attempt -= 1
        if job.is_cancel_requested:
            self._end(job, "cancelled")
        elif ends:
            self._end(job, ends)
        else:
            job.status, job.ready_at = "pending", ready_at

    def renew(self, job_id: str, generation: int, lease: timedelta) -> tuple[bool, bool]:
        """Whether it is still the holder's, and whether he is asked to stop."""
        job = self._held(job_id, generation)
        if job is not None:
            job.leased_until = self.now + lease
        return job is not None, job is not None and job.is_cancel_requested

    def go_on(self, job_id: str, generation: int, order: Order) -> bool:
        """Continue a chain."""
        known = self.jobs.get(job_id)
        # Blockers are looked at before the fence: they are locked first.
        if known is not None and self._awaits(order.blockers, known.chain_id):
            raise Refused("BlockerCycle")
        job = self._held(job_id, generation)
        if job is None:
            return False
        job.status, job.is_tail = "completed", False
        following = self._follow(job, order)
        if job.is_cancel_requested:
            self._end(following, "cancelled")
        return True

    def _follow(self, parent: Record, order: Order) -> Record:
        self._seq += 1
        due = self.now + timedelta(seconds=order.delay)
        following = Record(
            *(order.id, self._seq, order.type_name, parent.chain_id, parent.chain_type, parent.chain_index + 1),
            *(order.number, order.priority, due, due, "pending"),
        )
        self.jobs[following.id] = following
        self._block(following, order)
        return following

    # --- housekeeping -------------------------------------------------------------------------------------------------

    def reap(self, dead: str, *, attempts: int, crash_cap: int) -> tuple[int, int, int]:
        """What the dead worker held, and whatever was not renewed; how many returned, died and were cancelled."""
        counts = {"pending": 0, "dead_letter": 0, "cancelled": 0}
        held = [job for job in self.jobs.values() if job.status == "running"]
        for job in held:
            is_crash = job.worker == dead
            if not is_crash and (job.leased_until is None or job.leased_until >= self.now):
                continue
            job.crashes += is_crash
            job.refused_since = None
            if is_crash:
                job.expires_at = None
            if job.is_cancel_requested:
                self._end(job, "cancelled")
            elif job.crashes >= crash_cap or (job.attempt >= (job.max_attempts or attempts)):
                self._end(job, "dead_letter")
            else:
                job.status, job.ready_at = "pending", self.now + timedelta(seconds=2 ** (job.attempt - 1))
            counts[job.status] += 1
        return counts["pending"], counts["dead_letter"], counts["cancelled"]

    def expire(self) -> int:
        """Whatever was not started in time; those that are cancelled for it may have been overdue themselves."""
        overdue = [job for job in self.jobs.values() if self._is_overdue(job)]
        for job in overdue:
            if job.status in WAITING:
                self._end(job, "cancelled")
        return len(overdue)

    # --- people -------------------------------------------------------------------------------------------------------

    def complete_outside(self, job_id: str, output: int) -> None:
        job = self.jobs.get(job_id)
        if job is None:
            raise Refused("JobNotFound")
        if job.status not in UNFINISHED:
            raise Refused("AlreadyFinished")
        job.output = output
        job.generation += 1  # whoever held it does not any more
        self._end(job, "completed")

    def cancel(self, chain_id: str) -> str:
        tail = self.tail(chain_id)
        if tail is None:
            return "not_found"
        if tail.status in WAITING:
            self._end(tail, "cancelled")
            return "cancelled"
        if tail.status == "running":
            tail.is_cancel_requested = True
            return "requested"
        return "wrong_status"

    def retry(self, chain_id: str) -> str:  # noqa: PLR0911 - one for each outcome
        tail = self.tail(chain_id)
        if tail is None:
            return "not_found"
        if tail.status not in ("dead_letter", "cancelled"):
            return "wrong_status"
        if any(blocker not in self.jobs for blocker in tail.unresolved):
            return "blocker_gone"
        # Whoever was told that it had ended, and still waits for others, waits for it again.
        told = [job for job in self.jobs.values() if chain_id in job.blockers and job.unresolved - {chain_id}]
        again = [chain_id, *(job.chain_id for job in told if job.status == "blocked")]
        if any(self._awaits(tail.unresolved, each) for each in again):
            return "blocker_cycle"
        if tail.policy == "cancel" and any(self._has_failed(blocker) for blocker in tail.unresolved):
            return "blocker_failed"
        first = self.jobs[chain_id]
        if first.key is not None:
            holder = self.holder(first.chain_type, first.key)
            if holder is not None and holder != chain_id:
                return "key_taken"
            self.keys[first.chain_type, first.key] = (chain_id, first.scope or "")
        for job in told:
            job.unresolved.add(chain_id)
        if tail.attempt or (tail.expires_at is not None and tail.expires_at <= self.now):
            tail.expires_at = None
        tail.attempt, tail.crashes, tail.is_cancel_requested, tail.refused_since = 0, 0, False, None
        tail.ready_at = max(self.now, tail.scheduled_at)
        tail.status = "blocked" if tail.unresolved else "pending"
        return "retried"

    def reschedule(self, chain_id: str, delay: int) -> str:
        tail = self.tail(chain_id)
        if tail is None:
            return "not_found"
        if tail.status not in WAITING:
            return "wrong_status"
        tail.scheduled_at = self.now + timedelta(seconds=delay)
        tail.refused_since = None
        if tail.status == "pending":
            tail.ready_at = tail.scheduled_at
        return "rescheduled"

    def remove(self, type_name: str, key: str) -> str:
        holder = self.holder(type_name, key)
        if holder is None:
            return "not_found"
        tail = self.tail(holder)
        if tail is not None and tail.chain_index == 0 and tail.status in WAITING:
            if self.dependants(holder):
                return "needed"
            del self.keys[type_name, key]
            del self.jobs[holder]
            return "removed"
        del self.keys[type_name, key]
        if tail is not None:
            self.jobs[holder].key = self.jobs[holder].scope = None
            if tail.status in UNFINISHED:  # the attempt that runs is the last one, or the next one is
                tail.max_attempts = tail.attempt + (tail.status != "running")
        return "key_given_up"

    def delete(self, chain_id: str, *, cascade: bool) -> list[str]:
        """With cascade, also what it waited for; nothing that others need, or that others have waited for."""
        if chain_id not in self.jobs:
            return ["not_found"]
        doomed, open_ = set(), [chain_id]
        while open_:
            doomed.add(chain := open_.pop())
            if cascade:
                members = [job for job in self.jobs.values() if job.chain_id == chain]
                open_ += [each for job in members for each in job.blockers if each in self.jobs and each not in doomed]
        for chain in doomed:
            others = [job for job in self.jobs.values() if chain in job.blockers and job.chain_id not in doomed]
            if any(job.status in UNFINISHED or chain != chain_id for job in others):
                raise Refused("ChainNeeded")
        for job in [job for job in self.jobs.values() if job.chain_id in doomed]:
            del self.jobs[job.id]
        for key, (holder, scope) in list(self.keys.items()):
            if holder in doomed and scope != "forever":
                del self.keys[key]
        return ["deleted"] * len(doomed)

    # --- endings ------------------------------------------------------------------------------------------------------

    def _end(self, job: Record, status: str) -> None:
        """And tell those who wait."""
        job.status = status
        chain_id = job.chain_id
        for waiting in sorted(self.jobs.values(), key=lambda each: each.seq):
            if chain_id not in waiting.unresolved:
                continue
            if status == "completed" or waiting.policy == "run":
                waiting.unresolved.discard(chain_id)
                if waiting.status == "blocked" and not waiting.unresolved:
                    waiting.status, waiting.ready_at = "pending", max(waiting.scheduled_at, self.now)
            elif waiting.policy == "cancel" and waiting.status == "blocked":
                self._end(waiting, "cancelled")
