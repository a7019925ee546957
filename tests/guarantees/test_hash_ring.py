"""On a hash ring a worker that stands still keeps nobody's jobs: what has been due for 10 s is anybody's."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime, timedelta

from holdfast.model.ring import ANYBODYS_AFTER, Ring, bucket_of
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew, freeze_between_writes
from tests.crew.waiting import wait_for

#: the one that is frozen stays on the ring, so that nothing but the time gives its jobs to others
CONFIG = replace(STEADY, affinity="ring", dead_after=timedelta(minutes=5), lease=timedelta(minutes=5))
#: what a busy machine may add
_GRACE_SECONDS = 8.0


def members(database: Database) -> dict[int, str]:
    """The workers that are on the ring, by the ids of their processes."""
    rows = database.query(f"SELECT id, CAST(metadata AS text) FROM {database.table('worker')} WHERE status = 'alive'")
    return {json.loads(metadata)["pid"]: worker_id for worker_id, metadata in rows}


def waits(database: Database) -> dict[str, float]:
    """By partition key, the seconds from when a job was due until it was claimed."""
    rows = database.query(f"SELECT partition_key, ready_at, last_attempt_at FROM {database.job} WHERE attempt > 0")
    return {
        key: (datetime.fromisoformat(str(claimed)) - datetime.fromisoformat(str(due))).total_seconds()
        for key, due, claimed in rows
    }


def test_a_frozen_owners_jobs_are_taken_by_others(crew: Crew, database: Database) -> None:
    """SIGSTOP of one of two: fresh jobs of its keys wait for 10 s, then the other runs them; its own do not wait."""
    frozen, other = crew.start(CONFIG), crew.start(CONFIG)
    wait_for(lambda: members(database).keys() == {frozen.pid, other.pid}, "both are registered")
    time.sleep(3 * CONFIG.heartbeat.total_seconds())  # each looks at the ring with its heartbeats, and tells nobody
    ids = members(database)
    owners = Ring(ids.values()).owners
    keys: dict[int, list[str]] = {
        pid: [key for key in map(str, range(200)) if owners[bucket_of(key)] == ids[pid]][:8] for pid in ids
    }
    everything = [key for some in keys.values() for key in some]

    def enqueue(prefix: str, names: list[str]) -> None:
        call = crew.jobs.note.call
        with crew.jobs.app.client() as client:
            client.enqueue_many([call(number=int(prefix + key)).options(partition_key=key) for key in names])

    def runners(names: list[str], prefix: str) -> set[int]:
        numbers = {int(prefix + key) for key in names}
        return {entry.pid for entry in crew.ledger.read("finished") if entry.number in numbers}

    def is_shared() -> bool:
        """Again and again: on a busy machine a look takes longer, and until then either takes what is the other's."""
        crew.ledger.path.unlink(missing_ok=True)
        enqueue("1", everything)
        database.wait_finished()
        return all(runners(keys[pid], "1") == {pid} for pid in ids)

    wait_for(is_shared, "each runs its own")
    freeze_between_writes(frozen, database)
    database.query(f"DELETE FROM {database.job}")
    enqueue("2", everything)
    database.wait_finished(ANYBODYS_AFTER.total_seconds() + 2 * _GRACE_SECONDS)
    assert runners(everything, "2") == {other.pid}
    waited = waits(database)
    assert max(waited[key] for key in keys[other.pid]) < ANYBODYS_AFTER.total_seconds() / 2
    theirs = [waited[key] for key in keys[frozen.pid]]
    assert min(theirs) >= ANYBODYS_AFTER.total_seconds()
    assert max(theirs) < ANYBODYS_AFTER.total_seconds() + _GRACE_SECONDS
    assert frozen.is_alive
