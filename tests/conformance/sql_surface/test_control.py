"""What people do to jobs, by SQL: each call says what it did or why it did nothing, and is on record."""

from __future__ import annotations

import json
import threading
from typing import Any
from uuid import UUID

import psycopg
import pytest

from holdfast import Status
from tests.conformance.sql_surface.conftest import Surface
from tests.crew.waiting import wait_for

GONE = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"
STATES = ("blocked", "pending", "running", "completed", "dead_letter", "cancelled")


def put(surface: Surface, state: str, **options: Any) -> str:
    """A chain in that state."""
    if state == "blocked":
        return surface.enqueue(blockers=[UUID(surface.enqueue(delay="1 day"))], **options)
    # In front of whatever else there is, so that it is what a claim takes.
    job_id = surface.enqueue(priority=0 if state == "pending" else -1, **options)
    if state == "cancelled":
        surface.sql("SELECT {s}.cancel(%s)", job_id)
    elif state != "pending":
        surface.claim()
    if state == "completed":
        surface.sql("SELECT {s}.complete(%s, 1)", job_id)
    elif state == "dead_letter":
        surface.sql("SELECT {s}.fail(%s, 1, 'no', is_final => true)", job_id)
    assert surface.job(job_id).status == state
    return job_id


CANCELLED = {"blocked": "cancelled", "pending": "cancelled", "running": "requested"}
RETRIED = {"dead_letter": "retried", "cancelled": "retried"}


@pytest.mark.parametrize("state", STATES)
def test_cancel(surface: Surface, state: str) -> None:
    """What waits at once, what runs by asking; an end stays an end."""
    job_id = put(surface, state)
    surface.sql("DELETE FROM {s}.audit")
    outcome = surface.one("SELECT {s}.cancel(%s, 'no longer wanted')", job_id, role="operator")
    assert outcome == CANCELLED.get(state, "wrong_status")
    job = surface.job(job_id)
    assert job.status == ("cancelled" if outcome == "cancelled" else state)
    assert (job.cancel_requested_at is not None) == (outcome == "requested")
    if outcome == "cancelled":
        assert job.last_attempt_error is not None
        assert job.last_attempt_error.message == "no longer wanted"
    audit = surface.sql("SELECT actor, verb, chain_id::text, outcome, detail FROM {s}.audit")
    assert audit == [(f"{surface.schema}_a_operator", "cancel", job_id, outcome, {"reason": "no longer wanted"})]


@pytest.mark.parametrize("state", STATES)
def test_retry(surface: Surface, state: str) -> None:
    """Dead letters and cancelled ones begin anew, with all their attempts; nothing else changes."""
    job_id = put(surface, state)
    before = surface.job(job_id)
    outcome = surface.one("SELECT {s}.retry(%s)", job_id, role="operator")
    assert outcome == RETRIED.get(state, "wrong_status")
    job = surface.job(job_id)
    if outcome == "retried":
        assert (job.status, job.attempt, job.finished_at) == (Status.PENDING, 0, None)
        assert job.lease_generation == before.lease_generation
    else:
        assert job == before
    assert surface.one("SELECT outcome FROM {s}.audit WHERE verb = 'retry'") == outcome


def test_unknown_chains(surface: Surface) -> None:
    """Are told from others, and on record as they were asked for."""
    assert surface.one("SELECT {s}.cancel(%s)", GONE) == "not_found"
    assert surface.one("SELECT {s}.retry(%s)", GONE) == "not_found"
    assert surface.one("SELECT {s}.cancel(NULL)") == "not_found"
    assert surface.one("SELECT {s}.remove('note', 'k')") == "not_found"
    details = [row[0] for row in surface.sql("SELECT detail FROM {s}.audit ORDER BY seq")]
    assert details == [{"asked": GONE}, {"asked": GONE}, None, {"type_name": "note", "key": "k"}]


def test_who_waits_is_told(surface: Surface) -> None:
    """The end of a chain goes along the graph in the same transaction; a retried blocker resumes it."""
    blocker = surface.enqueue()
    cancelled = surface.enqueue(blockers=[UUID(blocker)], on_blocker_failure="cancel")
    behind = surface.enqueue(blockers=[UUID(cancelled)], on_blocker_failure="run")
    waiting = surface.enqueue(blockers=[UUID(blocker)])
    surface.sql("SELECT {s}.cancel(%s)", blocker)
    assert [surface.job(job_id).status for job_id in (cancelled, behind, waiting)] == [
        "cancelled",
        "pending",
        "blocked",
    ]
    assert surface.one("SELECT {s}.retry(%s)", blocker) == "retried"
    surface.sql("SELECT {s}.cancel(%s)", behind)
    surface.sql("SELECT {s}.complete(%s, %s)", *surface.claim_one())
    assert surface.job(waiting).status is Status.PENDING


def test_a_dependant_that_is_locked_is_waited_for(surface: Surface) -> None:
    """Nobody stays blocked because somebody looked at him just then."""
    blocker = surface.enqueue()
    waiting = surface.enqueue(blockers=[UUID(blocker)])
    job_id, generation = surface.claim_one()
    with surface.connect(autocommit=False) as other:
        other.execute(surface.text("SELECT FROM {s}.job WHERE id = %s FOR UPDATE"), [waiting])

        def complete() -> None:
            with surface.connect() as connection:
                connection.execute(surface.text("SELECT {s}.complete(%s, %s)"), [job_id, generation])

        thread = threading.Thread(target=complete)
        thread.start()
        wait_for(surface.is_somebody_waiting, "the completion waits")
        other.commit()
        thread.join(30)
    assert surface.job(waiting).status is Status.PENDING


def test_a_retried_blocked_job_waits_again(surface: Surface) -> None:
    blocker = surface.enqueue()
    waiting = surface.enqueue(blockers=[UUID(blocker)])
    surface.sql("SELECT {s}.cancel(%s)", waiting)
    assert surface.one("SELECT {s}.retry(%s)", waiting) == "retried"
    assert surface.job(waiting).status is Status.BLOCKED
    surface.sql("SELECT {s}.cancel(%s)", waiting)
    surface.sql("DELETE FROM {s}.job WHERE id = %s", blocker)
    assert surface.one("SELECT {s}.retry(%s)", waiting) == "blocker_gone"
    assert surface.job(waiting).status is Status.CANCELLED


def test_retry_behind_a_failed_blocker(surface: Surface) -> None:
    """It would be cancelled again at once; after its blocker it may."""
    blocker = surface.enqueue()
    waiting = surface.enqueue(blockers=[UUID(blocker)], on_blocker_failure="cancel")
    surface.sql("SELECT {s}.cancel(%s)", blocker)
    assert surface.one("SELECT {s}.retry(%s)", waiting) == "blocker_failed"
    assert surface.job(waiting).status is Status.CANCELLED
    assert surface.one("SELECT {s}.retry(%s)", blocker) == "retried"
    assert surface.one("SELECT {s}.retry(%s)", waiting) == "retried"
    assert surface.job(waiting).status is Status.BLOCKED


def test_a_retried_blocker_is_waited_for_again(surface: Surface) -> None:
    """By who was told that it had ended, and waits for others still."""
    first, second = surface.enqueue(), surface.enqueue()
    waiting = surface.enqueue(blockers=[UUID(first), UUID(second)], on_blocker_failure="run")
    surface.sql("SELECT {s}.cancel(%s)", first)
    assert surface.one("SELECT {s}.retry(%s)", first) == "retried"
    surface.sql("SELECT {s}.cancel(%s)", second)
    assert surface.job(waiting).status is Status.BLOCKED
    surface.sql("SELECT {s}.cancel(%s)", first)
    assert surface.job(waiting).status is Status.PENDING


def test_retry_closes_no_cycle_over_one_that_was_told(surface: Surface) -> None:
    first, other = surface.enqueue(dedup="k"), surface.enqueue()
    retried = surface.enqueue(blockers=[UUID(first)])
    surface.sql("SELECT {s}.cancel(%s)", retried)
    waiting = surface.enqueue(blockers=[UUID(retried), UUID(other)], on_blocker_failure="run")
    assert surface.enqueue(dedup="k", on_conflict="replace", blockers=[UUID(waiting)]) == first
    assert surface.one("SELECT {s}.retry(%s)", retried) == "blocker_cycle"


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize(
    "verb", ["complete(%s, %s)", "fail(%s, %s, 'no', is_final => true)", "cancel(%s)", "retry(%s)"]
)
def test_an_older_snapshot(surface: Surface, verb: str, level: str) -> None:
    """Whoever has come to wait since must be seen by who ends his blocker, or lets it begin anew."""
    blocker = surface.enqueue()
    arguments: list[object] = [blocker]
    if "%s, %s" in verb:
        arguments = list(surface.claim_one())
    elif verb.startswith("retry"):
        surface.sql("SELECT {s}.cancel(%s)", blocker)
    before = surface.job(blocker).status
    for refusal in ("40001", "HF008"):  # nobody waited before, somebody did
        with surface.connect(autocommit=False) as older:
            older.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
            older.execute("SELECT 1")
            surface.enqueue(blockers=[UUID(blocker)], on_blocker_failure="run")
            with pytest.raises(psycopg.Error) as refused:
                older.execute(surface.text(f"SELECT {{s}}.{verb}"), arguments)
            assert refused.value.sqlstate == refusal
            older.rollback()
        assert surface.job(blocker).status is before


def test_retry_closes_no_cycle(surface: Surface) -> None:
    """What a cancelled job waited for was put behind it meanwhile."""
    first = surface.enqueue(dedup="k")
    second = surface.enqueue(blockers=[UUID(first)])
    third = surface.enqueue(blockers=[UUID(second)])
    surface.sql("SELECT {s}.cancel(%s)", third)
    assert surface.enqueue(dedup="k", on_conflict="replace", blockers=[UUID(third)]) == first
    assert surface.one("SELECT {s}.retry(%s)", third) == "blocker_cycle"
    assert surface.job(third).status is Status.CANCELLED
    surface.sql("SELECT {s}.cancel(%s)", first)
    assert surface.one("SELECT {s}.retry(%s)", third) == "retried"


def test_retry_takes_a_free_key(surface: Surface) -> None:
    """And nobody else's."""
    first = put(surface, "dead_letter", dedup="k")
    second = surface.enqueue(dedup="k")
    assert second != first
    assert surface.one("SELECT {s}.retry(%s)", first) == "key_taken"
    assert surface.job(first).status is Status.DEAD_LETTER
    surface.sql("SELECT {s}.cancel(%s)", second)
    assert surface.one("SELECT {s}.retry(%s)", first) == "retried"
    assert surface.enqueue(dedup="k") == first


def test_retry_of_a_key_without_a_row(surface: Surface) -> None:
    """The row is made if the retry happens, and only then."""
    first = put(surface, "dead_letter", dedup="k")
    surface.sql("DELETE FROM {s}.deduplication")
    assert surface.one("SELECT {s}.retry(%s)", first) == "retried"
    assert surface.enqueue(dedup="k") == first
    second = put(surface, "pending", dedup="other")
    surface.sql("DELETE FROM {s}.deduplication")
    assert surface.one("SELECT {s}.retry(%s)", second) == "wrong_status"
    assert surface.one("SELECT count(*) FROM {s}.deduplication") == 0


@pytest.mark.parametrize("state", STATES)
def test_remove(surface: Surface, state: str) -> None:
    """What has not begun goes; what runs goes on without its key, and is not tried again."""
    job_id = put(surface, state, dedup="k")
    outcome = surface.one("SELECT {s}.remove('note', 'k')", role="operator")
    expected = {"blocked": "removed", "pending": "removed", "running": "key_given_up"}.get(state, "not_found")
    assert outcome == expected
    with surface.app.client() as client:
        assert (client.find_job(job_id) is None) == (outcome == "removed")
    if outcome == "key_given_up":
        assert surface.one("SELECT {s}.fail(%s, 1, 'no')", job_id) == "dead_letter"
    assert surface.enqueue(dedup="k") != job_id


def test_remove_spares_what_others_need(surface: Surface) -> None:
    job_id = surface.enqueue(dedup="k")
    surface.enqueue(blockers=[UUID(job_id)])
    assert surface.one("SELECT {s}.remove('note', 'k')") == "needed"
    assert surface.enqueue(dedup="k") == job_id


def test_remove_of_a_key_taken_for_ever(surface: Surface) -> None:
    """It outlives its chain, until now."""
    job_id = put(surface, "completed", dedup="k", dedup_scope="forever")
    surface.sql("SELECT {s}.prune('0')")
    assert surface.enqueue(dedup="k") == job_id
    assert surface.one("SELECT {s}.remove('note', 'k')") == "key_given_up"
    assert surface.enqueue(dedup="k") != job_id


def test_release_workers(surface: Surface) -> None:
    """At once, without waiting for the reaper, attempts refunded; who is alive after all is fenced off."""
    job_id = surface.enqueue()
    assert surface.claim_one("gone") == (job_id, 1)
    surface.sql("SELECT {s}.heartbeat('other')")
    assert surface.one("SELECT {s}.release_workers('{gone,gone,NULL,nobody}')", role="operator") == 1
    job = surface.job(job_id)
    assert (job.status, job.attempt) == (Status.PENDING, 0)
    assert surface.refusal("SELECT {s}.complete(%s, 1)", job_id) == "HF004"
    assert surface.claim_one("other") == (job_id, 2)
    assert surface.refusal("SELECT {s}.complete(%s, 1)", job_id) == "HF003"
    assert [row[0] for row in surface.sql("SELECT id FROM {s}.worker")] == ["other"]


@pytest.mark.parametrize(
    "call", ["cancel(%s)", "release_workers(ARRAY[(SELECT leased_by FROM {s}.job WHERE id = %s)])"]
)
def test_the_holder_is_told(surface: Surface, call: str) -> None:
    """On the channel that it named, with the commit; who missed it finds out when it renews."""
    surface.sql("SELECT {s}.heartbeat('w1', metadata => '{\"lease_channel\": \"mine\"}')")
    job_id = surface.enqueue()
    assert surface.claim_one("w1") == (job_id, 1)
    with surface.connect() as listener:
        listener.execute("LISTEN mine")
        surface.sql(f"SELECT {{s}}.{call}", job_id)
        assert [hint.payload for hint in listener.notifies(timeout=5, stop_after=1)] == ["w1"]


# --- prune ------------------------------------------------------------------------------------------------------------


def test_prune_by_age(surface: Surface) -> None:
    """Finished chains of that age go with all that belongs to them; whatever is unfinished stays."""
    chains = {state: put(surface, state) for state in reversed(STATES)}
    surface.sql("UPDATE {s}.job SET finished_at = finished_at - interval '2 days' WHERE finished_at IS NOT NULL")
    young = put(surface, "completed")
    count = "SELECT count(*) FROM {s}.job"
    before = surface.one(count)
    assert surface.one("SELECT {s}.prune('3 days')", role="operator") == 0
    assert surface.one("SELECT {s}.prune('1 day')", role="operator") == 3
    assert surface.one(count) == before - 3
    left = {str(row[0]) for row in surface.sql("SELECT id FROM {s}.job")}
    assert left >= {chains["blocked"], chains["pending"], chains["running"], young}
    assert surface.one("SELECT count(*) FROM {s}.job_attempt") == 0
    assert surface.one("SELECT {s}.prune('1 day')") == 0


def test_prune_in_batches(surface: Surface) -> None:
    """Oldest first, and not more than asked for; called again until there is nothing left."""
    chains = [put(surface, "completed") for _ in range(5)]
    assert surface.one("SELECT {s}.prune('0', 2)") == 2
    assert [str(row[0]) for row in surface.sql("SELECT id FROM {s}.job ORDER BY seq")] == chains[2:]
    assert [surface.one("SELECT {s}.prune('0', 2)") for _ in range(3)] == [2, 1, 0]


def test_prune_spares_what_unfinished_jobs_need(surface: Surface) -> None:
    """A handler reads its blockers' outputs; and a page of spared ones does not hide the rest."""
    needed = [put(surface, "completed") for _ in range(3)]
    free = put(surface, "completed")
    waiting = surface.enqueue(blockers=[UUID(chain) for chain in needed])
    assert surface.one("SELECT {s}.prune('0', 2)") == 1
    with surface.app.client() as client:
        assert client.find_job(free) is None
    assert surface.claim_one() == (waiting, 1)
    assert surface.one("SELECT {s}.prune('0')") == 0
    surface.sql("SELECT {s}.complete(%s, 1)", waiting)
    assert surface.one("SELECT {s}.prune('0')") == 4


def test_prune_takes_chains_whole(surface: Surface) -> None:
    """By the end of the last job; a chain that goes on is not old, however old its first job is."""
    chain = put(surface, "completed")
    surface.sql("UPDATE {s}.job SET finished_at = finished_at - interval '1 year', is_tail = false")
    surface.sql(
        """INSERT INTO {s}.job (id, chain_id, chain_index, type_name, chain_type_name, queue, input, created_at,
                                scheduled_at, ready_at)
           VALUES (%s, %s, 1, 'note', 'note', 'default', '{}', now(), now(), now())""",
        GONE,
        chain,
    )
    assert surface.one("SELECT {s}.prune('0')") == 0
    surface.sql("SELECT {s}.complete(%s, %s)", *surface.claim_one())
    assert surface.one("SELECT {s}.prune('1 day')") == 0
    assert surface.one("SELECT {s}.prune('0')") == 1
    assert surface.one("SELECT count(*) FROM {s}.job") == 0


def test_prune_waits_for_nobody(surface: Surface) -> None:
    """What somebody has locked is left for the next time."""
    locked, free = put(surface, "completed"), put(surface, "completed")
    with surface.connect(autocommit=False) as other:
        other.execute(surface.text("SELECT FROM {s}.job WHERE id = %s FOR UPDATE"), [locked])
        surface.sql("SET statement_timeout = '5s'")
        assert surface.one("SELECT {s}.prune('0')") == 1
        other.rollback()
    surface.sql("RESET statement_timeout")
    assert [str(row[0]) for row in surface.sql("SELECT id FROM {s}.job")] == [locked]
    assert free != locked


@pytest.mark.parametrize("status", ["dead_letter", "cancelled"])
def test_prune_spares_what_may_be_retried(surface: Surface, status: str) -> None:
    """Whoever has not completed reads its blockers again when somebody retries it: the same rule as in Python."""
    needed = put(surface, "completed")
    waiting = surface.enqueue(blockers=[UUID(needed)])
    if status == "cancelled":
        surface.sql("SELECT {s}.cancel(%s)", waiting)
    else:
        surface.sql("SELECT {s}.fail(%s, %s, 'no', is_final => true)", *surface.claim_one())
    surface.sql("UPDATE {s}.job SET finished_at = finished_at - interval '1 day' WHERE id = %s", needed)
    assert surface.job(waiting).status == status
    assert surface.one("SELECT {s}.prune('1 hour')") == 0
    assert surface.one("SELECT {s}.retry(%s)", waiting) == "retried"
    surface.sql("SELECT {s}.complete(%s, %s)", *surface.claim_one())
    assert surface.one("SELECT {s}.prune('0')") == 2


def test_prune_spares_what_somebody_waits_for(surface: Surface) -> None:
    """A process that listens for the end of a chain comes to look at it."""
    awaited, free = put(surface, "completed"), put(surface, "completed")
    surface.sql("INSERT INTO {s}.waiter (chain_id, channel, announced_at) VALUES (%s, 'me', now())", awaited)
    assert surface.one("SELECT {s}.prune('0', 1)") == 1
    assert surface.one("SELECT {s}.prune('0')") == 0
    surface.sql("DELETE FROM {s}.waiter")
    assert surface.one("SELECT {s}.prune('0')") == 1
    assert free != awaited


@pytest.mark.parametrize(
    ("own", "of_type", "of_all", "is_archived"),
    [
        (None, None, None, False),
        (True, None, None, True),
        (True, None, False, False),
        (None, None, True, True),
        (False, True, False, True),
        (True, False, True, False),
    ],
)
def test_prune_archives(
    surface: Surface, own: bool | None, of_type: bool | None, of_all: bool | None, is_archived: bool
) -> None:
    """As in Python: the setting for the type, the setting for all, what the type says; whole, and once."""
    chain = put(surface, "completed")
    keep = {"completed": 1} if own is None else {"archive": own}
    surface.sql("UPDATE {s}.job_type SET keep = %s WHERE name = 'note'", json.dumps(keep))
    with surface.app.client() as client:
        for value, type_name in ((of_type, "note"), (of_all, None)):
            if value is not None:
                client.settings.set("archive", value, type_name=type_name)
        assert client.admin.prune(older_than=0, dry_run=True).archived == is_archived
        assert surface.one("SELECT {s}.prune('0')", role="operator") == 1
        assert surface.one("SELECT count(*) FROM {s}.job") == 0
        assert surface.one("SELECT count(*) FROM {s}.job_archive") == is_archived
        found = client.find_job(chain)
        assert (found is not None and found.status == "completed") == is_archived


@pytest.mark.parametrize("kind", ["", "ON DELETE RESTRICT", "DEFERRABLE INITIALLY DEFERRED"])
def test_prune_goes_past_what_rows_refer_to(surface: Surface, kind: str) -> None:
    """Those stay, and no others, wherever they are; archived or not, nothing of them is anywhere else."""
    chains = [put(surface, "completed") for _ in range(7)]
    kept = [chains[place] for place in (0, 1, 4)]
    surface.sql("INSERT INTO {s}.setting (name, value, changed_at) VALUES ('archive', 'true', now())")
    surface.sql(f"CREATE TABLE {{s}}.invoice (job_id uuid REFERENCES {{s}}.job (id) {kind})")
    try:
        for chain in kept:
            surface.sql("INSERT INTO {s}.invoice VALUES (%s)", chain)
        assert [surface.one("SELECT {s}.prune('0', 3)", role="operator") for _ in range(3)] == [3, 1, 0]
        assert [str(row[0]) for row in surface.sql("SELECT id FROM {s}.job ORDER BY seq")] == kept
        assert surface.one("SELECT count(*) FROM {s}.job_archive") == 4
    finally:
        surface.sql("DROP TABLE {s}.invoice")
    assert surface.one("SELECT {s}.prune('0')") == 3


def test_prune_beyond_a_page(surface: Surface) -> None:
    """Hundreds that stay do not hide the rest, though all of them ended at the same instant."""
    surface.sql(
        """INSERT INTO {s}.job (id, chain_id, type_name, chain_type_name, queue, input, created_at, scheduled_at,
                                ready_at, status, finished_at)
           SELECT id, id, 'note', 'note', 'default', '{}', now(), now(), now(), 'completed', '2020-01-01'
           FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 1100)) AS new"""
    )
    surface.sql(
        """INSERT INTO {s}.waiter (chain_id, channel, announced_at)
           SELECT id, 'me', now() FROM (SELECT id FROM {s}.job ORDER BY seq LIMIT 1010) AS first"""
    )
    assert [surface.one("SELECT {s}.prune('1 day', 60)") for _ in range(3)] == [60, 30, 0]


@pytest.mark.parametrize("arguments", ["NULL", "'-1 day'", "'1 day', 0", "'1 day', 10001", "'1 day', NULL"])
def test_bad_prunes(surface: Surface, arguments: str) -> None:
    put(surface, "completed")
    before = surface.rows()
    assert surface.refusal(f"SELECT {{s}}.prune({arguments})") == "HF006"
    assert surface.rows() == before


def test_is_terminal(surface: Surface) -> None:
    """As the model says; null for what is no status."""
    for status in Status:
        assert surface.one("SELECT {s}.is_terminal(%s)", str(status), role="reader") is status.is_terminal
    assert surface.one("SELECT {s}.is_terminal('lost')") is None
