"""Claiming and finishing jobs by SQL alone, fenced as everywhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from holdfast import Status
from tests.conformance.sql_surface.conftest import REAPER, Surface

GONE = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"

#: every call of a lease holder
FENCED = {
    "renew": "SELECT {s}.renew(%s, %s)",
    "complete": "SELECT {s}.complete(%s, %s, '1')",
    "fail": "SELECT {s}.fail(%s, %s, 'no')",
    "snooze": "SELECT {s}.snooze(%s, %s, '1 hour')",
    "release": "SELECT {s}.release(%s, %s)",
}

#: what became of the job meanwhile -> the SQLSTATE that its former holder gets
MEANWHILE = {
    "deleted": "HF002",
    "claimed again": "HF003",
    "completed by the next": "HF003",
    "retried and dead": "HF003",
    "given back": "HF004",
    "reaped": "HF004",
    "dead": "HF004",
    "completed from outside": "HF004",
}


def happen(surface: Surface, what: str, job_id: str) -> None:
    """To a job that is running under generation 1."""
    if what == "deleted":
        surface.sql("DELETE FROM {s}.job")
    elif what == "dead":
        surface.sql(
            "UPDATE {s}.job SET status = 'dead_letter', finished_at = now(), leased_by = NULL, leased_until = NULL"
        )
    elif what == "completed from outside":
        surface.sql(
            "UPDATE {s}.job SET status = 'completed', finished_at = now(), leased_by = NULL, leased_until = NULL"
        )
    elif what == "reaped":
        surface.sql("UPDATE {s}.job SET status = 'pending', leased_by = NULL, leased_until = NULL")
    else:
        surface.sql("SELECT {s}.release(%s, 1)", job_id)
    if what in ("claimed again", "completed by the next", "retried and dead"):
        assert surface.claim_one("w2") == (job_id, 2)
    if what == "completed by the next":
        surface.sql("SELECT {s}.complete(%s, 2, '2')", job_id)
    elif what == "retried and dead":
        surface.sql("SELECT {s}.fail(%s, 2, 'no', is_final => true)", job_id)


@pytest.mark.parametrize("what", MEANWHILE)
@pytest.mark.parametrize("verb", FENCED)
def test_a_stale_call_changes_nothing(surface: Surface, verb: str, what: str) -> None:
    """It gets the SQLSTATE that says why, with the rights of a worker."""
    surface.enqueue()
    job_id, generation = surface.claim_one()
    happen(surface, what, job_id)
    before = surface.rows()
    assert surface.refusal(FENCED[verb], job_id, generation, role="worker") == MEANWHILE[what]
    assert surface.rows() == before


@pytest.mark.parametrize("verb", FENCED)
def test_what_was_never_claimed(surface: Surface, verb: str) -> None:
    """Neither an unknown job nor a guessed generation nor NULL."""
    job_id = surface.enqueue()
    before = surface.rows()
    assert surface.refusal(FENCED[verb], GONE, 1) == "HF002"
    assert surface.refusal(FENCED[verb], None, 1) == "HF002"
    assert surface.refusal(FENCED[verb], job_id, 1) == "HF003"
    assert surface.refusal(FENCED[verb], job_id, None) == "HF003"
    assert surface.refusal(FENCED[verb], job_id, 0) == "HF004"
    assert surface.rows() == before


@pytest.mark.parametrize("verb", FENCED)
def test_a_call_waits_for_whoever_has_the_row(surface: Surface, verb: str) -> None:
    """And sees what he did: it neither fails at once nor writes over it."""
    surface.enqueue()
    job_id, generation = surface.claim_one()
    with surface.connect(autocommit=False) as holder, surface.connect() as caller:
        holder.execute(surface.text("SELECT {s}.complete(%s, %s, '7')"), [job_id, generation])
        caller.execute("SET lock_timeout = '300ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            caller.execute(surface.text(FENCED[verb]), [job_id, generation])
        holder.commit()
    assert surface.job(job_id).output == 7


def test_claim_order(surface: Surface) -> None:
    """Priority, then ready time, then enqueue; only what is due, in the queues asked for, up to the limit."""
    low = surface.enqueue(priority=5)
    first, second = surface.enqueue(), surface.enqueue()
    surface.enqueue(delay="1 hour")
    other = surface.enqueue("bulky")
    assert [str(job["id"]) for job in surface.claim(max_jobs=2)] == [first, second]
    assert [str(job["id"]) for job in surface.claim(queues=["bulk", "default"], max_jobs=9)] == [low, other]
    assert surface.claim(max_jobs=9) == []


def test_what_a_claim_tells(surface: Surface) -> None:
    job_id = surface.enqueue(input='{"number": 1}', tenant="acme", headers='{"a": "b"}')
    (job,) = surface.claim("w1", lease="90 seconds")
    until = job.pop("leased_until")
    assert timedelta(seconds=80) < until - datetime.now(UTC) < timedelta(seconds=95)
    assert job == {
        "id": UUID(job_id),
        "chain_id": UUID(job_id),
        "lease_generation": 1,
        "type_name": "note",
        "attempt": 1,
        "input": {"number": 1},
        "queue": "default",
        "tenant": "acme",
        "headers": {"a": "b"},
        "timeout_ms": None,
    }
    assert surface.job(job_id).leased_by == "w1"


def test_no_two_workers_get_the_same(surface: Surface) -> None:
    """A claim that has not committed is passed by, not waited for."""
    first, second = surface.enqueue(), surface.enqueue()
    with surface.connect("worker", autocommit=False) as connection:
        (row,) = connection.execute(surface.text("SELECT id FROM {s}.claim('w1')")).fetchall()
        assert str(row[0]) == first
        assert [str(job["id"]) for job in surface.claim("w2", max_jobs=5)] == [second]
        connection.rollback()
    assert [str(job["id"]) for job in surface.claim("w2", max_jobs=5)] == [first]


@pytest.mark.parametrize(
    "arguments",
    [
        "NULL",
        "''",
        "repeat('x', 300)",
        "'w1', queues => NULL",
        "'w1', queues => '{}'",
        "'w1', queues => '{a,NULL}'",
        "'w1', max_jobs => 0",
        "'w1', max_jobs => 1001",
        "'w1', max_jobs => NULL",
        "'w1', lease => '0'",
        "'w1', lease => '-1 hour'",
        "'w1', lease => NULL",
    ],
)
def test_bad_claims(surface: Surface, arguments: str) -> None:
    surface.enqueue()
    before = surface.rows()
    assert surface.refusal(f"SELECT {{s}}.claim({arguments})", role="worker") == "HF006"
    assert surface.rows() == before


def test_complete_twice_is_once(surface: Surface) -> None:
    """Sent again after a lost answer it is a success, and the first output stays."""
    surface.enqueue()
    job_id, generation = surface.claim_one()
    for output in ("1", "2"):
        surface.sql("SELECT {s}.complete(%s, %s, %s::jsonb)", job_id, generation, output, role="worker")
    job = surface.job(job_id)
    assert (job.status, job.output, job.completed_by, job.lease_generation) == (Status.COMPLETED, 1, "w1", 1)
    assert job.finished_at is not None
    assert job.duration_ms is not None


def test_fail_until_dead(surface: Surface) -> None:
    """By the type's policy; each failure is remembered, and sent again it says the same."""
    job_id = surface.enqueue()
    outcomes = []
    for attempt in (1, 2, 3):
        (job,) = surface.claim()
        assert (str(job["id"]), job["attempt"]) == (job_id, attempt)
        for _ in range(2):
            text = "SELECT {s}.fail(%s, %s, 'it broke', 'ValueError', 'line 1')"
            outcomes.append(surface.one(text, job_id, attempt, role="worker"))
    assert outcomes == ["pending"] * 4 + ["dead_letter"] * 2
    found = surface.job(job_id)
    assert found.last_attempt_error is not None
    error = found.last_attempt_error
    assert (error.type, error.message, error.traceback) == ("ValueError", "it broke", "line 1")
    with surface.app.client() as client:
        assert [record.attempt for record in client.list_attempts(job_id)] == [1, 2, 3]


@pytest.mark.parametrize("message", [None, ""])
def test_fail_without_a_message(surface: Surface, message: str | None) -> None:
    """What is shown of the failure says so."""
    job_id = surface.enqueue()
    surface.claim()
    surface.sql("SELECT {s}.fail(%s, 1, %s)", job_id, message)
    found = surface.job(job_id).last_attempt_error
    assert found is not None
    assert (found.type, found.message) == ("Error", "failed without a message")


@pytest.mark.parametrize(
    ("options", "arguments", "setting", "outcome"),
    [
        ({"max_attempts": 1}, "", None, "dead_letter"),
        ({}, ", is_final => true", None, "dead_letter"),
        ({}, "", "1", "dead_letter"),
        ({"max_attempts": 2}, "", "1", "pending"),
        ({}, "", None, "pending"),
    ],
)
def test_attempts_allowed(
    surface: Surface, options: dict[str, Any], arguments: str, setting: str | None, outcome: str
) -> None:
    """The job's own, then the operator's, then the type's; a final failure asks nobody."""
    if setting is not None:
        surface.sql("INSERT INTO {s}.setting VALUES ('max_attempts:note', %s, now())", setting)
    surface.enqueue(**options)
    job_id, generation = surface.claim_one()
    assert surface.one(f"SELECT {{s}}.fail(%s, %s, 'no'{arguments})", job_id, generation) == outcome


@pytest.mark.parametrize(
    ("retry", "attempt", "low", "high"),
    [
        ("retry_initial => '10 s', retry_factor => 3, retry_jitter => 0", 1, 10, 10),
        ("retry_initial => '10 s', retry_factor => 3, retry_jitter => 0", 3, 90, 90),
        ("retry_initial => '10 s', retry_factor => 3, retry_maximum => '60 s', retry_jitter => 0.5", 20, 30, 90),
        ("retry_initial => '1 s', retry_factor => 1000000, retry_jitter => 0", 32000, 3600, 3600),
    ],
)
def test_retry_delays(surface: Surface, retry: str, attempt: int, low: float, high: float) -> None:
    """As Python computes them: exponential, capped, spread."""
    surface.sql(f"SELECT {{s}}.register_type('note', max_attempts => 32767, {retry})")
    job_id = surface.enqueue()
    surface.sql("UPDATE {s}.job SET attempt = %s", attempt - 1)
    surface.claim_one()
    assert surface.one("SELECT {s}.fail(%s, 1, 'no')", job_id) == "pending"
    waits = surface.one("SELECT extract(epoch FROM ready_at - statement_timestamp())::float8 FROM {s}.job")
    assert low - 1 < waits < high + 1


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"retry_initial": 600}, 600),
        ({"retry_initial": 600, "retry_initial:note": 1200, "retry_initial:other": 5}, 1200),
        ({"retry_maximum": 0.5, "retry_jitter": 0}, 0.5),
    ],
)
def test_delays_as_they_are_set(surface: Surface, settings: dict[str, float], seconds: float) -> None:
    """An operator's setting for the type wins over one for all, and that over the type's policy."""
    for name, value in settings.items():
        surface.sql("INSERT INTO {s}.setting VALUES (%s, %s::text::json, now())", name, str(value))
    job_id = surface.enqueue()
    ((generation,),) = [(job["lease_generation"],) for job in surface.claim()]
    surface.sql("SELECT {s}.fail(%s, %s, 'no')", job_id, generation, role="worker")
    (waits,) = surface.sql("SELECT extract(epoch FROM ready_at - now())::float8 FROM {s}.job WHERE id = %s", job_id)[0]
    assert seconds * 0.85 - 5 <= waits <= seconds * 1.15


def test_delay_given(surface: Surface) -> None:
    surface.enqueue()
    job_id, generation = surface.claim_one()
    surface.sql("SELECT {s}.fail(%s, %s, 'no', delay => '2 hours')", job_id, generation)
    assert surface.job(job_id).ready_at - datetime.now(UTC) > timedelta(minutes=119)


def test_snooze_and_release_give_the_attempt_back(surface: Surface) -> None:
    """Put off for later, or back to the old place; the generation grows all the same."""
    job_id = surface.enqueue()
    surface.sql("SELECT {s}.snooze(%s, %s, '1 hour')", *surface.claim_one(), role="worker")
    job = surface.job(job_id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 1)
    assert job.ready_at - datetime.now(UTC) > timedelta(minutes=59)
    surface.sql("UPDATE {s}.job SET ready_at = created_at")
    surface.sql("SELECT {s}.release(%s, %s)", *surface.claim_one(), role="worker")
    job = surface.job(job_id)
    assert (job.attempt, job.lease_generation, job.ready_at) == (0, 2, job.created_at)
    assert surface.claim_one() == (job_id, 3)


@pytest.mark.parametrize("ending", ["fail", "snooze", "release", "complete"])
def test_a_cancelled_job_is_told(surface: Surface, ending: str) -> None:
    """Renewing says so; then success completes it, and anything else cancels it, never pending."""
    surface.enqueue()
    job_id, generation = surface.claim_one()
    assert surface.one("SELECT {s}.renew(%s, %s)", job_id, generation) is False
    assert surface.one("SELECT {s}.cancel(%s)", job_id) == "requested"
    assert surface.one("SELECT {s}.renew(%s, %s)", job_id, generation) is True
    surface.sql(FENCED[ending], job_id, generation)
    assert surface.job(job_id).status == ("completed" if ending == "complete" else "cancelled")


def test_renewing_holds_it_for_longer(surface: Surface) -> None:
    surface.enqueue()
    job_id, generation = surface.claim_one()
    surface.sql("UPDATE {s}.worker SET last_seen_at = now() - interval '1 hour', status = 'dead'")
    surface.sql("SELECT {s}.renew(%s, %s, '2 hours')", job_id, generation, role="worker")
    until = surface.one("SELECT leased_until - now() FROM {s}.job")
    assert timedelta(minutes=119) < until <= timedelta(hours=2)
    assert surface.sql("SELECT status, last_seen_at > now() - interval '1 minute' FROM {s}.worker") == [("alive", True)]


def test_suspects_run_alone(surface: Surface) -> None:
    """A job whose worker died goes to a worker that holds nothing, and while it runs that one gets nothing else."""
    suspect, other, third = surface.enqueue(), surface.enqueue(), surface.enqueue()
    surface.sql("UPDATE {s}.job SET crash_count = 1 WHERE id = %s", suspect)
    (alone,) = surface.claim("w1", max_jobs=5)
    assert str(alone["id"]) == suspect
    assert surface.claim("w1", max_jobs=5) == []
    (held,) = surface.claim("w2")
    assert str(held["id"]) == other
    surface.sql("SELECT {s}.release(%s, 1)", suspect)
    assert [str(job["id"]) for job in surface.claim("w2", max_jobs=5)] == [third]
    assert [str(job["id"]) for job in surface.claim("w1", max_jobs=5)] == [suspect]


def test_expired_jobs_are_left_alone(surface: Surface) -> None:
    surface.enqueue(expires=datetime.now(UTC) - timedelta(seconds=1))
    assert surface.claim(max_jobs=5) == []


def test_leaving_gives_everything_back(surface: Surface) -> None:
    surface.enqueue()
    surface.enqueue()
    assert len(surface.claim("w1", max_jobs=5)) == 2
    assert surface.one("SELECT {s}.retire('w1')", role="worker") == 2
    assert surface.sql("SELECT status, attempt FROM {s}.job") == [("pending", 0)] * 2
    assert surface.sql("SELECT * FROM {s}.worker") == []


def test_leaving_tells_who_waits(surface: Surface) -> None:
    """A job that was to end is cancelled instead of given back; who waited for that is told, and not counted."""
    job_id = surface.enqueue()
    waiting = surface.enqueue(blockers=[UUID(job_id)], on_blocker_failure="run")
    surface.claim("w1")
    surface.sql("SELECT {s}.cancel(%s)", UUID(job_id))
    assert surface.one("SELECT {s}.retire('w1')", role="worker") == 1
    assert (surface.job(job_id).status, surface.job(waiting).status) == ("cancelled", "pending")


def test_workers_are_in_the_registry(surface: Surface) -> None:
    surface.claim("w1", queues=["a", "b"])
    surface.sql("SELECT {s}.heartbeat('w2', '{c}', '{\"language\": \"lua\"}')", role="worker")
    surface.sql("SELECT {s}.heartbeat('w1')", role="worker")
    surface.claim("w2", queues=["d"])
    rows = surface.sql("SELECT id, status, version, queues, metadata FROM {s}.worker ORDER BY id")
    assert rows == [("w1", "alive", "sql", ["a", "b"], {}), ("w2", "alive", "sql", ["d"], {"language": "lua"})]


async def test_a_silent_worker_is_reaped_and_a_beating_one_is_not(surface: Surface) -> None:
    """By the reaper of a Python worker beside them."""
    silent, beating = surface.enqueue("bulky"), surface.enqueue("bulky")
    assert [str(job["id"]) for job in surface.claim("silent", queues=["bulk"])] == [silent]
    assert [str(job["id"]) for job in surface.claim("beating", queues=["bulk"])] == [beating]
    async with surface.app.worker(config=REAPER):
        for _ in range(200):
            await asyncio.sleep(0.1)
            surface.sql("SELECT {s}.renew(%s, 1, '60 seconds')", beating)
            if surface.one("SELECT status FROM {s}.job WHERE id = %s", silent) == "pending":
                break
    assert surface.sql("SELECT status, crash_count FROM {s}.job WHERE id = %s", silent) == [("pending", 1)]
    assert surface.sql("SELECT status, leased_by FROM {s}.job WHERE id = %s", beating) == [("running", "beating")]
    assert surface.refusal("SELECT {s}.complete(%s, 1)", silent) == "HF004"


@pytest.mark.parametrize(
    "arguments",
    [
        "NULL",
        "''",
        "repeat('x', 201)",
        "'t', queue => ''",
        "'t', priority => 40000",
        "'t', max_attempts => 0",
        "'t', retry_initial => '-1 s'",
        "'t', retry_factor => 0.5",
        "'t', retry_factor => 'NaN'",
        "'t', retry_factor => NULL",
        "'t', retry_jitter => 2",
        "'t', retry_maximum => '1000 years'",
        "'t', timeout => '0'",
        "'t', expires => '-1 s'",
    ],
)
def test_bad_types(surface: Surface, arguments: str) -> None:
    before = surface.rows()
    assert surface.refusal(f"SELECT {{s}}.register_type({arguments})", role="worker") == "HF006"
    assert surface.rows() == before


def test_a_registered_type_is_one_for_python_too(surface: Surface) -> None:
    """The reaper reads the policy that SQL wrote down."""
    surface.sql(
        "SELECT {s}.register_type('thumbnail', 'images', max_attempts => 9, retry_initial => '5 s')", role="worker"
    )
    job_id = surface.enqueue("thumbnail")
    (job,) = surface.claim(queues=["images"])
    assert (str(job["id"]), job["type_name"]) == (job_id, "thumbnail")
    (row,) = surface.sql("SELECT queue, max_attempts, retry FROM {s}.job_type WHERE name = 'thumbnail'")
    assert row == ("images", 9, {"max_attempts": 9, "initial": 5.0, "factor": 2, "maximum": 3600.0, "jitter": 0.1})


def test_reason_of_a_cancellation_stays(surface: Surface) -> None:
    """It is the job's error in the end, whatever the worker says."""
    job_id = surface.one("SELECT {s}.enqueue('note')")
    ((generation,),) = surface.sql("SELECT lease_generation FROM {s}.claim('w1')")
    assert surface.one("SELECT {s}.cancel(%s, 'fraud')", job_id) == "requested"
    assert surface.one("SELECT {s}.fail(%s, %s, 'stopped')", job_id, generation) == "cancelled"
    assert surface.one("SELECT last_attempt_error ->> 'message' FROM {s}.job WHERE id = %s", job_id) == "fraud"
    assert surface.one("SELECT error ->> 'message' FROM {s}.job_attempt WHERE job_id = %s", job_id) == "stopped"


@pytest.mark.parametrize("how", ["release(%s, %s)", "snooze(%s, %s, '0')"])
def test_what_was_claimed_was_started(surface: Surface, how: str) -> None:
    """Put off or given back, it no longer expires."""
    job_id = surface.one("SELECT {s}.enqueue('note', expires => now() + interval '1 h')")
    ((generation,),) = surface.sql("SELECT lease_generation FROM {s}.claim('w1')")
    surface.sql(f"SELECT {{s}}.{how}", job_id, generation)
    assert surface.one("SELECT expires_at FROM {s}.job WHERE id = %s", job_id) is None
