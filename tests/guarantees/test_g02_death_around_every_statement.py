"""G2: No durably committed job is lost.

SIGKILL of a worker at every moment of every statement that its source can send.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.stores import sqlite_writer
from tests.crew.accounts import Accounts
from tests.crew.database import Database
from tests.crew.death import Death, When
from tests.crew.engine_statements import engine_statements
from tests.crew.life import GHOSTS, Fate, live, make_life
from tests.crew.process import BRISK, ChildProcess, spawn
from tests.crew.report import say
from tests.crew.waiting import wait_for

#: named in the source, and not sent by a worker: a hook reads a job without a lock, before it can be in the archive;
#: only running jobs are listed; a turn is taken where others share a job without a gap, and writes nothing by itself;
#: the jobs of these schedules have neither ids nor keys of their own; what is pruned has ended, and nobody holds it
NOT_SENT = {
    *("lock_job", "count_pending", "take_turn", "get_archived_job", "tell_holders"),
    *("chain_statuses", "expire_holders", "find_given", "judge_keys", "point_keys", "replace_jobs", "return_keys"),
}
#: sent by the leader's services, and by everybody for other reasons
EVERYBODYS = {
    *("add_blockers", "hold_chains", "sees_commits", "list_schedules", "find_keepers", "write_schedules"),
    "retire_schedules",
}
#: SQLite has nobody to notify, and one claim for all
POSTGRES_ONLY = {"notify_work", "claim_plain"}
#: sent by one who finds what others left behind
MESSY = {"free_keys", "free_limits", "reap_jobs", "find_waits", "lock_jobs", "break_cycle", "settle_chains"}
#: sent by one who is to end when nothing is left to do
IDLE = {"list_jobs"}
#: sent by one who shares partition keys with others
SHARING = {"find_members"}
#: sent by one whose queue has a limit
LIMITED = {"collect_shares", "lock_queue", "share_queue"}
#: sent by one in whose queue tenants take turns
FAIR = {"find_tenants"}
#: sent by one who is told to stop
LEAVING = {"release_jobs", "release_orphans", "resign_leadership", "retire_worker"}
#: on the transaction of a handler, or after it by a thread that only hints: no verb of a store is over with them
NOT_A_VERB = {"hold_lease", "process_once", "spoil_transaction", "notify_work", "save_children", "await_children"}

QUICK = replace(BRISK, concurrency=4, dead_after=timedelta(seconds=3), stop_deadline=timedelta(seconds=0.2))
#: so many victims at once; of those that must lead to send theirs, fewer, because only one leads
GROUP, LED_GROUP = 10, 4
#: suspects are run alone, so a few of them are through sooner
RESCUERS = 4
MOMENTS = [
    pytest.param(database, when, id=f"{database}-{when.name.lower()}")
    for database in ("sqlite", "pg18")
    for when in When
    if database != "sqlite" or when is not When.SENT  # there is nobody to send it to
]


def doomed_groups(database: Database, when: When) -> list[list[str]]:
    left_out = NOT_SENT | (set() if database.is_postgres else POSTGRES_ONLY)
    doomed = engine_statements() - left_out - (NOT_A_VERB if when is When.COMMITTED else set())
    led = doomed & engine_statements("worker/maintenance") - EVERYBODYS
    return [
        sorted(part)[begin : begin + size]
        for part, size in ((doomed - led, GROUP), (led, LED_GROUP))
        for begin in range(0, len(part), size)
    ]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("database", "when"), MOMENTS, indirect=["database"])
def test_death_around_every_statement(
    database: Database, when: When, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A victim per statement, each with a queue full of reasons to send it; rescuers finish what they leave."""
    # Ten processes write to one file; what gives them reasons must not give up before they do.
    monkeypatch.setattr(sqlite_writer, "BUSY_SECONDS", 60.0)
    groups = doomed_groups(database, when)
    gate, log = tmp_path / "gate", tmp_path / "workers.log"
    life = make_life(database.url, tmp_path / "ledger.jsonl", knows_strangers=True)
    fate = Fate(life, database, gate)

    def start(queues: Sequence[str], death: Death | None = None) -> ChildProcess:
        config = replace(QUICK, queues=queues)
        if death is not None and death.statement in SHARING:
            config = replace(config, affinity="ring")
        if death is not None and death.statement in IDLE:
            # The queue of the job types, which nobody uses: one that is not known at all would be looked for first.
            config = replace(QUICK, queues=["default"], until_idle=True)
        return spawn(live, database.url, life.ledger.path, config, death, log=log)

    def doom(name: str) -> ChildProcess:
        victim = start([name], Death(name, when))
        crew.append(victim)
        return victim

    with living(log) as crew:
        for group in groups:
            for name in {*group} - IDLE:
                fate.fill(name, is_limited=name in LIMITED, is_fair=name in FAIR)
            victims = {name: doom(name) for name in group}
            began = time.monotonic()
            watch_die(database, fate, victims, doom)
            say(f"{time.monotonic() - began:.1f} s for {group}")
            assert {name: victim.join() for name, victim in victims.items()} == dict.fromkeys(group, -signal.SIGKILL)
        fate.silence_schedules()
        gate.touch()
        rescuers = [start([GHOSTS, *(name for group in groups for name in group)]) for _ in range(RESCUERS)]
        crew.extend(rescuers)
        try:
            wait_for(lambda: database.unfinished() == 0, "every job finished", patience=240)
        except AssertionError:
            say([row for row in database.jobs() if row.status in {"pending", "running", "blocked"}][:10])
        assert fate.account() == Accounts(lost=0, doubled=0, stuck=0)
        assert [rescuer.stop() for rescuer in rescuers] == [0] * RESCUERS
    fate.close()
    life.app.close()


def watch_die(
    database: Database, fate: Fate, victims: dict[str, ChildProcess], doom: Callable[[str], ChildProcess]
) -> None:
    """Give them time, and those who wait for a special occasion the occasion."""
    told: set[str] = set()
    looks = itertools.count(1)

    def are_dead() -> bool:
        alive = {name for name, victim in victims.items() if victim.is_alive}
        if next(looks) % 8 == 0:  # some occasions are missed, as when a lease is found lost before it is used
            for name in alive - IDLE:
                fate.fill(name)
        for name in sorted(alive & MESSY)[:1]:
            fate.leave_a_mess(name)
        running = database.query(f"SELECT DISTINCT queue FROM {database.job} WHERE status = 'running'")
        holding = {queue for (queue,) in running}
        told.update(tell_to_stop(database, victims, (alive & holding & LEAVING) - told))
        for name in left_in_peace(victims, told - alive):
            victims[name] = doom(name)
            told.remove(name)
            alive.add(name)
        for name in alive & {"check_leases"}:
            fate.disturb(name)
        if not alive.isdisjoint({"find_keepers", "write_schedules"}):
            fate.forget_schedule()
        if "retire_schedules" in alive:
            fate.bring_back_schedule()
        return not alive

    try:
        wait_for(are_dead, "", patience=120, pause=0.5)
    except AssertionError:
        alive = sorted(name for name, victim in victims.items() if victim.is_alive)
        raise AssertionError(f"no worker sent {alive}; tests/crew/life.py must give it a reason") from None


def left_in_peace(victims: dict[str, ChildProcess], gone: set[str]) -> list[str]:
    """Ten processes and a busy disk: one may have to leave before its last statement has its turn."""
    return [name for name in sorted(gone) if victims[name].join() != -signal.SIGKILL]


def tell_to_stop(database: Database, victims: dict[str, ChildProcess], names: set[str]) -> set[str]:
    """All but one that is to resign, and does not lead: whoever has not stood for it has nothing to resign."""
    found = database.query(f"SELECT worker_id FROM {database.table('leader')}")
    leaders = "".join(worker_id or "" for (worker_id,) in found)
    told = {name for name in names if name != "resign_leadership" or f"-{victims[name].pid}-" in leaders}
    for name in told:
        victims[name].send(signal.SIGTERM)
    return told


@contextmanager
def living(log: Path) -> Iterator[list[ChildProcess]]:
    """Nobody survives the block."""
    processes: list[ChildProcess] = []
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        say(log.read_text()[-20_000:] if log.exists() else "")
