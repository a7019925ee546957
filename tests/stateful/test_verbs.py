"""Random sequences of verbs: SQLite, PostgreSQL and a model in Python must agree after every step.

A failure is shrunk by hypothesis and printed as calls of the rules; pasting these calls into a test replays it.
The same sequences are run every time. To look for more: `HOLDFAST_SEQUENCES=500 python3 dev.py test tests/stateful`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from msgspec import Raw

from holdfast import App, Client, Dedup, Job, JobHandle, Retry
from holdfast.errors import HoldfastError
from holdfast.model.call import Extras, JobDocument
from holdfast.model.clock import FakeClock
from holdfast.model.ids import new_id
from holdfast.model.job import JobError
from holdfast.model.payload import to_json
from holdfast.model.scan_position import ScanPosition
from holdfast.operations.claim_jobs import claim_jobs, claim_suspect, find_lanes
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.expire_jobs import expire_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.lease import Lease
from holdfast.operations.reap_jobs import CRASH_CAP, reap_jobs
from holdfast.operations.refuse_jobs import Refusal, refuse_jobs
from holdfast.operations.register_types import register_types
from holdfast.operations.release_jobs import Release, release_jobs
from holdfast.operations.renew_leases import renew_leases
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.operations.worker_life import WorkerIdentity, heartbeat, register_worker
from tests.stateful.model import Model, Order, Refused

LEASE = timedelta(seconds=150)
ATTEMPTS = 3
#: so long is a job refused before it is a dead letter
REFUSAL = timedelta(seconds=120)
#: one worker has died before the first step, the other one is alive at every step
DEAD, ALIVE = "w-dead", "w-alive"
DEAD_AFTER = timedelta(seconds=30)
LIVING = WorkerIdentity(id=ALIVE, version="1", queues=["default"])
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

types = st.sampled_from(["load", "send"])
priorities = st.sampled_from([-5, 0, 5])
delays = st.sampled_from([0, 0, 0, 10, 100])
keys = st.sampled_from(["a", "b"])
scopes = st.sampled_from(["pending", "unfinished", "forever"])
conflicts = st.sampled_from(["keep", "replace", "replace_keep_schedule", "reject"])
expiries = st.sampled_from([None, None, 5, 50])
workers = st.sampled_from([DEAD, ALIVE])
policies = st.sampled_from([None, "wait", "cancel", "run"])


class Side:
    """One database, with an app, a client and the verbs of a worker."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self.app = App(url, clock=clock, auto_migrate=True, notify=False)
        self.handles: dict[str, JobHandle[..., Any]] = {}
        for name in ("load", "send"):

            def handler(number: int) -> int:
                return number

            retry = Retry(max_attempts=ATTEMPTS, initial=1, factor=2, jitter=0)
            self.handles[name] = self.app.job(name=name, retry=retry)(handler)
        self.client: Client = self.app.client()
        self.store = self.app.store.sync()
        self.store.run(lambda: register_types(handle.job_type for handle in self.handles.values()))
        self.store.run(lambda: register_worker(LIVING))

    def call(self, order: Order) -> Any:
        call = self.handles[order.type_name].call(number=order.number)
        options: dict[str, Any] = {"id": order.id, "priority": order.priority, "delay": order.delay}
        if order.key is not None:
            options["dedup"] = Dedup(order.key, scope=order.scope, on_conflict=order.on_conflict)  # type: ignore[arg-type]  # one of the literals
        if order.expires is not None:
            options["expires"] = order.expires
        if order.blockers:
            options |= {"blockers": list(order.blockers), "on_blocker_failure": order.policy}
        return call.options(**options)

    def enqueue(self, orders: list[Order]) -> object:
        chains = self.client.enqueue_many([self.call(order) for order in orders])
        return [(chain.id, str(chain.outcome), chain.superseded) for chain in chains]

    def claim(self, worker: str, limit: int) -> object:
        position = ScanPosition()
        found = self.store.run(lambda: find_lanes(["default"]), read_only=True)
        position.look_back((lane for lane in found if lane.due_in_ms == 0 and not lane.is_suspect), 0, 0)
        claimed = self.store.run(lambda: claim_jobs(worker, position.lanes, limit, LEASE)) if position.lanes else []
        return [(job.id, job.lease_generation) for job in claimed]

    def claim_suspect(self, worker: str) -> object:
        claimed = self.store.run(lambda: claim_suspect(worker, ["default"], LEASE))
        return [(job.id, job.lease_generation) for job in claimed]

    def reap(self) -> object:
        self.store.run(lambda: heartbeat(LIVING, DEAD_AFTER, is_draining=False))
        counts = self.store.run(lambda: reap_jobs("w-reaper", DEAD_AFTER))
        return counts.returned, counts.dead_letters, counts.cancelled

    def settle(self, operation: Callable[[], Any], job_id: str) -> bool:
        settlement = self.store.run(operation)
        assert not settlement.locked
        assert not settlement.unsettled
        return job_id not in settlement.lost

    def observed(self) -> dict[str, tuple[object, ...]]:
        jobs = list(self.client.iter_jobs(newest_first=False))
        return {job.id: _observed(job) for job in jobs}

    def close(self) -> None:
        self.client.close()
        self.store.close()
        self.app.close()


def _observed(job: Job) -> tuple[object, ...]:
    return (
        *(job.type_name, job.chain_id, job.chain_type_name, job.chain_index, job.input["number"], job.priority),
        *(job.scheduled_at, job.ready_at, str(job.status), job.attempt, job.lease_generation, job.revision),
        *(job.output, job.waiting_for, job.crash_count, job.expires_at),
    )


class Verbs(RuleBasedStateMachine):
    """All verbs, in any order."""

    urls: ClassVar[list[str]] = []
    reset: ClassVar[Callable[[], None]]

    chains = Bundle("chains")
    leases = Bundle("leases")

    @initialize()
    def start(self) -> None:
        type(self).reset()
        self.clock = FakeClock(START)
        self.model = Model(START)
        self.stack = ExitStack()
        self.sides = [Side(url, self.clock) for url in self.urls]
        for side in self.sides:
            self.stack.callback(side.close)
        self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    # --- the same on all three ----------------------------------------------------------------------------------------

    def everywhere(self, on_model: Callable[[Model], object], on_side: Callable[[Side], object]) -> object:
        """Results and refusals must be the same."""
        expected = self._outcome(lambda: on_model(self.model))
        for side in self.sides:
            found = self._outcome(partial(on_side, side))
            assert found == expected, f"{side.app.store.dialect}: {found!r} instead of {expected!r}"
        return expected

    @staticmethod
    def _outcome(action: Callable[[], object]) -> object:
        try:
            return action()
        except Refused as refused:
            return f"refused: {refused}"
        except HoldfastError as error:
            return f"refused: {type(error).__name__}"

    @invariant()
    def all_agree(self) -> None:
        expected = {job.id: job.observed() for job in self.model.jobs.values()}
        for side in self.sides:
            found = side.observed()
            assert found == expected, side.app.store.dialect
            assert list(found) == sorted(expected, key=lambda job_id: self.model.jobs[job_id].seq)

    def _order(self, **fields: Any) -> Order:
        self.number += 1
        return Order(id=new_id(), number=self.number, **fields)

    def _living(self, chains: list[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain for chain in chains if chain in self.model.jobs))

    # --- verbs --------------------------------------------------------------------------------------------------------

    @rule(target=chains, type_name=types, priority=priorities, delay=delays, expires=expiries)
    def enqueue_plain(self, type_name: str, priority: int, delay: int, expires: int | None) -> str:
        order = self._order(type_name=type_name, priority=priority, delay=delay, expires=expires)
        self.everywhere(lambda model: model.enqueue([order]), lambda side: side.enqueue([order]))
        return order.id

    @rule(target=chains, type_name=types, key=keys, scope=scopes, on_conflict=conflicts, delay=delays)
    def enqueue_keyed(self, type_name: str, key: str, scope: str, on_conflict: str, delay: int) -> Any:
        order = self._order(type_name=type_name, key=key, scope=scope, on_conflict=on_conflict, delay=delay)
        self.everywhere(lambda model: model.enqueue([order]), lambda side: side.enqueue([order]))
        return order.id if order.id in self.model.jobs else multiple()

    @rule(
        target=chains,
        type_name=types,
        blockers=st.lists(chains, min_size=1, max_size=3),
        policy=policies,
        key=st.none() | keys,
        delay=delays,
    )
    def enqueue_blocked(
        self, type_name: str, blockers: list[str], policy: str | None, key: str | None, delay: int
    ) -> Any:
        living = self._living(blockers)
        order = self._order(
            type_name=type_name, blockers=living, policy=policy, key=key, on_conflict="replace", delay=delay
        )
        self.everywhere(lambda model: model.enqueue([order]), lambda side: side.enqueue([order]))
        return order.id if order.id in self.model.jobs else multiple()

    @rule(target=chains, priority=priorities, scope=scopes, on_conflict=conflicts)
    def enqueue_batch(self, priority: int, scope: str, on_conflict: str) -> Any:
        orders = [
            self._order(type_name="send", key="b", scope=scope, on_conflict=on_conflict),
            self._order(type_name="load", priority=priority),
            self._order(type_name="send", key="a", scope=scope, on_conflict=on_conflict),
        ]
        self.everywhere(lambda model: model.enqueue(orders), lambda side: side.enqueue(orders))
        return multiple(*(order.id for order in orders if order.id in self.model.jobs))

    @rule(target=leases, worker=workers, limit=st.sampled_from([1, 1, 3]))
    def claim(self, worker: str, limit: int) -> Any:
        claimed = self.everywhere(
            lambda model: model.claim(worker, limit, LEASE), lambda side: side.claim(worker, limit)
        )
        assert isinstance(claimed, list)
        return multiple(*claimed)

    @rule(target=leases, worker=workers)
    def claim_suspect(self, worker: str) -> Any:
        claimed = self.everywhere(
            lambda model: model.claim_suspect(worker, LEASE), lambda side: side.claim_suspect(worker)
        )
        assert isinstance(claimed, list)
        return multiple(*claimed)

    @rule()
    def reap(self) -> None:
        self.everywhere(partial(Model.reap, dead=DEAD, attempts=ATTEMPTS, crash_cap=CRASH_CAP), Side.reap)

    @rule()
    def expire(self) -> None:
        self.everywhere(lambda model: model.expire(), lambda side: side.store.run(expire_jobs).expired)

    @rule(lease=leases)
    def complete(self, lease: tuple[str, int]) -> None:
        job_id, generation = lease
        job = self.model.jobs.get(job_id)
        if job is not None and job.status == "completed":
            return  # again under the same generation is a success, which the cases of the verb show
        self.number += 1
        number = self.number
        self.everywhere(
            lambda model: model.complete(job_id, generation, number),
            lambda side: side.settle(lambda: complete_jobs("w", [Completion(job_id, generation, str(number))]), job_id),
        )

    @rule(lease=leases, delay=delays, is_final=st.booleans())
    def fail(self, lease: tuple[str, int], delay: int, is_final: bool) -> None:
        job_id, generation = lease
        job = self.model.jobs.get(job_id)
        if job is not None and job.status != "running" and job.generation == generation:
            return  # as above
        error = JobError("ValueError", "no")
        failure = Failure(job_id, generation, error, delay * 1000, is_final=is_final, max_attempts=ATTEMPTS)
        self.everywhere(
            lambda model: model.fail(job_id, generation, delay, is_final=is_final, attempts=ATTEMPTS),
            lambda side: side.settle(lambda: fail_jobs("w", [failure]), job_id),
        )

    @rule(lease=leases, is_started=st.booleans())
    def release(self, lease: tuple[str, int], is_started: bool) -> None:
        job_id, generation = lease
        job = self.model.jobs.get(job_id)
        if job is not None and job.status != "running" and job.generation == generation:
            return  # as above
        self.everywhere(
            lambda model: model.release(job_id, generation, is_started=is_started),
            lambda side: side.settle(lambda: release_jobs([Release(job_id, generation, is_started)]), job_id),
        )

    @rule(lease=leases)
    def refuse(self, lease: tuple[str, int]) -> None:
        job_id, generation = lease
        job = self.model.jobs.get(job_id)
        if job is not None and job.status != "running" and job.generation == generation:
            return  # as above
        refusal = Refusal(job_id, generation, JobError("UnknownJobType", "load"))
        self.everywhere(
            lambda model: model.refuse(job_id, generation, REFUSAL),
            lambda side: side.settle(lambda: refuse_jobs([refusal], REFUSAL), job_id),
        )

    @rule(lease=leases, delay=delays)
    def snooze(self, lease: tuple[str, int], delay: int) -> None:
        job_id, generation = lease
        job = self.model.jobs.get(job_id)
        if job is not None and job.status != "running" and job.generation == generation:
            return  # as above
        self.everywhere(
            lambda model: model.snooze(job_id, generation, delay),
            lambda side: side.settle(lambda: snooze_jobs([Postponement(job_id, generation, delay * 1000)]), job_id),
        )

    @rule(lease=leases)
    def renew(self, lease: tuple[str, int]) -> None:
        job_id, generation = lease

        def on_side(side: Side) -> tuple[bool, bool]:
            news = side.store.run(lambda: renew_leases([Lease(job_id, generation)], LEASE))
            return job_id not in news.lost, job_id in news.cancel_requested

        self.everywhere(lambda model: model.renew(job_id, generation, LEASE), on_side)

    @rule(lease=leases, type_name=types, delay=delays, blockers=st.lists(chains, max_size=2), policy=policies)
    def go_on(
        self, lease: tuple[str, int], type_name: str, delay: int, blockers: list[str], policy: str | None
    ) -> None:
        job_id, generation = lease
        job = self.model.jobs.get(job_id)
        if job is not None and job.status == "completed":
            return  # as above
        living = self._living(blockers)
        order = self._order(type_name=type_name, delay=delay, blockers=living, policy=policy)
        extras = Extras(blockers=list(living), on_blocker_failure=policy) if living else None
        payload = Raw(to_json({"number": order.number}))
        chain_id = job.chain_id if job else None

        def continuation() -> Continuation:
            following = JobDocument(order.id, type_name, payload, "default", delay_ms=delay * 1000, more=extras)
            return Continuation(job_id, generation, following, chain_id=chain_id)

        self.everywhere(
            lambda model: model.go_on(job_id, generation, order),
            lambda side: side.settle(lambda: continue_jobs("w", [continuation()]), job_id),
        )

    @rule(chain=chains)
    def complete_outside(self, chain: str) -> None:
        tail = self.model.tail(chain)
        job_id = tail.id if tail else chain
        self.number += 1
        number = self.number
        self.everywhere(
            lambda model: model.complete_outside(job_id, number),
            lambda side: (side.client.complete_job(job_id, number), None)[1],
        )

    @rule(chain=chains)
    def cancel(self, chain: str) -> None:
        self.everywhere(lambda model: model.cancel(chain), lambda side: str(side.client.cancel(chain)[0].outcome))

    @rule(chain=chains)
    def retry(self, chain: str) -> None:
        self.everywhere(lambda model: model.retry(chain), lambda side: str(side.client.retry(chain)[0].outcome))

    @rule(chain=chains, delay=delays)
    def reschedule(self, chain: str, delay: int) -> None:
        self.everywhere(
            lambda model: model.reschedule(chain, delay),
            lambda side: str(side.client.reschedule(chain, delay=delay)[0].outcome),
        )

    @rule(type_name=types, key=keys)
    def remove(self, type_name: str, key: str) -> None:
        self.everywhere(
            lambda model: model.remove(type_name, key), lambda side: str(side.client.remove(type_name, key).outcome)
        )

    @rule(chain=chains, cascade=st.booleans())
    def delete(self, chain: str, cascade: bool) -> None:
        self.everywhere(
            lambda model: model.delete(chain, cascade=cascade),
            lambda side: [str(each.outcome) for each in side.client.delete_chains(chain, cascade=cascade)],
        )

    @rule(seconds=st.sampled_from([1, 10, 100]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.now += timedelta(seconds=seconds)


@pytest.fixture
def machine(two_databases: tuple[list[str], Callable[[], None]]) -> type[Verbs]:
    urls, reset = two_databases

    class OnBoth(Verbs):
        pass

    OnBoth.urls = urls
    OnBoth.reset = staticmethod(reset)
    return OnBoth


@pytest.mark.timeout(60 * 60 if os.environ.get("HOLDFAST_SEQUENCES") else 600)
def test_all_verbs_agree(machine: type[Verbs]) -> None:
    """Forty steps each, from an empty database."""
    more = os.environ.get("HOLDFAST_SEQUENCES")
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=int(more or 15),
            derandomize=not more,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
