"""Verbs of people against enqueues and claims, step by step: who comes second waits, and sees what the first has done.

On SQLite nobody can be between two steps of another: there is one writer at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from holdfast import App, Chain, Client, Dedup, JobFilter, JobHandle
from holdfast.errors import ChainNeeded, ChainNotFound, WrongIsolation
from tests.conformance.backdoors import PostgresBackdoor

_PATIENCE = 20.0
_WAITING = """SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid)
              WHERE datname = current_database() AND NOT granted"""
_ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


@dataclass
class Scene:
    """A client, a user's open transaction, and somebody in another thread."""

    client: Client
    send: JobHandle[..., Any]
    user: psycopg.Connection[Any]
    onlooker: psycopg.Connection[Any]
    threads: ThreadPoolExecutor

    def waiting(self, action: Callable[[], Any]) -> Future[Any]:
        """Start it in another thread, and return once it waits for a lock."""
        future = self.threads.submit(action)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and not future.done():
            if self.onlooker.execute(_WAITING).fetchone() != (0,):
                return future
            threading.Event().wait(0.01)
        raise AssertionError(f"it did not wait: {future}")

    def enqueue(self, order: int, **options: Any) -> Chain[Any]:
        """On a transaction of the caller's, whose conflicts nobody repeats."""
        with psycopg.connect(self.user.info.dsn) as other:
            return self.client.enqueue(self.send.call(order), tx=other, **options)

    def end(self, how: str) -> None:
        self.user.commit() if how == "commit" else self.user.rollback()

    def status(self, job_id: str) -> str | None:
        job = self.client.find_job(job_id)
        return None if job is None else job.status.value

    def dead_letter(self, **options: Any) -> str:
        chain = self.client.enqueue(self.send.call(1), **options)
        self.client.cancel(chain)
        return chain.id


@pytest.fixture
def scene(postgres_database: tuple[str, PostgresBackdoor]) -> Iterator[Scene]:
    url, _ = postgres_database
    app = App(url, notify=False)

    @app.job()
    def send(order: int) -> None: ...

    with (
        app.client() as client,
        psycopg.connect(url) as user,
        psycopg.connect(url, autocommit=True) as onlooker,
        ThreadPoolExecutor() as threads,
    ):
        yield Scene(client, send, user, onlooker, threads)
        user.rollback()
    app.close()


@_ENDS
def test_claim_first(scene: Scene, end: str) -> None:
    """A cancel waits for a claim that is under way: then the job runs and is asked, or waits and is cancelled."""
    chain = scene.client.enqueue(scene.send.call(1))
    scene.user.execute(
        "UPDATE holdfast.job SET status = 'running', leased_by = 'w', leased_until = now(), lease_generation = 1"
    )
    cancelling = scene.waiting(lambda: scene.client.cancel(chain))
    scene.end(end)
    (result,) = cancelling.result(_PATIENCE)
    is_claimed = end == "commit"
    assert result.outcome == ("requested" if is_claimed else "cancelled")
    assert scene.status(chain.id) == ("running" if is_claimed else "cancelled")


@_ENDS
def test_retry_first(scene: Scene, end: str) -> None:
    """An enqueue with the key waits for a retry that may take it."""
    dead = scene.dead_letter(dedup="k")
    (result,) = scene.client.retry(dead, tx=scene.user)
    assert result.outcome == "retried"
    enqueueing = scene.waiting(lambda: scene.client.enqueue(scene.send.call(2), dedup="k"))
    scene.end(end)
    chain = enqueueing.result(_PATIENCE)
    assert (chain.id == dead) is (end == "commit")
    assert scene.status(dead) == ("pending" if end == "commit" else "cancelled")


@_ENDS
def test_enqueue_first(scene: Scene, end: str) -> None:
    """A retry waits for an enqueue that may take its key."""
    dead = scene.dead_letter(dedup="k")
    chain = scene.client.enqueue(scene.send.call(2), dedup="k", tx=scene.user)
    retrying = scene.waiting(lambda: scene.client.retry(dead))
    scene.end(end)
    (result,) = retrying.result(_PATIENCE)
    assert result.outcome == ("key_taken" if end == "commit" else "retried")
    assert scene.status(dead) == ("cancelled" if end == "commit" else "pending")
    assert scene.status(chain.id) == ("pending" if end == "commit" else None)


@_ENDS
def test_enqueue_of_a_forgotten_key_first(scene: Scene, end: str) -> None:
    """As before, where the key has no row that a retry could lock."""
    dead = scene.dead_letter(dedup="k")
    scene.onlooker.execute("DELETE FROM holdfast.deduplication")
    scene.client.enqueue(scene.send.call(2), dedup="k", tx=scene.user)
    retrying = scene.waiting(lambda: scene.client.retry(dead))
    scene.end(end)
    (result,) = retrying.result(_PATIENCE)
    assert result.outcome == ("key_taken" if end == "commit" else "retried")


@_ENDS
def test_deletion_first(scene: Scene, end: str) -> None:
    """An enqueue behind a chain waits for its deletion: then there is nothing to wait for, or it waits."""
    blocker = scene.client.enqueue(scene.send.call(1))
    scene.client.delete_chains(blocker, tx=scene.user)
    enqueueing = scene.waiting(lambda: scene.client.enqueue(scene.send.call(2), blockers=[blocker]))
    scene.end(end)
    if end == "commit":
        with pytest.raises(ChainNotFound, match=blocker.id):
            enqueueing.result(_PATIENCE)
        assert scene.client.list_jobs().items == []
    else:
        assert scene.status(enqueueing.result(_PATIENCE).id) == "blocked"


@_ENDS
def test_dependant_first(scene: Scene, end: str) -> None:
    """A deletion waits for an enqueue behind its chain: then it is refused, or it happens."""
    blocker = scene.client.enqueue(scene.send.call(1))
    waiting = scene.client.enqueue(scene.send.call(2), blockers=[blocker], tx=scene.user)
    deleting = scene.waiting(lambda: scene.client.delete_chains(blocker))
    scene.end(end)
    if end == "commit":
        with pytest.raises(ChainNeeded) as caught:
            deleting.result(_PATIENCE)
        assert caught.value.needed == {blocker.id: [waiting.id]}
        assert scene.status(waiting.id) == "blocked"
    else:
        assert [result.outcome for result in deleting.result(_PATIENCE)] == ["deleted"]


@_ENDS
def test_cancel_before_a_dependant(scene: Scene, end: str) -> None:
    """An enqueue behind a chain waits for its cancellation, and is cancelled with it if it asked for that."""
    blocker = scene.client.enqueue(scene.send.call(1))
    scene.client.cancel(blocker, tx=scene.user)
    enqueueing = scene.waiting(
        lambda: scene.client.enqueue(scene.send.call(2), blockers=[blocker], on_blocker_failure="cancel")
    )
    scene.end(end)
    assert scene.status(enqueueing.result(_PATIENCE).id) == ("cancelled" if end == "commit" else "blocked")


@_ENDS
def test_dependant_before_a_cancel(scene: Scene, end: str) -> None:
    """A cancel waits for an enqueue behind its chain, and tells it."""
    blocker = scene.client.enqueue(scene.send.call(1))
    waiting = scene.client.enqueue(scene.send.call(2), blockers=[blocker], on_blocker_failure="cancel", tx=scene.user)
    cancelling = scene.waiting(lambda: scene.client.cancel(blocker))
    scene.end(end)
    assert [result.outcome for result in cancelling.result(_PATIENCE)] == ["cancelled"]
    assert scene.status(waiting.id) == ("cancelled" if end == "commit" else None)


@_ENDS
def test_deletion_before_the_retry_of_who_waited(scene: Scene, end: str) -> None:
    """A retry waits for the deletion of what its job waits for."""
    blocker = scene.client.enqueue(scene.send.call(1))
    waiting = scene.client.enqueue(scene.send.call(2), blockers=[blocker])
    scene.client.cancel(waiting)
    scene.client.delete_chains(blocker, tx=scene.user)
    retrying = scene.waiting(lambda: scene.client.retry(waiting))
    scene.end(end)
    (result,) = retrying.result(_PATIENCE)
    assert result.outcome == ("blocker_gone" if end == "commit" else "retried")
    assert scene.status(waiting.id) == ("cancelled" if end == "commit" else "blocked")


@_ENDS
def test_retry_before_the_deletion_of_what_it_waits_for(scene: Scene, end: str) -> None:
    """A deletion waits for the retry of a job that waits for its chain."""
    blocker = scene.client.enqueue(scene.send.call(1))
    waiting = scene.client.enqueue(scene.send.call(2), blockers=[blocker])
    scene.client.cancel(waiting)
    scene.client.retry(waiting, tx=scene.user)
    deleting = scene.waiting(lambda: scene.client.delete_chains(blocker))
    scene.end(end)
    if end == "commit":
        with pytest.raises(ChainNeeded, match=waiting.id):
            deleting.result(_PATIENCE)
    else:
        assert [result.outcome for result in deleting.result(_PATIENCE)] == ["deleted"]
        assert [result.outcome for result in scene.client.retry(waiting)] == ["blocker_gone"]


@_ENDS
def test_remove_first(scene: Scene, end: str) -> None:
    """An enqueue with the key waits for its removal."""
    holder = scene.client.enqueue(scene.send.call(1), dedup="k")
    assert scene.client.remove(scene.send, "k", tx=scene.user).outcome == "removed"
    enqueueing = scene.waiting(
        lambda: scene.client.enqueue(scene.send.call(2), dedup=Dedup("k", on_conflict="replace"))
    )
    scene.end(end)
    chain = enqueueing.result(_PATIENCE)
    assert (chain.id == holder.id) is (end == "rollback")
    assert [job.input for job in scene.client.list_jobs().items] == [{"order": 2}]


def test_retry_by_filter_beside_a_locked_dependant(scene: Scene) -> None:
    """Somebody works on a job that would wait again: what it waits for is left for later, the others are retried."""
    later = scene.client.enqueue(scene.send.call(0), delay=3600)
    needed, other = (scene.dead_letter() for _ in range(2))
    waiting = scene.client.enqueue(scene.send.call(2), blockers=[needed, later], on_blocker_failure="run")
    scene.client.get_job(waiting.id, lock=True, tx=scene.user)
    retrying = scene.threads.submit(lambda: scene.client.retry(JobFilter(status=["cancelled"])))
    results = {result.id: result.outcome.value for result in retrying.result(_PATIENCE)}
    assert results == {needed: "locked", other: "retried"}
    scene.end("rollback")
    assert [result.outcome.value for result in scene.client.retry(JobFilter(status=["cancelled"]))] == ["retried"]
    found = scene.onlooker.execute("SELECT waiting_for FROM holdfast.job WHERE id = %s", [waiting.id])
    assert found.fetchone() == (2,)


def test_enqueue_and_retry_with_one_key(scene: Scene) -> None:
    """An enqueue that waits for the key holds no chain yet, so that the retry gets what it needs."""
    chain_id = scene.dead_letter(dedup="k")
    scene.user.execute("SELECT FROM holdfast.deduplication FOR UPDATE")
    enqueueing = scene.waiting(lambda: scene.enqueue(2, dedup="k", blockers=[chain_id]))
    assert scene.client.retry(chain_id, tx=scene.user)[0].outcome.value == "retried"
    scene.end("commit")
    assert enqueueing.result(_PATIENCE).id == chain_id


def test_enqueue_behind_chains_that_are_marked_and_not(scene: Scene) -> None:
    """They are locked by id, like everything, so that whoever comes second waits at the first."""
    first, second = (scene.client.enqueue(scene.send.call(1)) for _ in range(2))
    scene.client.enqueue(scene.send.call(2), blockers=[first])
    scene.client.get_job(first.id, lock=True, tx=scene.user)
    enqueueing = scene.waiting(lambda: scene.enqueue(3, blockers=[second, first]))
    scene.client.cancel(second, tx=scene.user)
    scene.end("commit")
    assert enqueueing.result(_PATIENCE).status.value == "blocked"


@_ENDS
def test_chain_goes_on_before_it_is_replaced(scene: Scene, end: str) -> None:
    """Its first job is not what it was, but it holds the key: the new chain says whom it supersedes."""
    chain = scene.client.enqueue(scene.send.call(1), dedup="k")
    scene.client.complete_chain(chain, scene.send.call(2), tx=scene.user)
    replacing = scene.waiting(lambda: scene.client.enqueue(scene.send.call(3), dedup=Dedup("k", on_conflict="replace")))
    scene.end(end)
    result = replacing.result(_PATIENCE)
    if end == "commit":
        assert (result.outcome.value, result.superseded) == ("created", chain.id)
    else:
        assert (result.outcome.value, result.id) == ("replaced", chain.id)


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_deletion_that_could_not_see(scene: Scene, level: IsolationLevel) -> None:
    """A snapshot older than who waits would delete what he waits for: refused, and the transaction goes on."""
    blocker = scene.client.enqueue(scene.send.call(1))
    scene.user.isolation_level = level
    scene.user.execute("SELECT 1")
    waiting = scene.client.enqueue(scene.send.call(2), blockers=[blocker])
    with pytest.raises(WrongIsolation, match="READ COMMITTED"):
        scene.client.delete_chains(blocker, tx=scene.user)
    assert scene.user.execute("SELECT 1").fetchone() == (1,)
    scene.user.commit()
    assert scene.status(blocker.id) == "pending"
    assert scene.status(waiting.id) == "blocked"
