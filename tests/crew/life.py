"""A life in which a worker does everything that a worker can do: job types that lead it there, and occasions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast import App, Context, JobHandle, Keep, Retry, Snooze, WorkerConfig
from holdfast.errors import AlreadyFinished, LeaseLost, ScheduleNotFound
from holdfast.model.ids import new_id
from holdfast.model.scan_position import Lane
from holdfast.model.schedule import checked_definition, checked_rule
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.schedule_rows import write_schedules
from holdfast.worker import fetcher
from holdfast.worker.maintenance import service
from tests.crew.accounts import Accounts
from tests.crew.database import Database
from tests.crew.death import Death
from tests.crew.ledger import Ledger

GHOSTS = "ghosts"
_SERVICE_INTERVAL = timedelta(seconds=0.2)
#: of dead letters that are right: the one that a cycle costs, and who was there when three workers died
_EXCUSES = ("BlockerCycle", "killed its worker")


@dataclass(frozen=True)
class Life:
    """An app, its ledger and its job types."""

    app: App
    ledger: Ledger
    note: JobHandle[..., Any]
    hold: JobHandle[..., Any]
    flop: JobHandle[..., Any]
    hopeless: JobHandle[..., Any]
    nap: JobHandle[..., Any]
    relay: JobHandle[..., Any]
    careful: JobHandle[..., Any]
    order: JobHandle[..., Any]
    signs_itself: JobHandle[..., Any]
    gives_itself_away: JobHandle[..., Any]
    stranger: JobHandle[..., Any]
    patience: JobHandle[..., Any]
    chaff: JobHandle[..., Any]


def make_life(url: str, ledger_path: Path, *, knows_strangers: bool) -> Life:  # noqa: C901, PLR0915 - a list
    """The same app everywhere, but that only some know what to do with a stranger."""
    app = App(url, name="life", auto_migrate=True)
    ledger = Ledger(ledger_path)
    write = ledger.write
    database = Database(url)
    soon = Retry(max_attempts=50, initial=0.02, factor=1.0)

    @app.job(retry=soon)
    async def note(ctx: Context, number: int) -> int:
        write(ctx, number, "started")
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def hold(ctx: Context, number: int, gate: str) -> int:
        """Until the file `gate` exists; long enough for its lease to be renewed."""
        write(ctx, number, "started")
        while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - the signal comes from another process
            await asyncio.sleep(0.02)
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def flop(ctx: Context, number: int) -> int:
        write(ctx, number, "started")
        if ctx.lease_generation == 1:
            raise RuntimeError("the first delivery fails")
        write(ctx, number, "finished")
        return number

    @app.job(retry=Retry(max_attempts=1))
    async def hopeless(number: int) -> None:
        raise RuntimeError(f"{number} is hopeless")

    @app.job(retry=soon)
    async def nap(ctx: Context, number: int) -> int:
        write(ctx, number, "started")
        if ctx.lease_generation == 1:
            raise Snooze(0.05)
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def relay(ctx: Context, number: int, queue: str, behind: str | None = None) -> int:
        """Hands its number on, behind a chain if one is named."""
        write(ctx, number, "started")
        if behind is not None and ctx.lease_generation == 1:
            behind = new_id()  # nobody has that id, so this is refused
        call = note.call(number=number).options(queue=queue)
        return await ctx.continue_with(call if behind is None else call.options(queue=queue, blockers=[behind]))

    @app.job(retry=soon)
    async def careful(ctx: Context, number: int) -> int:
        """Saves a step, notes its progress, writes a log line; the first delivery fails, so steps are read."""
        write(ctx, number, "started")
        await ctx.step("first", os.getpid)
        await ctx.progress({"number": number})
        ctx.log("half way", number=number)
        if ctx.lease_generation == 1:
            raise RuntimeError("the first delivery fails")
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def order(ctx: Context, number: int) -> int:
        write(ctx, number, "started")
        async with ctx.transaction() as tx:
            await ctx.once(f"order {number}", tx=tx)
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def signs_itself(ctx: Context, number: int) -> None:
        write(ctx, number, "started")
        async with ctx.transaction() as tx:
            await ctx.complete(tx=tx)
        write(ctx, number, "finished")

    @app.job(retry=soon)
    async def gives_itself_away(ctx: Context, number: int) -> None:
        """The first delivery loses its job and completes it all the same, which must not be."""
        write(ctx, number, "started")
        if ctx.lease_generation == 1:
            # In a thread: on SQLite it waits for a transaction of another handler on this loop.
            await asyncio.to_thread(
                database.query,
                f"UPDATE {database.job} SET status = 'pending', leased_by = NULL, leased_until = NULL "
                f"WHERE id = '{ctx.job.id}' AND status = 'running'",
            )
            with contextlib.suppress(LeaseLost):
                async with ctx.transaction() as tx:
                    await ctx.complete(tx=tx)
            return
        write(ctx, number, "finished")

    @app.job(retry=soon)
    async def poke(ctx: Context, number: int, chain_id: str) -> int:
        """Says something to a chain; said twice, the second may be too late."""
        with contextlib.suppress(AlreadyFinished):
            await ctx.client.signal(chain_id, "poke", number)
        return number

    @app.job(retry=soon)
    async def doze(ctx: Context, number: int) -> int:
        """Long enough for others to come and wait for it."""
        await ctx.sleep("doze", 0.3)
        return number

    @app.job(retry=soon)
    async def patience(ctx: Context, number: int, queue: str) -> int:
        """Sleeps, has children, hears from one of them and waits for all."""
        write(ctx, number, "started")
        await ctx.sleep("nap", 0.02)
        poking = poke.call(number=-1, chain_id=ctx.job.chain_id)
        poker = await ctx.enqueue("poker", poking, queue=queue)
        await ctx.wait_signal("poke")
        dozer = await ctx.enqueue("dozer", doze.call(number=-1), queue=queue)
        await ctx.gather(poker, dozer)
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon, keep=Keep(completed=0, archive=True))
    async def chaff(number: int) -> int:
        """Pruned as soon as it has ended."""
        return number

    async def welcome(ctx: Context, number: int) -> int:
        write(ctx, number, "started")
        write(ctx, number, "finished")
        return number

    stranger = (
        app.job(name="stranger", retry=soon)(welcome)
        if knows_strangers
        else App(url, name="elsewhere").job(name="stranger", retry=soon)(welcome)
    )

    # One that always fires, one that looks what became of its last job, and one that is forgotten now and then.
    @app.schedule("* * * * * *", name="restless", arguments={"number": -1})
    @app.schedule("* * * * * *", name="patient", arguments={"number": -1}, overlap="skip")
    @app.schedule("@yearly", name="forgotten", arguments={"number": -1})
    @app.job(queue=GHOSTS, retry=soon)
    async def tick(number: int) -> int:
        return number

    @app.on_dead
    async def bury(_: object) -> None: ...

    return Life(
        app,
        ledger,
        note,
        hold,
        flop,
        hopeless,
        nap,
        relay,
        careful,
        order,
        signs_itself,
        gives_itself_away,
        stranger,
        patience,
        chaff,
    )


class _Hurried:
    """A service that does not wait for minutes."""

    def __init__(self, hurried: Any) -> None:
        self._hurried = hurried

    @property
    def interval(self) -> timedelta:
        usual: timedelta = self._hurried.interval
        # A look at schedules is one for every worker, where the others are mostly for the leader.
        return min(usual, _SERVICE_INTERVAL * (5 if self._hurried.name == "schedule keeper" else 1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hurried, name)


def live(url: str, ledger: Path, config: WorkerConfig, death: Death | None) -> None:
    """A worker process. Whoever is to die does not know strangers, so that he refuses them."""
    fetcher._SUSPECT_PATIENCE = 0.5
    loops: Any = service.ServiceLoop
    original = loops.__init__
    loops.__init__ = lambda self, each: original(self, _Hurried(each))
    life = make_life(url, ledger, knows_strangers=death is None)
    if death is not None:
        death.arm()
    life.app.run_worker(config)


class Fate:
    """Gives workers reasons to send every statement they know."""

    def __init__(self, life: Life, database: Database, gate: Path) -> None:
        self._life = life
        self._database = database
        self._gate = gate
        self._numbers = iter(range(1_000_000))
        self._client = life.app.client()
        self._expected: set[int] = set()
        self._holds: dict[str, str] = {}
        self._over = self._client.enqueue(life.note.call(number=-1), queue="over")
        self._client.complete_job(self._over.id, 0)
        self._client.schedules.sync()
        rows = life.app.store.sync()
        gone = checked_definition("gone from the code", checked_rule("@yearly"), life.note.call(number=-1))
        rows.run(lambda: write_schedules("life", "code", [(gone, None)]))
        rows.close()

    def close(self) -> None:
        self._client.close()

    def _number(self) -> int:
        number = next(self._numbers)
        self._expected.add(number)
        return number

    def fill(self, queue: str, *, is_limited: bool = False, is_fair: bool = False) -> None:
        """A queue with one job of every kind."""
        life, client = self._life, self._client
        if is_limited:
            client.queues.limit(queue, concurrency=8)
        if is_fair:
            client.queues.limit(queue, fair_by="tenant")
            client.enqueue_many([life.note.call(number=self._number()) for _ in range(3)], queue=queue, tenant="acme")
        self._keep_one_held(queue)
        suspect = client.enqueue(life.note.call(number=self._number()), queue=queue)
        self._database.query(f"UPDATE {self._database.job} SET crash_count = 1 WHERE id = '{suspect.id}'")
        kinds = (life.note, life.flop, life.nap, life.careful, life.order, life.gives_itself_away)
        calls = [kind.call(number=self._number()).options(queue=queue) for kind in (*kinds, life.stranger)]
        calls.append(life.relay.call(number=self._number(), queue=queue).options(queue=queue))
        calls.append(life.patience.call(number=self._number(), queue=queue).options(queue=queue))
        behind = life.relay.call(number=self._number(), queue=queue, behind=suspect.id)
        calls.append(behind.options(queue=queue))
        client.enqueue_many([*calls, life.hopeless.call(number=0).options(queue=queue)])
        signed = client.enqueue(life.signs_itself.call(number=self._number()), queue=queue)
        # Whoever completes the one wakes the other, and tells its queue.
        client.enqueue(life.note.call(number=self._number()), queue=queue, blockers=[signed])
        client.enqueue(life.note.call(number=0), queue=queue, delay=3600, expires=0.1)
        client.enqueue(life.chaff.call(number=0), queue=queue)
        client.enqueue_many([life.note.call(number=self._number()) for _ in range(3)], queue=queue, partition_key="k")

    def _keep_one_held(self, queue: str) -> None:
        """One, however often the queue is filled: each takes a slot for good, and a worker without any does nothing."""
        held = self._holds.get(queue)
        if held is None or self._database.row(held).status not in {"pending", "running"}:
            call = self._life.hold.call(number=self._number(), gate=str(self._gate))
            self._holds[queue] = self._client.enqueue(call, queue=queue).id

    def disturb(self, queue: str) -> None:
        """Whoever serves the queue is told that a job which it runs is not wanted any more."""
        if self._database.row(self._holds[queue]).status == "running":
            self._client.cancel(self._holds[queue])

    def forget_schedule(self) -> None:
        """Whoever looks next has to write it anew."""
        with contextlib.suppress(ScheduleNotFound):
            self._client.schedules.remove("forgotten")

    def bring_back_schedule(self) -> None:
        """One that no code has, from long ago."""
        self._database.query(
            f"UPDATE {self._database.table('schedule')} SET retired_at = NULL, "
            "changed_at = '2000-01-01T00:00:00.000000Z' WHERE name = 'gone from the code'"
        )

    def silence_schedules(self) -> None:
        """So that there is an end to it."""
        for name in ("restless", "patient"):
            self._client.schedules.pause(name)

    def account(self) -> Accounts:
        """When all is over: what was lost, doubled or stuck."""
        ended: dict[str, set[int]] = {"completed": set(), "excused": set()}
        for text, status, error in self._database.query(
            f"SELECT CAST(input AS text), status, CAST(last_attempt_error AS text) FROM {self._database.job}"
        ):
            if status == "completed":
                ended["completed"].add(json.loads(text)["number"])
            elif status == "cancelled" or any(reason in (error or "") for reason in _EXCUSES):
                ended["excused"].add(json.loads(text)["number"])
        ledger = self._life.ledger
        done = ended["completed"] & ledger.numbers("started")
        return Accounts(
            lost=len(self._expected - done - ended["excused"]),
            doubled=len({*ledger.started_twice(), *ledger.finished_twice()}),
            stuck=self._database.unfinished(),
        )

    def leave_a_mess(self, queue: str) -> None:
        """What the leader, or whoever reaps, cleans up; all of it ends in the queue."""
        life, client, database = self._life, self._client, self._database
        blocker = database.table("job_blocker")
        first, second, untold = (
            client.enqueue(
                life.note.call(number=self._number()),
                queue=queue,
                blockers=[self._holds[queue]],
                on_blocker_failure="run",
            ).id
            for _ in range(3)
        )
        if self._is_waiting([first, second, untold]):
            for waiting, other in ((first, second), (second, first), (untold, self._over.id)):
                database.query(f"UPDATE {blocker} SET blocked_by_chain_id = '{other}' WHERE job_id = '{waiting}'")
        stranded = client.enqueue(
            life.note.call(number=self._number()), queue=queue, partition_key="stranded", delay=0.2
        )
        database.query(f"UPDATE {database.job} SET held = true WHERE id = '{stranded.id}' AND status = 'pending'")
        # As if there had been a limit that was taken away.
        kept = client.enqueue(life.note.call(number=self._number()), queue=queue, concurrency_key="kept", delay=0.2)
        database.query(
            f"UPDATE {database.job} SET held = true, limited = true WHERE id = '{kept.id}' AND status = 'pending'"
        )
        client.enqueue(life.note.call(number=self._number()), queue=GHOSTS)
        store = life.app.store.sync()
        lanes = store.run(lambda: find_lanes([GHOSTS]), read_only=True)
        starts = [Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1) for lane in lanes]
        store.run(lambda: claim_jobs("ghost", starts, 10, timedelta(hours=1)))
        store.close()

    def _is_waiting(self, ids: Sequence[str]) -> bool:
        return all(self._database.row(job_id).status == "blocked" for job_id in ids)
