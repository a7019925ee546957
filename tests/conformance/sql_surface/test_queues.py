"""Queues paused and limited by SQL, and workers in SQL that keep to it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.conformance.sql_surface.conftest import Surface


def audit(surface: Surface) -> list[tuple[object, ...]]:
    return [tuple(row) for row in surface.sql("SELECT verb, outcome, detail ->> 'queue' FROM {s}.audit ORDER BY seq")]


def test_pause_and_resume(surface: Surface) -> None:
    """Nothing is claimed in between, and everybody sees who did it."""
    job_id = surface.enqueue()
    assert surface.one("SELECT {s}.pause_queue('default', reason => 'deploy')") == "paused"
    assert surface.claim() == []
    with surface.app.client() as client:
        (queue,) = [each for each in client.queues.list() if each.name == "default"]
        assert (queue.paused_by, queue.pause_reason) == ("postgres", "deploy")
    assert surface.one("SELECT {s}.resume_queue('default')") == "resumed"
    assert surface.one("SELECT {s}.resume_queue('default')") == "not_paused"
    assert surface.claim_one() == (job_id, 1)
    assert audit(surface) == [
        ("pause_queue", "paused", "default"),
        ("resume_queue", "resumed", "default"),
        ("resume_queue", "not_paused", "default"),
    ]


def test_a_pause_ends_by_itself(surface: Surface) -> None:
    """At its time."""
    surface.enqueue()
    surface.sql("SELECT {s}.pause_queue('default', statement_timestamp() + interval '300 milliseconds')")
    assert surface.claim() == []
    surface.sql("SELECT pg_sleep(0.4)")
    assert len(surface.claim()) == 1


def test_a_paused_queue_beside_others(surface: Surface) -> None:
    """Those give out their jobs, suspects too."""
    surface.enqueue()
    suspect = surface.enqueue(queue="other")
    surface.sql("UPDATE {s}.job SET crash_count = 1 WHERE id = %s", suspect)
    surface.sql("SELECT {s}.pause_queue('default')")
    assert [str(job["id"]) for job in surface.claim(queues=["default", "other"])] == [suspect]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("pause_queue('')", "queue"),
        ("pause_queue(NULL)", "queue"),
        ("pause_queue('q', now() - interval '1 second')", "resume_at"),
        ("pause_queue('q', 'infinity')", "resume_at"),
        ("resume_queue(NULL)", "queue"),
        ("limit_queue('q', key_concurrency => 0)", "key_concurrency"),
        ("limit_queue('q', key_rate => 'NaN')", "key_rate"),
        ("limit_queue('q', key_burst => 3)", "key_burst"),
        ("limit_queue('q', concurrency => 0)", "concurrency"),
        ("limit_queue('q', rate => 0)", "rate"),
        ("limit_queue('q', rate => 'NaN')", "rate"),
        ("limit_queue('q', rate => 1, burst => 0)", "burst"),
        ("limit_queue('q', burst => 5)", "burst"),
    ],
)
def test_bad_input(surface: Surface, call: str, what: str) -> None:
    """Named, and nothing is written."""
    with pytest.raises(psycopg.Error, match=what) as raised:
        surface.sql(f"SELECT {{s}}.{call}")
    assert raised.value.sqlstate == "HF006"
    assert surface.one("SELECT count(*) FROM {s}.queue") == 0


def test_limits_are_kept_by_workers_in_sql(surface: Surface) -> None:
    """Over all of them, whatever they ask for; what has ended is there for the next."""
    for _ in range(8):
        surface.enqueue()
    assert surface.one("SELECT {s}.limit_queue('default', concurrency => 3)") == "limited"
    first = surface.claim("w1", max_jobs=2)
    second = surface.claim("w2", max_jobs=5)
    assert (len(first), len(second), surface.claim("w3", max_jobs=5)) == (2, 1, [])
    surface.sql("SELECT {s}.complete(%s, 1)", first[0]["id"])
    assert len(surface.claim("w1", max_jobs=5)) == 1
    surface.sql("SELECT {s}.retire('w1')")
    assert len(surface.claim("w3", max_jobs=5)) == 2
    surface.sql("SELECT {s}.limit_queue('default')")
    assert len(surface.claim("w2", max_jobs=2)) == 2


def test_limited_queues_beside_others(surface: Surface) -> None:
    """Each gives as much as it may, and no more than was asked for."""
    for queue in ("a", "b", "c"):
        for _ in range(4):
            surface.enqueue(queue=queue)
    surface.sql("SELECT {s}.limit_queue('a', concurrency => 1)")
    surface.sql("SELECT {s}.limit_queue('b', concurrency => 2)")
    claimed = surface.claim("w1", queues=["a", "b", "c"], max_jobs=6)
    assert len(claimed) == 6
    claimed += surface.claim("w2", queues=["a", "b", "c"], max_jobs=6)
    assert Counter(job["queue"] for job in claimed) == {"a": 1, "b": 2, "c": 4}
    assert surface.claim("w2", queues=["a"]) == []


def test_no_queue_leaves_nothing_to_the_others(surface: Surface) -> None:
    """Neither a limited one nor one that is fair by tenant nor a plain one, each with more than is asked for."""
    surface.sql("SELECT {s}.limit_queue('limited', concurrency => 100)")
    surface.sql("SELECT {s}.limit_queue('fair', fair_by => 'tenant')")
    enqueue = "SELECT {s}.enqueue('note', queue => %s, tenant => %s) FROM generate_series(1, 60)"
    for queue, tenant in (("fair", "a"), ("fair", "b"), ("limited", None), ("plain", None), ("simple", None)):
        surface.sql(enqueue, queue, tenant)
    everywhere = ["limited", "fair", "plain", "simple"]
    served = Counter((job["queue"], job["tenant"]) for _ in range(60) for job in surface.claim(queues=everywhere))
    # By lot: a quarter and a half of 60 on average.
    assert served["limited", None] >= 1
    assert served["plain", None] + served["simple", None] >= 5
    assert min(served["fair", "a"], served["fair", "b"]) >= 1
    assert abs(served["fair", "a"] - served["fair", "b"]) <= 1


def test_a_suspect_of_a_limited_queue(surface: Surface) -> None:
    """Needs a share as any job does."""
    suspect = surface.enqueue()
    surface.sql("UPDATE {s}.job SET crash_count = 1 WHERE id = %s", suspect)
    surface.enqueue(priority=-1)
    surface.sql("SELECT {s}.limit_queue('default', concurrency => 1)")
    assert [str(job["id"]) for job in surface.claim("w1", max_jobs=5)] == [suspect]
    assert surface.claim("w2", max_jobs=5) == []


def test_a_rate_is_for_workers_that_can_save_up(surface: Surface) -> None:
    """Workers in SQL get nothing of such a queue, rather than too much."""
    surface.enqueue()
    surface.sql("SELECT {s}.limit_queue('default', rate => 100)")
    assert surface.claim() == []


def test_racing_claims(surface: Surface) -> None:
    """Eight at once, again and again, and never more than the limit runs."""
    for _ in range(60):
        surface.enqueue()
    surface.sql("SELECT {s}.limit_queue('default', concurrency => 5)")

    def work(number: int) -> int:
        most = 0
        for _ in range(6):
            claimed = surface.claim(f"w{number}", max_jobs=3)
            with psycopg.connect(surface.url, autocommit=True) as connection:
                text = surface.text("SELECT count(*) FROM {s}.job WHERE status = 'running'")
                ((running,),) = connection.execute(text).fetchall()
                most = max(most, running)
                for job in claimed:
                    connection.execute(
                        surface.text("SELECT {s}.complete(%s, %s)"), [job["id"], job["lease_generation"]]
                    )
        return most

    with ThreadPoolExecutor(8) as threads:
        assert 1 <= max(threads.map(work, range(8))) <= 5


def test_limits_of_keys_are_kept_by_workers_in_sql(surface: Surface) -> None:
    """One call gets past all that may not start, to what may."""
    surface.sql("SELECT {s}.limit_queue('default', key_concurrency => 1)")
    first, *others = [surface.enqueue(concurrency_key="k") for _ in range(20)]
    free = surface.enqueue()
    assert [str(job["id"]) for job in surface.claim(max_jobs=1)] == [first]
    assert [str(job["id"]) for job in surface.claim(max_jobs=1)] == [free]
    assert surface.claim(max_jobs=1) == []
    surface.sql("SELECT {s}.complete(%s, 1)", first)
    assert [str(job["id"]) for job in surface.claim(max_jobs=1)] == others[:1]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_nothing_limited_without_a_fresh_look(surface: Surface, level: str) -> None:
    """Of a limited key nothing comes, rather than too much; it is not put aside either. All others come."""
    surface.sql("SELECT {s}.limit_queue('default', key_concurrency => 1)")
    limited = [surface.enqueue(concurrency_key="k") for _ in range(2)]
    free = surface.enqueue()
    with surface.connect(autocommit=False) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        claimed = connection.execute(surface.text("SELECT id FROM {s}.claim('w1', max_jobs => 5)")).fetchall()
    assert [str(job_id) for (job_id,) in claimed] == [free]
    assert surface.one("SELECT count(*) FROM {s}.job WHERE held") == 0
    assert [str(job["id"]) for job in surface.claim("w2", max_jobs=5)] == limited[:1]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_no_permit_is_dealt_twice(surface: Surface, level: str) -> None:
    """Whose snapshot is older than another's claim gets nothing of a limited queue, rather than too much."""
    surface.sql("SELECT {s}.limit_queue('default', concurrency => 2)")
    for _ in range(6):
        surface.enqueue()
    free = surface.enqueue(queue="mail")
    with surface.connect(autocommit=False) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        connection.execute(surface.text("SELECT count(*) FROM {s}.queue"))  # its snapshot
        # More urgent ones that it cannot see: otherwise it would stumble over the jobs, and not over the permits.
        for _ in range(2):
            surface.enqueue(priority=-1)
        assert len(surface.claim("w1", max_jobs=2)) == 2
        claimed = connection.execute(
            surface.text("SELECT id FROM {s}.claim('w2', '{default,mail}', max_jobs => 5)")
        ).fetchall()
    assert [str(job_id) for (job_id,) in claimed] == [free]
    assert surface.one("SELECT count(*) FROM {s}.job WHERE status = 'running' AND queue = 'default'") == 2
    surface.sql("SELECT {s}.retire('w1')")
    assert len(surface.claim("w2", max_jobs=5)) == 2


def fair(surface: Surface, tenants: dict[str | None, int]) -> None:
    surface.sql("SELECT {s}.limit_queue('default', fair_by => 'tenant')")
    for tenant, count in tenants.items():
        for _ in range(count):
            surface.enqueue(tenant=tenant)


def test_tenants_take_turns(surface: Surface) -> None:
    """Within a claim, and from claim to claim, each of which has a connection of its own."""
    fair(surface, {"a": 20, "b": 5, "c": 5})
    assert Counter(job["tenant"] for job in surface.claim(max_jobs=6)) == {"a": 2, "b": 2, "c": 2}
    turns = [surface.claim()[0]["tenant"] for _ in range(9)]
    assert turns == ["a", "b", "c"] * 3
    assert {job["tenant"] for job in surface.claim(max_jobs=10)} == {"a"}


def test_every_worker_and_queue_has_its_own_turns(surface: Surface) -> None:
    """What one has been given does not take the turn from another."""
    fair(surface, {"a": 4, "b": 4})
    surface.sql("SELECT {s}.limit_queue('mail', fair_by => 'tenant')")
    for tenant in ("a", "a", "b"):
        surface.enqueue(tenant=tenant, queue="mail")
    assert surface.claim("w1")[0]["tenant"] == "a"
    assert surface.claim("w2")[0]["tenant"] == "a"
    assert surface.claim("w1", queues=["mail"])[0]["tenant"] == "a"
    assert surface.claim("w1")[0]["tenant"] == "b"
    assert surface.claim("w1", queues=["mail"])[0]["tenant"] == "b"


def test_many_tenants_take_turns(surface: Surface) -> None:
    """More than are looked at in one go: everybody before anybody comes again."""
    fair(surface, {f"t{number:02}": 2 for number in range(40)})
    served = [job["tenant"] for _ in range(4) for job in surface.claim(max_jobs=10)]
    assert len(set(served)) == 40
    assert len({job["tenant"] for _ in range(4) for job in surface.claim(max_jobs=10)}) == 40


def test_jobs_without_a_tenant_are_one_more(surface: Surface) -> None:
    """About a third beside two tenants; and who comes between does not take a tenant's turn."""
    fair(surface, {"a": 30, "b": 30, None: 30})
    served = [job["tenant"] for _ in range(60) for job in surface.claim()]
    assert 5 <= served.count(None) <= 30
    assert abs(served.count("a") - served.count("b")) <= 1


def test_somebody_else_took_the_key_meanwhile(surface: Surface) -> None:
    """A job with a lower place is committed late: its claim waits for the other one's, and then gets nothing."""
    with surface.connect(autocommit=False) as late, surface.connect(autocommit=False) as claimer:
        late.execute(surface.text("SELECT {s}.enqueue('note', partition_key => 'k')"))
        second = surface.enqueue(partition_key="k")
        ((claimed,),) = claimer.execute(surface.text("SELECT id FROM {s}.claim('w1')")).fetchall()
        assert str(claimed) == second
        late.commit()
        with ThreadPoolExecutor(1) as threads:
            racing = threads.submit(surface.claim, "w2")
            while not surface.is_somebody_waiting():
                assert not racing.done(), racing.result()
            claimer.commit()
            assert racing.result() == []
    surface.sql("SELECT {s}.complete(%s, 1)", second)
    assert len(surface.claim("w2")) == 1


def test_a_suspect_that_may_not_run_hides_nothing(surface: Surface) -> None:
    """Neither other suspects, which come first, nor what else there is."""
    surface.sql("SELECT {s}.limit_queue('default', key_concurrency => 1)")
    runs = surface.enqueue(concurrency_key="c")
    assert [str(job["id"]) for job in surface.claim("w0")] == [runs]
    front = surface.enqueue(partition_key="k", delay="1 hour")
    suspects = [surface.enqueue(partition_key="k"), surface.enqueue(concurrency_key="c"), surface.enqueue()]
    plain = surface.enqueue()
    for suspect in suspects:
        surface.sql("UPDATE {s}.job SET crash_count = 1 WHERE id = %s", suspect)
    with surface.connect(autocommit=False) as connection:
        connection.execute(surface.text("SELECT FROM {s}.job WHERE id = %s FOR UPDATE"), [front])
        assert [str(job["id"]) for job in surface.claim("w1", max_jobs=5)] == suspects[2:]
        assert [str(job["id"]) for job in surface.claim("w2", max_jobs=5)] == [plain]
