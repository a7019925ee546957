"""The verbs of people as a client offers them: ids, filters, transactions, bad input."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, ControlResult, Dedup, JobFilter, JobHandle, Progress
from holdfast.errors import BatchRefused, ChainNeeded, InvalidOption
from holdfast.model.ids import new_id
from holdfast.operations import find_targets
from holdfast.testing import adrain
from tests.conformance.client.conftest import Place, settled


def _fail(app: App) -> JobHandle[..., Any]:
    def fail(order: int) -> None:
        raise ValueError(order)

    return app.job(queue="bad")(fail)


def _send(app: App) -> JobHandle[..., Any]:
    def send(order: int) -> int:
        return order

    return app.job(queue="mail")(send)


def _outcomes(results: list[ControlResult]) -> list[str]:
    return [result.outcome.value for result in results]


async def _statuses(place: Place) -> list[str]:
    return [job.status.value for job in await place.jobs()]


class Promises:
    """The same on both databases and both faces."""

    async def test_what_names_a_chain(self, place: Place) -> None:
        """A chain, its id in any spelling, a job, or a list of all these; one result each, in that order."""
        send = _send(place.app)
        chains = await settled(place.client.enqueue_many([send.call(n) for n in range(5)]))
        job = await settled(place.client.get_job(chains[3].id))
        named = [chains[0], chains[1].id.upper(), uuid.UUID(chains[2].id), job]
        results = await settled(place.client.cancel(named))
        assert [result.id for result in results] == [chain.id for chain in chains[:4]]
        assert _outcomes(results) == ["cancelled"] * 4
        assert all(result.is_done for result in results)
        alone = await settled(place.client.cancel(chains[4]))
        assert [(result.id, result.outcome) for result in alone] == [(chains[4].id, "cancelled")]
        assert await settled(place.client.cancel([])) == []

    async def test_one_job(self, place: Place) -> None:
        """`job=` means this one and no other."""
        chain = await settled(place.client.enqueue(_send(place.app).call(1)))
        (result,) = await settled(place.client.reschedule(job=chain.id, delay=60))
        assert (result.outcome, result.job_id) == ("rescheduled", chain.id)
        job = await settled(place.client.get_job(chain.id))
        assert _outcomes(await settled(place.client.cancel(job=job))) == ["cancelled"]

    async def test_a_life_with_people(self, place: Place) -> None:
        """Dead letter, retried, dead again, retried and cancelled, deleted; all of it on record."""
        fail = _fail(place.app)
        chain = await settled(place.client.enqueue(fail.call(7), max_attempts=1))
        for _ in range(2):
            await adrain(place.app)
            assert await _statuses(place) == ["dead_letter"]
            assert _outcomes(await settled(place.client.retry(chain, actor="ada"))) == ["retried"]
        assert _outcomes(await settled(place.client.cancel(chain, reason="enough", actor="ada"))) == ["cancelled"]
        assert (await place.jobs())[0].last_attempt_error.message == "enough"
        assert _outcomes(await settled(place.client.delete_chains(chain, actor="bob"))) == ["deleted"]
        assert await place.jobs() == []
        assert _audit(place) == [
            ("ada", "retry", "retried"),
            ("ada", "retry", "retried"),
            ("ada", "cancel", "cancelled"),
            ("bob", "delete", "deleted"),
        ]

    async def test_reschedule(self, place: Place) -> None:
        """To now it runs; a naive time is refused."""
        send = _send(place.app)
        chain = await settled(place.client.enqueue(send.call(1), delay=3600))
        assert (await adrain(place.app)).completed == 0
        await settled(place.client.reschedule(chain, at=datetime(2020, 1, 1, tzinfo=UTC)))
        assert (await adrain(place.app)).completed == 1
        (result,) = await settled(place.client.reschedule(chain, delay=timedelta(hours=1)))
        assert (result.outcome, result.is_done) == ("wrong_status", False)

    async def test_remove(self, place: Place) -> None:
        """By the job type or its name; returns the one result."""
        send = _send(place.app)
        chain = await settled(place.client.enqueue(send.call(1), dedup=Dedup("a", scope="forever")))
        result = await settled(place.client.remove(send, "a", actor="ada"))
        assert (result.id, result.outcome) == (chain.id, "removed")
        assert (await settled(place.client.remove("send", "a"))).outcome == "not_found"
        assert await place.jobs() == []

    async def test_delete_names_who_waits(self, place: Place) -> None:
        """Refused while somebody waits; together they go."""
        send = _send(place.app)
        first = await settled(place.client.enqueue(send.call(1)))
        second = await settled(place.client.enqueue(send.call(2), blockers=[first]))
        with pytest.raises(ChainNeeded, match=second.id):
            await settled(place.client.delete_chains([first]))
        assert len(await place.jobs()) == 2
        results = await settled(place.client.delete_chains(second, cascade=True))
        assert [(result.id, result.outcome) for result in results] == [(second.id, "deleted"), (first.id, "deleted")]

    async def test_strict(self, place: Place) -> None:
        """One bad id: nothing is changed, and the error names it."""
        chain = await settled(place.client.enqueue(_send(place.app).call(1)))
        nobody = new_id()
        with pytest.raises(BatchRefused, match=nobody) as caught:
            await settled(place.client.cancel([chain, nobody], strict=True))
        assert list(caught.value.refused) == [nobody]
        assert await _statuses(place) == ["pending"]
        assert _audit(place) == []

    @pytest.mark.parametrize("is_committed", [True, False])
    async def test_in_the_callers_transaction(self, place: Place, is_committed: bool) -> None:
        """It happens if and only if that commits; a refusal leaves the transaction usable and nothing behind."""
        send = _send(place.app)
        chains = await settled(place.client.enqueue_many([send.call(n) for n in range(4)]))
        keyed = await settled(place.client.enqueue(send.call(4), dedup="k"))
        await settled(place.client.cancel(chains[1]))
        waiting = await settled(place.client.enqueue(send.call(5), blockers=[chains[3]]))
        connection = await place.connect()
        try:
            with pytest.raises(BatchRefused):
                await settled(place.client.retry([chains[1], chains[0]], strict=True, tx=connection))
            with pytest.raises(ChainNeeded, match=waiting.id):
                await settled(place.client.delete_chains(chains[3], tx=connection))
            assert _outcomes(await settled(place.client.cancel(chains[0], tx=connection))) == ["cancelled"]
            assert _outcomes(await settled(place.client.retry(chains[1], tx=connection))) == ["retried"]
            await settled(place.client.reschedule(chains[2], delay=60, tx=connection))
            assert (await settled(place.client.remove(send, "k", tx=connection))).outcome == "removed"
            await settled(place.client.delete_chains(waiting, tx=connection))
            by_filter = await settled(place.client.cancel(JobFilter(ids=chains[2].id), tx=connection))
            assert _outcomes(by_filter) == ["cancelled"]
            await settled(connection.commit() if is_committed else connection.rollback())
        finally:
            await settled(connection.close())
        jobs = {job.id: job.status.value for job in await place.jobs()}
        if is_committed:
            assert [jobs.get(chain.id) for chain in chains] == ["cancelled", "pending", "cancelled", "pending"]
            assert (keyed.id in jobs, waiting.id in jobs) == (False, False)
        else:
            assert [jobs.get(chain.id) for chain in chains] == ["pending", "cancelled", "pending", "pending"]
            assert (jobs[keyed.id], jobs[waiting.id]) == ("pending", "blocked")
        assert len(_audit(place)) == (1 + 6 if is_committed else 1)

    async def test_filters(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each job that the filter means and the verb is for, in batches, in order of enqueue; the others never."""
        monkeypatch.setattr(find_targets, "BATCH", 4)
        monkeypatch.setattr(find_targets, "STRETCH", 7)
        send, fail = _send(place.app), _fail(place.app)
        mail = await settled(place.client.enqueue_many([send.call(n) for n in range(10)]))
        bad = await settled(place.client.enqueue_many([fail.call(n) for n in range(10)], max_attempts=1))
        await adrain(place.app, queues=["bad"])
        more = await settled(place.client.enqueue_many([send.call(n) for n in range(10)]))
        seen: list[Progress] = []
        results = await settled(place.client.cancel(JobFilter(queue="mail"), progress=seen.append))
        assert [result.id for result in results] == [chain.id for chain in [*mail, *more]]
        assert set(_outcomes(results)) == {"cancelled"}
        assert [step.done for step in seen] == sorted(step.done for step in seen)
        assert (seen[-1].done, seen[-1].share) == (20, 1.0)
        assert len(seen) > 5
        # Neither what is pending nor what was cancelled is a dead letter.
        results = await settled(place.client.retry(JobFilter(status="dead_letter")))
        assert [result.id for result in results] == [chain.id for chain in bad]
        results = await settled(place.client.reschedule(JobFilter(type_name="fail"), delay=60))
        assert _outcomes(results) == ["rescheduled"] * 10
        results = await settled(place.client.delete_chains(JobFilter(status="cancelled")))
        assert [result.id for result in results] == [chain.id for chain in [*mail, *more]]
        assert [job.id for job in await place.jobs()] == [chain.id for chain in bad]
        assert await settled(place.client.retry(JobFilter(status="pending"))) == []

    async def test_chains_of_a_filter(self, place: Place) -> None:
        """Needed ones are left alone and reported; by ids, chains are named."""
        send = _send(place.app)
        first, second = await settled(place.client.enqueue_many([send.call(1), send.call(2)]))
        waiting = await settled(place.client.enqueue(send.call(3), blockers=[first], queue="other"))
        results = await settled(place.client.delete_chains(JobFilter(queue="mail")))
        assert _outcomes(results) == ["deleted", "needed"]
        assert waiting.id in (results[1].why or "")
        assert [job.id for job in await place.jobs()] == [first.id, waiting.id]
        assert second.id not in {job.id for job in await place.jobs()}
        results = await settled(place.client.delete_chains(JobFilter(ids=[waiting.id]), cascade=True))
        assert [result.id for result in results] == [waiting.id, first.id]

    @pytest.mark.parametrize(
        ("mistake", "words"),
        [
            (lambda client, chain: client.cancel(), "chains"),
            (lambda client, chain: client.cancel(chain, job=chain.id), "job="),
            (lambda client, chain: client.cancel("17"), "id="),
            (lambda client, chain: client.cancel([chain, None]), "id="),
            (lambda client, chain: client.cancel(7), "chains"),
            (lambda client, chain: client.cancel(job=[chain.id]), "job"),
            (lambda client, chain: client.cancel(JobFilter()), "every job there is"),
            (lambda client, chain: client.cancel(JobFilter(queue="mail"), strict=True), "strict"),
            (lambda client, chain: client.cancel(chain, reason="a\x00"), "reason"),
            (lambda client, chain: client.cancel(chain, reason="\ud800"), "reason"),
            (lambda client, chain: client.cancel(chain, reason=""), "reason"),
            (lambda client, chain: client.cancel(chain, actor="\n"), "actor"),
            (lambda client, chain: client.reschedule(chain), "at="),
            (lambda client, chain: client.reschedule(chain, delay=-1), "delay"),
            (lambda client, chain: client.reschedule(chain, at=datetime(2026, 1, 1)), "time zone"),  # noqa: DTZ001 - the mistake
            (lambda client, chain: client.reschedule(chain, at=datetime.now(UTC), delay=1), "at="),
            (lambda client, chain: client.remove("", "k"), "job_type"),
            (lambda client, chain: client.remove("send", ""), "dedup"),
            (lambda client, chain: client.delete_chains(None), "chains"),
            (lambda client, chain: client.delete_chains(JobFilter()), "every job there is"),
        ],
    )
    async def test_bad_input(self, place: Place, mistake: Callable[[Any, Any], Any], words: str) -> None:
        """A typed error that names the value, before anything is sent."""
        chain = await settled(place.client.enqueue(_send(place.app).call(1)))
        with pytest.raises(InvalidOption) as caught:
            await settled(mistake(place.client, chain))
        assert words in str(caught.value)
        assert (await _statuses(place), _audit(place)) == (["pending"], [])


def _audit(place: Place) -> list[tuple[str, ...]]:
    """Actor, verb and outcome of every entry."""
    text = "SELECT actor, verb, outcome FROM {} ORDER BY seq"
    if place.app.store.dialect == "postgres":
        with psycopg.connect(place.url) as connection:
            return connection.execute(text.format("holdfast.audit").encode()).fetchall()
    with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"))) as file:
        return file.execute(text.format("holdfast_audit")).fetchall()


class TestSqlite(Promises):
    """Jobs in a file."""

    @pytest.fixture
    def place(self, sqlite_place: Place) -> Place:
        return sqlite_place


class TestPostgres(Promises):
    """Jobs in each PostgreSQL that is installed."""

    @pytest.fixture
    def place(self, postgres_place: Place) -> Place:
        return postgres_place


async def test_what_is_locked_is_come_back_to(postgres_place: Place) -> None:
    """A filter passes by what somebody has locked, finishes the rest, and tries it again in the end."""
    place = postgres_place
    chains = await settled(place.client.enqueue_many([_send(place.app).call(n) for n in range(20)]))
    reports: list[int] = []
    with psycopg.connect(place.url) as user:
        user.execute("SELECT FROM holdfast.job WHERE id = %s FOR UPDATE", [chains[3].id])

        def release_in_the_end(progress: Progress) -> None:
            reports.append(progress.done)
            done = place.app.shared_client.list_jobs(status="cancelled").items
            assert len(done) in {19, 20}
            user.rollback()

        results = await settled(place.client.cancel(JobFilter(queue="mail"), progress=release_in_the_end))
    assert reports == [20, 20]
    assert sorted(result.id for result in results) == sorted(chain.id for chain in chains)
    assert results[-1].id == chains[3].id
    assert _outcomes(results) == ["cancelled"] * 20


async def test_what_stays_locked_is_reported(postgres_place: Place) -> None:
    """Nobody waits for ever for somebody's open transaction."""
    place = postgres_place
    chains = await settled(place.client.enqueue_many([_send(place.app).call(n) for n in range(3)]))
    with psycopg.connect(place.url) as user:
        user.execute("SELECT FROM holdfast.job WHERE id = %s FOR UPDATE", [chains[1].id])
        results = await settled(place.client.cancel(JobFilter(queue="mail")))
    assert [(result.id, result.outcome) for result in results] == [
        (chains[0].id, "cancelled"),
        (chains[2].id, "cancelled"),
        (chains[1].id, "locked"),
    ]
