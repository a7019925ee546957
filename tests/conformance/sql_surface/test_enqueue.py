"""`enqueue` and `enqueue_many`: every option, from psql, with the role of a producer, run by a real Python worker."""

from __future__ import annotations

import json
import sys
import threading
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from holdfast import Chain, Client, Dedup, Job, Status
from holdfast.model.call import EnqueueOptions
from holdfast.model.partition import shard_of
from holdfast.model.ring import bucket_of
from holdfast.testing import drain
from tests.conformance.sql_surface.conftest import PsqlFailed, Surface
from tests.crew.waiting import wait_for

ID = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"
HOUR = timedelta(hours=1)


def near(moment: datetime | None, expected: timedelta) -> bool:
    return moment is not None and abs(moment - datetime.now(UTC) - expected) < timedelta(minutes=1)


#: SQL of the options -> what the job has then
OPTIONS: dict[str, Callable[[Job], object]] = {
    "id => '" + ID + "'": lambda job: job.id == ID,
    "queue => 'other'": lambda job: job.queue == "other",
    "priority => -5": lambda job: job.priority == -5,
    "at => now() + interval '1 hour'": lambda job: near(job.scheduled_at, HOUR),
    "at => '2001-01-01'": lambda job: near(job.scheduled_at, timedelta()),
    "delay => interval '1 hour'": lambda job: near(job.ready_at, HOUR),
    "expires => now() + interval '1 hour'": lambda job: near(job.expires_at, HOUR),
    "dedup => 'k'": lambda job: (job.deduplication_key, job.deduplication_scope) == ("k", "unfinished"),
    "dedup => 'k', dedup_scope => 'forever'": lambda job: job.deduplication_scope == "forever",
    "dedup => 'k', dedup_window => '1 hour', on_conflict => 'reject'": lambda job: job.deduplication_key == "k",
    "max_attempts => 9": lambda job: job.max_attempts == 9,
    "tenant => 'acme'": lambda job: job.tenant == "acme",
    'headers => \'{"trace": "a"}\'': lambda job: job.headers == {"trace": "a"},
    "on_blocker_failure => 'run'": lambda job: job.status is Status.PENDING,
    "partition_key => 'order:1'": lambda job: (job.partition_key, job.ordering) == ("order:1", "fifo"),
    "partition_key => 'k', ordering => 'serial'": lambda job: (job.partition_key, job.ordering) == ("k", "serial"),
    "partition_key => 'k', shards => 1": lambda job: job.partition_key == "k",
    "partition_key => 'k', shards => 7": lambda job: job.partition_key == shard_of("k", 7, job.id),
    "partition_key => 'k', shards => 7, dedup => 'd'": lambda job: job.partition_key == shard_of("k", 7, "d"),
    "concurrency_key => 'api'": lambda job: (job.concurrency_key, job.partition_key) == ("api", None),
    "flags => ARRAY['gpu', 'big', 'gpu']": lambda job: job.flags == ["big", "gpu"],
    "flags => '{}'": lambda job: job.flags is None,
}


@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_from_psql(surface: Surface, options: str) -> None:
    """Needs no right but the producer's; the job is as a Python client would have made it."""
    job_id = surface.psql(f"SELECT {{s}}.enqueue('note', '{{\"number\": 1}}', {options});", "producer")
    job = surface.job(job_id)
    assert OPTIONS[options](job), job
    assert (job.type_name, job.input, job.attempt) == ("note", {"number": 1}, 0)


def test_the_options_are_those_of_python(surface: Surface) -> None:
    """Whoever adds one in Python adds it here."""
    arguments = surface.one("SELECT proargnames FROM pg_proc WHERE oid = to_regproc(%s)", f"{surface.schema}.enqueue")
    of_dedup = {"dedup_scope", "dedup_window", "on_conflict"}
    # About the hint and not about the job: SQL always sends it with the commit.
    in_python = EnqueueOptions.__annotations__.keys() - {"notify"}
    assert set(arguments) - of_dedup - {"type_name", "input"} == in_python


def test_what_is_not_given_comes_from_the_type(surface: Surface) -> None:
    """Queue, priority, timeout and expiry are in the type's row; ids are UUIDv7, in order."""
    first, second = (surface.one("SELECT {s}.enqueue('bulky')") for _ in range(2))
    job = surface.job(first)
    assert (job.queue, job.priority, job.timeout_ms, job.max_attempts) == ("bulk", 7, 30_000, None)
    assert near(job.expires_at, HOUR)
    assert isinstance(first, UUID)
    assert (first.version, first.variant) == (7, second.variant)
    assert first < second
    assert abs((first.int >> 80) / 1000 - datetime.now(UTC).timestamp()) < 60


def test_a_python_worker_registers_its_types(surface: Surface) -> None:
    """A type is unknown until somebody who runs it has said so; what the worker writes down is what enqueue uses."""
    surface.sql("DELETE FROM {s}.job_type")
    assert surface.refusal("SELECT {s}.enqueue('bulky')", role="producer") == "HF001"
    drain(surface.app)
    job = surface.job(surface.one("SELECT {s}.enqueue('bulky')", role="producer"))
    assert (job.queue, job.priority, job.timeout_ms) == ("bulk", 7, 30_000)
    assert near(job.expires_at, HOUR)


def test_a_python_worker_runs_it(surface: Surface) -> None:
    """With quotes, backslashes and letters of all kinds as data, and an output that SQL can read."""
    text = """it's "quoted" \\ $body$ ); DROP TABLE job; -- ü 漢 🙂"""
    job_id = surface.psql(
        "SELECT {s}.enqueue('note', jsonb_build_object('number', 3, 'text', :'text'));", "producer", text=text
    )
    drain(surface.app)
    assert surface.calls == [{"number": 3, "text": text}]
    assert surface.sql("SELECT status, output FROM {s}.chains WHERE id = %s", job_id) == [("completed", "noted 3")]


@pytest.mark.parametrize(
    ("payload", "problem"),
    [('{"number": "three"}', "number"), ('{"colour": 1}', "colour"), ('{"number": 1.5}', "number")],
)
def test_the_worker_validates(surface: Surface, payload: str, problem: str) -> None:
    """What does not fit the handler's signature is not run, and the error names what does not."""
    job_id = surface.one("SELECT {s}.enqueue('note', %s)", payload)
    drain(surface.app)
    job = surface.job(job_id)
    assert job.status is not Status.COMPLETED
    assert job.last_attempt_error is not None
    assert problem in job.last_attempt_error.message
    assert surface.calls == []


def test_nothing_exists_before_the_commit(surface: Surface) -> None:
    """It is the caller's transaction: rolled back, also to a savepoint, there is no job."""
    with surface.connect("producer", autocommit=False) as connection:
        connection.execute(surface.text("SELECT {s}.enqueue('note')"))
        assert surface.one("SELECT count(*) FROM {s}.job") == 0
        connection.execute("SAVEPOINT here")
        connection.execute(surface.text("SELECT {s}.enqueue('note', dedup => 'k')"))
        connection.execute("ROLLBACK TO here")
        connection.commit()
        assert surface.one("SELECT count(*) FROM {s}.job") == 1
        assert surface.one("SELECT count(*) FROM {s}.deduplication") == 0
        connection.execute(surface.text("SELECT {s}.enqueue('note')"))
        connection.rollback()
    assert surface.one("SELECT count(*) FROM {s}.job") == 1


def test_the_id_makes_a_retry_safe(surface: Surface) -> None:
    """The same id again changes nothing."""
    for number in (1, 2):
        assert (
            str(surface.one("SELECT {s}.enqueue('note', jsonb_build_object('number', %s::int), id => %s)", number, ID))
            == ID
        )
    assert surface.job(ID).input == {"number": 1}
    rows = surface.sql("SELECT * FROM {s}.enqueue_many(%s)", json.dumps([{"type_name": "note", "id": ID}]))
    assert [row[1:] for row in rows] == [("pending", "kept", None)]


def test_a_batch_closes_no_cycle(surface: Surface) -> None:
    """Each takes the place of a job that waits, behind the other; turning a wait round is no cycle."""
    ids = {key: surface.enqueue(dedup=key) for key in "ab"}

    def order(key: str, *blockers: str) -> dict[str, object]:
        return {"type_name": "note", "dedup": key, "on_conflict": "replace", "blockers": blockers or None}

    def send(*orders: dict[str, object]) -> str:
        return json.dumps([{name: value for name, value in each.items() if value is not None} for each in orders])

    many = "SELECT status, outcome FROM {s}.enqueue_many(%s)"
    with pytest.raises(psycopg.Error) as refused:
        surface.sql(many, send(order("a", ids["b"]), order("b", ids["a"])))
    assert refused.value.sqlstate == "HF007"
    new: dict[str, object] = {"type_name": "note", "id": ID, "blockers": [ids["a"]]}
    with pytest.raises(psycopg.Error) as refused:
        surface.sql(many, send(new, order("a", ID)))
    assert refused.value.sqlstate == "HF007"
    surface.sql(many, send(order("a", ids["b"])))
    turned = surface.sql(many, send(order("b", ids["a"]), order("a")))
    assert turned == [("blocked", "replaced"), ("pending", "replaced")]


def test_workers_are_woken(surface: Surface) -> None:
    """A hint on the channel that Python workers listen to, with the commit."""
    with surface.connect() as listener:
        listener.execute("LISTEN holdfast_work")
        surface.sql("SELECT {s}.enqueue('bulky')", role="producer")
        assert [hint.payload for hint in listener.notifies(timeout=5, stop_after=1)] == ["bulk"]


#: SQL of bad calls -> the SQLSTATE
BAD: dict[str, str] = {
    "enqueue('nope')": "HF001",
    "enqueue(NULL)": "HF001",
    "enqueue(repeat('x', 100000))": "HF001",
    "enqueue('note', NULL)": "HF006",
    "enqueue('note', '[1]')": "HF006",
    "enqueue('note', '\"text\"')": "HF006",
    "enqueue('note', queue => '')": "HF006",
    "enqueue('note', queue => E'a\\nb')": "HF006",
    "enqueue('note', queue => repeat('x', 201))": "HF006",
    "enqueue('note', tenant => repeat('x', 201))": "HF006",
    "enqueue('note', priority => 40000)": "HF006",
    "enqueue('note', priority => 2147483647)": "HF006",
    "enqueue('note', max_attempts => 0)": "HF006",
    "enqueue('note', at => 'infinity')": "HF006",
    "enqueue('note', at => '20000-01-01')": "HF006",
    "enqueue('note', expires => '-infinity')": "HF006",
    "enqueue('note', delay => interval '-1 s')": "HF006",
    "enqueue('note', delay => interval '1000 years')": "HF006",
    "enqueue('note', at => now(), delay => '1 s')": "HF006",
    "enqueue('note', dedup => '')": "HF006",
    "enqueue('note', dedup => repeat('x', 501))": "HF006",
    "enqueue('note', dedup_scope => 'forever')": "HF006",
    "enqueue('note', dedup => 'k', dedup_scope => 'always')": "HF006",
    "enqueue('note', dedup => 'k', dedup_window => '0')": "HF006",
    "enqueue('note', dedup => 'k', on_conflict => 'steal')": "HF006",
    "enqueue('note', on_blocker_failure => 'panic')": "HF006",
    "enqueue('note', partition_key => '')": "HF006",
    "enqueue('note', partition_key => E'a\\tb')": "HF006",
    "enqueue('note', partition_key => repeat('x', 201))": "HF006",
    "enqueue('note', partition_key => repeat('x', 196), shards => 2)": "HF006",
    "enqueue('note', partition_key => 'k', ordering => 'lifo')": "HF006",
    "enqueue('note', partition_key => 'k', shards => 0)": "HF006",
    "enqueue('note', partition_key => 'k', shards => 1025)": "HF006",
    "enqueue('note', ordering => 'fifo')": "HF006",
    "enqueue('note', shards => 2)": "HF006",
    "enqueue('note', concurrency_key => '')": "HF006",
    "enqueue('note', flags => ARRAY[''])": "HF006",
    "enqueue('note', flags => ARRAY[NULL]::text[])": "HF006",
    "enqueue('note', flags => ARRAY(SELECT n::text FROM generate_series(1, 101) AS n))": "HF006",
    "enqueue('note', headers => '[]')": "HF006",
    "enqueue('note', headers => '{\"a\": 1}')": "HF006",
    "enqueue('note', headers => jsonb_build_object('a', repeat('x', 20000)))": "HF006",
    f"enqueue('note', blockers => ARRAY['{ID}']::uuid[])": "HF002",
    f"enqueue('note', blockers => ARRAY['{ID}', '{ID}']::uuid[])": "HF006",
    "enqueue('note', blockers => ARRAY[NULL]::uuid[])": "HF006",
    f"enqueue('note', id => '{ID}', blockers => ARRAY['{ID}']::uuid[])": "HF007",
    "enqueue('note', id => 'one')": "22P02",
    "enqueue('note', '{\"a\": \"\\u0000\"}')": "22P05",
    "enqueue_many('{}')": "HF006",
    "enqueue_many(NULL)": "HF006",
    "enqueue_many('[1]')": "HF006",
    "enqueue_many('[{}]')": "HF001",
    "enqueue_many('[{\"type_name\": \"note\", \"colour\": 1}]')": "HF006",
    "enqueue_many('[{\"type_name\": \"note\"}, {\"type_name\": \"note\", \"priority\": 1.5}]')": "HF006",
    "enqueue_many('[{\"type_name\": \"note\", \"dedup\": \"k\"}, {\"type_name\": \"nope\"}]')": "HF001",
    "enqueue_many('[{\"type_name\": \"note\", \"dedup\": {\"a\": 1}}]')": "HF006",
    "enqueue_many('[{\"type_name\": \"note\", \"tenant\": 5}]')": "HF006",
    "enqueue_many('[{\"type_name\": \"note\", \"partition_key\": 5}]')": "HF006",
    "enqueue_many('[{\"type_name\": \"note\", \"partition_key\": \"k\", \"shards\": 1.5}]')": "HF006",
    "enqueue_many('[{\"type_name\": \"note\", \"flags\": \"gpu\"}]')": "HF006",
    "enqueue_many('[{\"type_name\": \"note\", \"flags\": [1]}]')": "HF006",
}  # fmt: skip


@pytest.mark.parametrize("call", BAD)
def test_bad_input_leaves_nothing(surface: Surface, call: str) -> None:
    """Each has its SQLSTATE, and nothing is written, in a transaction that goes on after a savepoint either."""
    before = surface.rows()
    with surface.connect("producer", autocommit=False) as connection:
        connection.execute("SAVEPOINT here")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(surface.text(f"SELECT {{s}}.{call}"))
        assert caught.value.sqlstate == BAD[call], caught.value
        connection.execute("ROLLBACK TO here")
        connection.commit()
    assert surface.rows() == before


def test_psql_tells_the_sqlstate(surface: Surface) -> None:
    with pytest.raises(PsqlFailed, match="HF001"):
        surface.psql("SELECT {s}.enqueue('nope');", "producer")


# --- many -------------------------------------------------------------------------------------------------------------


def test_many_in_order_with_their_options(surface: Surface) -> None:
    """Durations are seconds or intervals; a job of the batch may wait for another one of it."""
    batch = [
        {"type_name": "note", "input": {"number": 1}, "id": ID, "priority": -3},
        {"type_name": "note", "input": {"number": 2}, "delay": 3600, "queue": None},
        {"type_name": "note", "delay": "1 hour", "expires": 7200},
        {"type_name": "note", "blockers": [ID.upper()]},
        {"type_name": "bulky"},
    ]
    rows = surface.sql("SELECT id, status, outcome FROM {s}.enqueue_many(%s)", json.dumps(batch), role="producer")
    assert [row[1:] for row in rows] == [("pending", "created")] * 3 + [("blocked", "created"), ("pending", "created")]
    jobs = [surface.job(row[0]) for row in rows]
    assert [job.seq for job in jobs] == sorted(job.seq for job in jobs)
    assert [job.queue for job in jobs] == ["default"] * 4 + ["bulk"]
    assert near(jobs[1].ready_at, HOUR)
    assert near(jobs[2].ready_at, HOUR)
    assert near(jobs[2].expires_at, 2 * HOUR)
    assert surface.sql("SELECT * FROM {s}.enqueue_many('[]')") == []
    drain(surface.app, queues=["default"])
    assert surface.job(rows[3][0]).status is Status.COMPLETED


def test_cycles_within_a_batch(surface: Surface) -> None:
    other = ID.replace("0198", "0199")
    batch = [{"type_name": "note", "id": ID, "blockers": [other]}, {"type_name": "note", "id": other, "blockers": [ID]}]
    assert surface.refusal("SELECT {s}.enqueue_many(%s)", json.dumps(batch)) == "HF007"
    keyed = [{"type_name": "note", "id": ID, "dedup": "k"}, {"type_name": "note", "blockers": [ID]}]
    assert surface.refusal("SELECT {s}.enqueue_many(%s)", json.dumps(keyed)) == "HF006"
    assert surface.one("SELECT count(*) FROM {s}.job") == 0


def test_overdue_holder_has_given_up_its_key(surface: Surface) -> None:
    """Nobody started it in time: it is cancelled as expired, and the new chain has the key."""
    old = surface.one("SELECT {s}.enqueue('note', dedup => 'k', expires => now() - interval '1 s')")
    new = surface.one("SELECT {s}.enqueue('note', dedup => 'k')")
    assert new != old
    assert surface.sql("SELECT status, last_attempt_error ->> 'type' FROM {s}.job WHERE id = %s", old) == [
        ("cancelled", "Expired")
    ]
    assert surface.one("SELECT {s}.enqueue('note', dedup => 'k')") == new


def test_heir_that_waits_for_the_overdue_holder(surface: Surface) -> None:
    """It learns that the holder is cancelled by this very enqueue."""
    for policy, status in (("run", "pending"), ("cancel", "cancelled"), ("wait", "blocked")):
        old = surface.one("SELECT {s}.enqueue('note', dedup => %s, expires => now() - interval '1 s')", policy)
        new = surface.one(
            "SELECT {s}.enqueue('note', dedup => %s, blockers => ARRAY[%s::uuid], on_blocker_failure => %s)",
            *(policy, old, policy),
        )
        assert surface.one("SELECT status FROM {s}.job WHERE id = %s", new) == status


def test_sent_again_or_kept_it_needs_no_blockers(surface: Surface) -> None:
    """What is there, under its id or its key, is returned, and what it would have waited for is left alone."""
    blocker = surface.one("SELECT {s}.enqueue('note')")
    job = f"SELECT {{s}}.enqueue('note', id => '{ID}', dedup => 'k', blockers => ARRAY[%s::uuid])"
    assert str(surface.one(job, blocker)) == ID
    surface.sql("UPDATE {s}.job SET is_awaited = false RETURNING id")
    kept = "SELECT {s}.enqueue('note', dedup => 'k', blockers => ARRAY[%s::uuid])"
    assert str(surface.one(kept, blocker)) == ID
    assert surface.one("SELECT count(*) FROM {s}.job WHERE is_awaited") == 0
    surface.sql("DELETE FROM {s}.job_blocker RETURNING job_id")
    surface.sql("DELETE FROM {s}.job WHERE id = %s RETURNING id", blocker)
    assert str(surface.one(job, blocker)) == ID
    other = f"SELECT {{s}}.enqueue('bulky', id => '{ID}', blockers => ARRAY[%s::uuid])"
    assert surface.refusal(other, blocker) == "HF006"


def test_python_and_sql_agree_on_names(surface: Surface) -> None:
    """What one refuses, the other could not ask for: each kind of letter, at the edges of what is printable."""
    kinds = [unicodedata.category(chr(code)) for code in range(sys.maxunicode)]
    # What is not assigned depends on the version of Unicode, and surrogates are no text.
    unprintable = {"Cc", "Cf", "Co", "Zl", "Zp", "Zs"}
    edges = {
        chr(place)
        for code in range(2, sys.maxunicode)
        if kinds[code - 1] != kinds[code] and unprintable & {kinds[code - 1], kinds[code]}
        for place in (code - 1, code)
        if kinds[place] not in ("Cn", "Cs")
    }
    refused = {letter for letter in edges if not letter.isprintable()}
    assert len(refused) > 40
    for letter in refused | {"\t", "\u2003", "\ue123"}:
        assert surface.refusal("SELECT {s}.checked_name('queue', %s)", letter) == "HF006", hex(ord(letter))
    for letter in edges - refused | set("ü漢🙂'\\]^- "):
        assert surface.one("SELECT {s}.checked_name('queue', %s)", letter) == letter


# --- partition keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["order:9182", "k", "ü 漢 🙂", "it's", "x" * 195])
def test_python_and_sql_agree_on_a_key(surface: Surface, key: str) -> None:
    """The bucket, which the ring gives to a worker, and the sub-key of a spread one."""
    surface.enqueue(partition_key=key)
    assert surface.one("SELECT partition_bucket FROM {s}.job") == bucket_of(key)
    for by in ("", "a", "0198c5a0", "ü"):
        for shards in (1, 2, 3, 1000, 1024):
            assert surface.one("SELECT {s}.shard_of(%s, %s, %s)", key, shards, by) == shard_of(key, shards, by)


def test_a_key_keeps_its_order(surface: Surface) -> None:
    """Of a batch and of single enqueues, among jobs with another key and none, and whatever the priority."""
    batch = [
        {"type_name": "note", "input": {"number": number}, "partition_key": "k", "priority": -number}
        for number in range(1, 6)
    ]
    batch.insert(2, {"type_name": "note", "input": {"number": 90}})
    batch.insert(4, {"type_name": "note", "input": {"number": 91}, "partition_key": "other"})
    surface.sql("SELECT {s}.enqueue_many(%s)", json.dumps(batch), role="producer")
    for number in (6, 7):
        surface.sql(
            "SELECT {s}.enqueue('note', jsonb_build_object('number', %s::int), partition_key => 'k')",
            number,
            role="producer",
        )
    with surface.app.client() as client:
        client.enqueue(surface.app.call("note", number=8), partition_key="k")
    assert len(surface.claim("shell", max_jobs=10)) == 3
    surface.sql("SELECT {s}.retire('shell')")
    drain(surface.app)
    numbers = [call["number"] for call in surface.calls]
    assert [number for number in numbers if number < 90] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(numbers)[-2:] == [90, 91]


def test_a_batch_is_held_behind_its_first(surface: Surface) -> None:
    """So that claims do not meet those behind; not serial ones, and not where one may be there already."""

    def held(*options: dict[str, Any]) -> list[bool]:
        batch = [{"type_name": "note", "partition_key": "k", **each} for each in options]
        rows = surface.sql("SELECT id FROM {s}.enqueue_many(%s)", json.dumps(batch))
        return [surface.job(row[0]).held for row in rows]

    assert held({}, {}, {"queue": "other"}, {"ordering": "serial"}, {}) == [False, True, False, False, True]
    surface.sql("DELETE FROM {s}.job")
    assert held({"id": ID}, {}) == [False, False]
    assert held({"dedup": "d"}, {}) == [False, False]


# --- deduplication: the same steps through Python and through SQL end the same ----------------------------------------

Step = tuple[int, dict[str, Any]]
_OF_DEDUP = ("dedup", "dedup_scope", "on_conflict")


def _python(surface: Surface, client: Client, steps: list[Step]) -> list[tuple[str, str]]:
    results = []
    for number, options in steps:
        given = {
            name: value for name, value in options.items() if not name.startswith("dedup") and name != "on_conflict"
        }
        dedup = Dedup(
            options["dedup"],
            scope=options.get("dedup_scope", "unfinished"),
            on_conflict=options.get("on_conflict", "keep"),
        )
        chain: Chain[Any] = client.enqueue(surface.app.call("note", number=number), dedup=dedup, **given)
        results.append((str(chain.status), str(chain.outcome)))
    return results


def _sql(surface: Surface, _: Client, steps: list[Step]) -> list[tuple[str, str]]:
    results = []
    for number, options in steps:
        job = {"type_name": "note", "input": {"number": number}, **options}
        ((status, outcome),) = surface.sql("SELECT status, outcome FROM {s}.enqueue_many(%s)", json.dumps([job]))
        results.append((status, outcome))
    return results


STEPS: dict[str, list[Step]] = {
    "keep": [(1, {"dedup": "k"}), (2, {"dedup": "k"}), (3, {"dedup": "other"})],
    "replace": [
        (1, {"dedup": "k", "delay": 60}),
        (2, {"dedup": "k", "on_conflict": "replace", "priority": 4, "tenant": "t"}),
    ],
    "replace_keep_schedule": [
        (1, {"dedup": "k", "delay": 60}),
        (2, {"dedup": "k", "on_conflict": "replace_keep_schedule"}),
    ],
    "scope pending": [(1, {"dedup": "k", "dedup_scope": "pending"}), (2, {"dedup": "k", "dedup_scope": "pending"})],
    "forever": [(1, {"dedup": "k", "dedup_scope": "forever"}), (2, {"dedup": "k"})],
}
_COMPARED = (
    "input, status, priority, tenant, revision, deduplication_key, deduplication_scope, max_attempts, "
    "scheduled_at > statement_timestamp(), on_blocker_failure, attempt"
)


@pytest.mark.parametrize("is_claimed_between", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_keys_as_in_python(surface: Surface, name: str, is_claimed_between: bool) -> None:
    """Outcomes, statuses and rows are the same, also when the first holder has begun."""
    seen = []
    for way in (_python, _sql):
        for table in ("job", "deduplication"):
            surface.sql(f"DELETE FROM {{s}}.{table}")
        with surface.app.client() as client:
            results = way(surface, client, STEPS[name][:1])
            if is_claimed_between:
                surface.claim()
            results += way(surface, client, STEPS[name][1:])
        seen.append((results, surface.sql(f"SELECT {_COMPARED} FROM {{s}}.job ORDER BY seq")))
    assert seen[0] == seen[1]


def test_reject_names_the_holder(surface: Surface) -> None:
    holder = surface.enqueue(dedup="k")
    with pytest.raises(psycopg.Error) as caught:
        surface.enqueue(dedup="k", on_conflict="reject")
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("HF005", holder)
    batch = [{"type_name": "note", "dedup": "z", "on_conflict": "reject"}] * 2
    assert surface.refusal("SELECT {s}.enqueue_many(%s)", json.dumps(batch)) == "HF005"
    batch = [{"type_name": "note", "dedup": "k"}, {"type_name": "note", "dedup": "k", "on_conflict": "reject"}]
    with pytest.raises(psycopg.Error) as caught:
        surface.sql("SELECT {s}.enqueue_many(%s)", json.dumps(batch))
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("HF005", holder)
    assert surface.one("SELECT count(*) FROM {s}.job") == 1


def test_the_id_of_another_job(surface: Surface) -> None:
    """The same job sent again is kept; an id that another type has is refused."""
    own = surface.enqueue()
    assert surface.enqueue(id=UUID(own)) == own
    with pytest.raises(psycopg.Error, match="id => ") as caught:
        surface.sql("SELECT {s}.enqueue('bulky', id => %s)", own)
    assert (caught.value.sqlstate, "'note'" in str(caught.value.diag.message_hint)) == ("HF006", True)


def test_an_old_holder_gives_way_to_a_window(surface: Surface) -> None:
    first = surface.enqueue(dedup="k")
    assert surface.enqueue(dedup="k", dedup_window="1 hour") == first
    surface.sql("UPDATE {s}.deduplication SET taken_at = taken_at - interval '2 hours'")
    assert surface.enqueue(dedup="k", dedup_window="1 hour") != first


def test_equal_keys_of_a_batch_follow_each_other(surface: Surface) -> None:
    """As if they were sent one after the other; a holder that has begun is superseded."""
    holder = surface.enqueue(dedup="k")
    surface.claim()
    job = {"type_name": "note", "dedup": "k"}
    batch = [{**job, "on_conflict": "replace"}, {**job, "input": {"number": 5}, "on_conflict": "replace"}, job]
    rows = surface.sql("SELECT * FROM {s}.enqueue_many(%s)", json.dumps(batch))
    assert [row[2] for row in rows] == ["created", "replaced", "kept"]
    assert len({row[0] for row in rows}) == 1
    assert str(rows[0][3]) == holder
    assert surface.job(rows[0][0]).input == {"number": 5}


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_many_callers_one_chain(surface: Surface, isolation: str) -> None:
    """Through SQL and through Python at once; stricter levels may refuse with 40001, never make two."""
    ids: list[str] = []
    start = threading.Barrier(8)

    def by_sql() -> None:
        with surface.connect("producer", autocommit=False) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
            start.wait()
            try:
                row = connection.execute(surface.text("SELECT {s}.enqueue('note', dedup => 'k')")).fetchone()
            except psycopg.errors.SerializationFailure:
                return
            assert row is not None
            ids.append(str(row[0]))

    def by_python() -> None:
        with surface.app.client() as client:
            start.wait()
            ids.append(client.enqueue(surface.app.call("note"), dedup="k").id)

    threads = [threading.Thread(target=target) for target in [by_sql] * 6 + [by_python] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(ids)) == 1
    assert surface.one("SELECT count(*) FROM {s}.job") == 1


def test_opposite_batches_do_not_deadlock(surface: Surface) -> None:
    """Keys are taken in their order, whatever the order of the batch."""
    batch = [{"type_name": "note", "dedup": f"k{number}", "on_conflict": "replace"} for number in range(20)]
    failures: list[BaseException] = []

    def send(jobs: list[dict[str, str]]) -> None:
        with surface.connect() as connection:
            try:
                for _ in range(15):
                    connection.execute(surface.text("SELECT {s}.enqueue_many(%s)"), [json.dumps(jobs)])
            except psycopg.Error as error:
                failures.append(error)

    threads = [threading.Thread(target=send, args=[jobs]) for jobs in (batch, batch[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert surface.one("SELECT count(*) FROM {s}.job") == 20


# --- blockers ---------------------------------------------------------------------------------------------------------


def test_blocked_until_done(surface: Surface) -> None:
    """In the order given; an ended one does not count."""
    first, second = surface.enqueue(), surface.enqueue()
    waiting = surface.enqueue(blockers=[UUID(second), UUID(first)])
    assert surface.job(waiting).status is Status.BLOCKED
    order = surface.sql("SELECT blocked_by_chain_id FROM {s}.job_blocker WHERE job_id = %s ORDER BY index", waiting)
    assert [str(row[0]) for row in order] == [second, first]
    for _ in range(2):
        assert surface.job(waiting).status is Status.BLOCKED
        surface.sql("SELECT {s}.complete(%s, %s)", *surface.claim_one())
    assert surface.job(waiting).status is Status.PENDING
    late = surface.enqueue(blockers=[UUID(first)])
    assert surface.job(late).status is Status.PENDING


@pytest.mark.parametrize(("choice", "status"), [("wait", "blocked"), ("run", "pending"), ("cancel", "cancelled")])
@pytest.mark.parametrize("is_late", [False, True])
def test_when_a_blocker_fails(surface: Surface, choice: str, status: str, is_late: bool) -> None:
    """Whether it failed before the enqueue or after."""
    blocker = surface.enqueue("broken")
    if not is_late:
        waiting = surface.enqueue(blockers=[UUID(blocker)], on_blocker_failure=choice)
    job_id, generation = surface.claim_one()
    assert surface.one("SELECT {s}.fail(%s, %s, 'no')", job_id, generation) == "dead_letter"
    if is_late:
        waiting = surface.enqueue(blockers=[UUID(blocker)], on_blocker_failure=choice)
    assert surface.job(waiting).status == status


def test_a_blocker_that_ends_meanwhile_strands_nobody(surface: Surface) -> None:
    """An enqueue that comes while the blocker's completion has not committed waits for it, and sees it."""
    blocker = surface.enqueue()
    job_id, generation = surface.claim_one()
    done: list[str] = []
    with surface.connect(autocommit=False) as ending:
        ending.execute(surface.text("SELECT {s}.complete(%s, %s)"), [job_id, generation])
        thread = threading.Thread(target=lambda: done.append(_enqueue_behind(surface, blocker)))
        thread.start()
        wait_for(surface.is_somebody_waiting, "the enqueue waits")
        assert done == []
        ending.commit()
        thread.join(30)
    assert surface.job(done[0]).status is Status.PENDING


def test_an_enqueue_that_came_first_is_told(surface: Surface) -> None:
    """The completion waits for the enqueue's commit, and then sees who waits."""
    blocker = surface.enqueue()
    job_id, generation = surface.claim_one()
    with surface.connect(autocommit=False) as enqueuing:
        text = surface.text("SELECT {s}.enqueue('note', blockers => ARRAY[%s]::uuid[])")
        row = enqueuing.execute(text, [blocker]).fetchone()
        assert row is not None
        thread = threading.Thread(target=lambda: _complete(surface, job_id, generation))
        thread.start()
        wait_for(surface.is_somebody_waiting, "the completion waits")
        enqueuing.commit()
        thread.join(30)
    assert surface.job(row[0]).status is Status.PENDING


def _enqueue_behind(surface: Surface, blocker: str) -> str:
    with surface.connect() as connection:
        text = surface.text("SELECT {s}.enqueue('note', blockers => ARRAY[%s]::uuid[])")
        row = connection.execute(text, [blocker]).fetchone()
        assert row is not None
        return str(row[0])


def _complete(surface: Surface, job_id: str, generation: int) -> None:
    with surface.connect() as connection:
        connection.execute(surface.text("SELECT {s}.complete(%s, %s)"), [job_id, generation])
