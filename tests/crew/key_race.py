"""Claims that race for a few partition keys, through stores alone, and what went wrong meanwhile.

Producers with transactions of any length, some rolled back; claimers that complete, fail, let their leases lapse and
come back as zombies; a person who cancels and deletes, and now and then thinks better of it; a reaper and a sweeper.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
from msgspec.structs import replace

from holdfast import App, Client
from holdfast.errors import DatabaseBusy, HoldfastError, SerializationConflict
from holdfast.model.job import JobError
from holdfast.operations.claim_jobs import ClaimedJob, claim_jobs
from holdfast.operations.complete_jobs import complete_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.lease import Settlement
from holdfast.operations.reap_jobs import reap_jobs
from holdfast.operations.release_jobs import release_jobs
from holdfast.operations.statement import Operation
from holdfast.operations.sweep_keys import find_stranded, free_keys
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from holdfast.stores import SyncStore
from tests.crew.keyed import done, due_lanes, in_order, key_of, lease_of, place_of

#: of honest claims: so long that nobody outlives it, whatever the machine has to do besides
LONG = timedelta(seconds=20)
#: of those that will not be reported in time
SHORT = timedelta(seconds=0.2)


@dataclass(frozen=True, slots=True)
class Hold:
    """Jobs of one key that one claim brought: held from when the claim had returned until they were to be reported."""

    key: str
    began: float
    since: float
    until: float
    #: place and id of those that were run, in the order in which they were
    ran: tuple[tuple[int, str], ...]


@dataclass
class Verdict:
    """What must be empty, or zero."""

    overlaps: list[tuple[Hold, Hold]] = field(default_factory=list)
    disorders: list[tuple[str, int, int]] = field(default_factory=list)
    completed_twice: list[str] = field(default_factory=list)
    left: int = 0


class KeyRace:
    """One race on one database."""

    def __init__(self, app: App, call: Callable[[], Any], ordering: str, seed: int, *, keys: int = 4) -> None:
        self._app = app
        self._call = call
        self._orderings = ["fifo", "serial"] if ordering == "mixed" else [ordering]
        self._seed = seed
        self._keys = keys
        self._is_postgres = app.store.dialect == "postgres"
        self._no_more = threading.Event()
        self._over = threading.Event()
        self._failures: list[BaseException] = []
        self._holds: list[Hold] = []
        #: when a job was known to be committed
        self._committed: dict[str, float] = {}
        self._fifo: set[str] = set()
        #: when somebody first set out to end it, and did, as far as he knows
        self._ended: dict[str, float] = {}
        self._completions: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def run(self, seconds: float, patience: float = 25.0) -> Verdict:
        with self._app.client() as client:
            client.list_jobs()  # creates the schema
            self._register()
            makers: list[Callable[[], None]] = [
                *(partial(self._produce, client, n) for n in range(2)),
                partial(self._interfere, client),
            ]
            takers: list[Callable[[], None]] = [*(partial(self._work, n) for n in range(4)), self._reap, self._sweep]
            made = [self._thread(maker) for maker in makers]
            taken = [self._thread(taker) for taker in takers]
            time.sleep(seconds)  # the race itself
            self._no_more.set()
            for thread in made:
                thread.join()
            left = self._wait_for_the_rest(client, patience)
            self._over.set()
            for thread in taken:
                thread.join()
        if self._failures:
            raise self._failures[0]
        return Verdict(
            overlaps=self._overlaps(),
            disorders=self._disorders(),
            completed_twice=[job_id for job_id, count in self._completions.items() if count > 1],
            left=left,
        )

    def _thread(self, target: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                target()
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                self._failures.append(error)
                self._no_more.set()
                self._over.set()

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def _register(self) -> None:
        store = self._app.store.sync()
        for name in ("reaper", *(f"w{number}" for number in range(4))):
            store.run(partial(register_worker, WorkerIdentity(id=name, version="1", queues=["default"], metadata={})))
        store.close()

    def _wait_for_the_rest(self, client: Client, patience: float) -> int:
        deadline = time.monotonic() + patience
        while not self._over.is_set():
            left = len(client.list_jobs(status=["pending", "running", "blocked"], limit=50).items)
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)
        return -1

    # --- those who make work, and those who interfere -------------------------------------------------------------

    def _produce(self, client: Client, number: int) -> None:
        dice = random.Random(self._seed * 100 + number)  # noqa: S311 - reproducible on purpose
        while not self._no_more.is_set():
            key = f"k{dice.randrange(self._keys)}"
            orderings = [dice.choice(self._orderings) for _ in range(dice.choice([1, 1, 3, 20]))]
            calls = [
                self._call().options(partition_key=key, ordering=each, delay=dice.choice([None, None, None, 0.05]))
                for each in orderings
            ]
            if self._is_postgres and dice.random() < 0.5:
                with psycopg.connect(self._app.store.url) as tx:
                    chains = client.enqueue_many(calls, tx=tx)
                    time.sleep(dice.random() * 0.01)
                    if dice.random() < 0.2:
                        tx.rollback()
                        continue
            else:
                chains = client.enqueue_many(calls)
            self._fifo.update(chain.id for chain, each in zip(chains, orderings, strict=True) if each == "fifo")
            self._committed.update(dict.fromkeys((chain.id for chain in chains), time.monotonic()))
            time.sleep(dice.random() * 0.06)

    def _interfere(self, client: Client) -> None:
        dice = random.Random(self._seed * 7)  # noqa: S311 - as above
        while not self._no_more.wait(0.02):
            page = client.list_jobs(status=["pending"], limit=30, newest_first=False).items
            if not page:
                continue
            job = dice.choice(page)
            try:
                if self._is_postgres and dice.random() < 0.4:
                    with psycopg.connect(self._app.store.url) as tx:
                        client.cancel(job.id, tx=tx)
                        time.sleep(0.005)
                        if dice.random() < 0.5:
                            tx.rollback()
                            continue
                        self._ended.setdefault(job.id, time.monotonic())
                else:
                    # Noted before, because a claim may be quicker than our note after.
                    self._ended.setdefault(job.id, time.monotonic())
                    (client.cancel if dice.random() < 0.5 else client.delete_chains)(job.chain_id)
                self.counts["ended by a person"] += 1
            except HoldfastError:
                self.counts["refused"] += 1

    # --- those who take it ----------------------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        dice = random.Random(self._seed * 1000 + number)  # noqa: S311 - as above
        name = f"w{number}"
        store = self._app.store.sync()
        while not self._over.is_set():
            try:
                self._turn(store, name, dice)
            except (SerializationConflict, DatabaseBusy):
                self.counts["conflicts"] += 1
        store.close()

    def _turn(self, store: SyncStore, name: str, dice: random.Random) -> None:
        lanes = due_lanes(store)
        # Some do, and one of them at least.
        will_lapse = dice.random() < 0.02 or (name == "w0" and not self.counts["zombies refused"])
        began = time.monotonic()
        if not lanes:
            time.sleep(0.002)
            return
        lease = SHORT if will_lapse else LONG
        limit, run = dice.choice([1, 5, 20]), dice.choice([0, 3, 20])
        claim = store.run(lambda: claim_jobs(name, lanes, limit, lease, run=run))
        since = time.monotonic()
        if not claim:
            time.sleep(0 if claim.aside else 0.001)
            return
        by_key: dict[str, list[ClaimedJob]] = defaultdict(list)
        for job in in_order(claim):
            by_key[key_of(job)].append(job)
        if will_lapse:
            self._come_back_as_a_zombie(store, name, by_key, began, since)
            return
        if dice.random() < 0.3:
            time.sleep(dice.random() * 0.003)
        good: list[ClaimedJob] = []
        bad: list[ClaimedJob] = []
        back: list[ClaimedJob] = []
        for jobs in by_key.values():
            failing = next((place for place in range(len(jobs)) if dice.random() < 0.05), len(jobs))
            good += jobs[:failing]
            bad += jobs[failing : failing + 1]
            back += jobs[failing + 1 :]
        self._note(by_key, began, since, time.monotonic(), without={job.id for job in back})
        lines = {key: number for number, key in enumerate(by_key)}
        completions = [replace(done(job), line=lines[key_of(job)], place=_index(by_key, job)) for job in good]
        self._persist(store, completions, partial(complete_jobs, name))
        delays = {job.id: dice.choice([0, 20]) for job in bad}
        failures = [
            Failure(job.id, job.lease_generation, JobError("x", "y"), delays[job.id], False, 1000) for job in bad
        ]
        self._persist(store, failures, partial(fail_jobs, name))
        self._persist(store, [lease_of(job) for job in back], release_jobs)
        self.counts["turns"] += 1

    def _come_back_as_a_zombie(
        self, store: SyncStore, name: str, by_key: dict[str, list[ClaimedJob]], began: float, since: float
    ) -> None:
        """Dead at once, as far as the key is concerned; what it reports later counts only if nobody has noticed."""
        self._note(by_key, began, since, since)
        self._over.wait(SHORT.total_seconds() * 3)
        completions = [done(job) for jobs in by_key.values() for job in jobs]
        settlement = self._persist(store, completions, partial(complete_jobs, name))
        self.counts["zombies refused"] += bool(settlement)

    def _note(
        self,
        by_key: dict[str, list[ClaimedJob]],
        began: float,
        since: float,
        until: float,
        without: set[str] | None = None,
    ) -> None:
        for key, jobs in by_key.items():
            ran = tuple((place_of(job), job.id) for job in jobs if job.id not in (without or ()))
            self._holds.append(Hold(key, began, since, until, ran))

    def _persist(
        self, store: SyncStore, items: list[Any], verb: Callable[[list[Any]], Operation[Settlement]]
    ) -> set[str]:
        """Until nothing is locked; returns what was lost."""
        lost: set[str] = set()
        began = time.monotonic()
        while items:
            try:
                settlement = store.run(partial(verb, items))
            except (SerializationConflict, DatabaseBusy):
                continue
            lost |= settlement.lost
            if isinstance(verb, partial) and verb.func is complete_jobs:
                for item in items:
                    if item.id not in settlement.locked | settlement.lost:
                        self._completions[item.id] += 1
                        self._ended.setdefault(item.id, began)
            items = [item for item in items if item.id in settlement.locked]
            if items:
                self.counts["locked"] += len(items)
                time.sleep(0.001)
        self.counts["lost"] += len(lost)
        return lost

    def _reap(self) -> None:
        store = self._app.store.sync()
        while not self._over.wait(0.05):
            reaped = store.run(lambda: reap_jobs("reaper", timedelta(hours=1)))
            self.counts["reaped"] += reaped.returned
        store.close()

    def _sweep(self) -> None:
        store = self._app.store.sync()
        while not self._over.wait(0.3):
            swept = store.run(lambda: find_stranded(None), read_only=True)
            if swept.stranded:
                self.counts["swept"] += len(swept.stranded)
                store.run(partial(free_keys, swept.stranded))
        store.close()

    # --- judgement ------------------------------------------------------------------------------------------------

    def _by_key(self) -> dict[str, list[Hold]]:
        by_key: dict[str, list[Hold]] = defaultdict(list)
        for hold in sorted(self._holds, key=lambda hold: hold.since):
            by_key[hold.key].append(hold)
        return by_key

    def _overlaps(self) -> list[tuple[Hold, Hold]]:
        found: list[tuple[Hold, Hold]] = []
        for holds in self._by_key().values():
            longest = holds[0]
            for hold in holds[1:]:
                if hold.since < self._end(longest):
                    found.append((longest, hold))
                longest = max(longest, hold, key=self._end)
        return found

    def _end(self, hold: Hold) -> float:
        """Of all that it ran a person may have made an end before: deleted is deleted, whoever holds it."""
        ended = [self._ended.get(job_id, hold.until) for _, job_id in hold.ran]
        return min(hold.until, max(ended, default=hold.until))

    def _disorders(self) -> list[tuple[str, int, int]]:
        """A fifo job ran although one in front, committed before the claim began, had not ended when it returned."""
        found: list[tuple[str, int, int]] = []
        for key, holds in self._by_key().items():
            places = {place: job_id for hold in holds for place, job_id in hold.ran}
            for hold in holds:
                mine = {place for place, _ in hold.ran}
                last = max((place for place, job_id in hold.ran if job_id in self._fifo), default=0)
                found += [
                    (key, place, last)
                    for place, job_id in places.items()
                    if place < last
                    and place not in mine
                    and self._committed.get(job_id, hold.since) < hold.began
                    and self._ended.get(job_id, hold.since) >= hold.since
                ]
        return found


def _index(by_key: dict[str, list[ClaimedJob]], job: ClaimedJob) -> int:
    return next(place for place, other in enumerate(by_key[key_of(job)]) if other.id == job.id)
