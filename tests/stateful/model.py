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

    def observed(self) -> tuple[object, ...]:
        """What anybody can see of it."""
        return (
            *(self.type_name, self.chain_id, self.chain_type, self.chain_index, self.number, self.priority),
            *(self.scheduled_at, self.ready_at, self.status, self.attempt, self.generation, self.revision),
            *(self.output, len(self.unresolved)),
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
        job.attempt, job.max_attempts, job.status = 0, None, "pending"
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

    def claim(self, limit: int) -> list[tuple[str, int]]:
        due = [job for job in self.jobs.values() if job.status == "pending" and job.ready_at <= self.now]
        due.sort(key=lambda job: (job.priority, job.ready_at, job.seq))
        for job in due[:limit]:
            job.status = "running"
            job.attempt += 1
            job.generation += 1
        return [(job.id, job.generation) for job in due[:limit]]

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
        if job.is_cancel_requested:
            self._end(job, "cancelled")
        elif is_final or job.attempt >= (job.max_attempts or attempts):
            self._end(job, "dead_letter")
        else:
            job.status, job.ready_at = "pending", self.now + timedelta(seconds=delay)
        return True

    def release(self, job_id: str, generation: int) -> bool:
        job = self._held(job_id, generation)
        if job is None:
            return False
        job.attempt -= 1
        if job.is_cancel_requested:
            self._end(job, "cancelled")
        else:
            job.status = "pending"
        return True

    def go_on(self, job_id: str, generation: int, order: Order) -> bool:
        """Continue a chain."""
        job = self._held(job_id, generation)
        if job is None:
            return False
        if self._awaits(order.blockers, job.chain_id):
            raise Refused("BlockerCycle")
        job.status, job.is_tail = "completed", False
        self._follow(job, order)
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

    def retry(self, chain_id: str) -> str:
        tail = self.tail(chain_id)
        if tail is None:
            return "not_found"
        if tail.status not in ("dead_letter", "cancelled"):
            return "wrong_status"
        if any(blocker not in self.jobs for blocker in tail.unresolved):
            return "blocker_gone"
        first = self.jobs[chain_id]
        if first.key is not None:
            holder = self.holder(first.chain_type, first.key)
            if holder is not None and holder != chain_id:
                return "key_taken"
            self.keys[first.chain_type, first.key] = (chain_id, first.scope or "")
        tail.attempt, tail.is_cancel_requested, tail.ready_at = 0, False, self.now
        tail.status = "blocked" if tail.unresolved else "pending"
        return "retried"

    def reschedule(self, chain_id: str, delay: int) -> str:
        tail = self.tail(chain_id)
        if tail is None:
            return "not_found"
        if tail.status not in WAITING:
            return "wrong_status"
        tail.scheduled_at = self.now + timedelta(seconds=delay)
        if tail.status == "pending":
            tail.ready_at = tail.scheduled_at
        return "rescheduled"

    def delete(self, chain_id: str) -> str:
        if chain_id not in self.jobs:
            return "not_found"
        if self.dependants(chain_id):
            raise Refused("ChainNeeded")
        for job in [job for job in self.jobs.values() if job.chain_id == chain_id]:
            del self.jobs[job.id]
        for key, (holder, scope) in list(self.keys.items()):
            if holder == chain_id and scope != "forever":
                del self.keys[key]
        return "deleted"

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
