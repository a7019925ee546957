"""Handlers in processes of their own: like any other, but they can be killed, and die alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    App,
    AttemptEvent,
    Cancellation,
    Job,
    JobCompleted,
    JobContinued,
    JobStarted,
    Status,
    WorkerConfig,
)
from holdfast.errors import InvalidJobType
from holdfast.worker.executors import wire
from holdfast.worker.executors.process_line import ProcessLine
from holdfast.worker.handler import Place
from tests.conformance.worker.conftest import BRISK, Ground
from tests.crew import process_jobs as jobs

HANDFUL = replace(BRISK, concurrency=2)
ONE = replace(BRISK, concurrency=1)


@pytest.fixture
def kind() -> str:
    """The kinds are mixed here."""
    return "async"


@pytest.fixture
async def ground(live_ground: Ground) -> AsyncIterator[Ground]:
    live_ground.app.adopt(jobs.app)
    yield live_ground
    await live_ground.until(lambda: not _children(), 5)


def _children() -> list[int]:
    """Handler processes of this test that are still there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and jobs.is_alive(int(entry.name)):
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if b"holdfast.app.handler_process" in command and parent == os.getpid():
                found.append(int(entry.name))
    return found


async def _ended(ground: Ground, call: Any, config: WorkerConfig = HANDFUL) -> Job:
    chain = await ground.client.enqueue(call)

    async def is_over() -> Job | None:
        job = await ground.get(chain.id)
        return job if job.status not in (Status.BLOCKED, Status.PENDING, Status.RUNNING) else None

    async with ground.app.worker(config=config):
        job: Job = await ground.until(is_over)
    return job


async def test_runs_in_another_process(ground: Ground) -> None:
    job = await _ended(ground, jobs.where.call())
    pid, parent = job.output
    assert parent == os.getpid() != pid


async def test_one_place_is_one_process(ground: Ground) -> None:
    """Of a queue in which one may run at a time the next call begins when the last one has come back."""
    await ground.client.queues.limit("default", concurrency=1)
    chains = await ground.client.enqueue_many([jobs.awhere.call(pause=0.1) for _ in range(4)])
    async with ground.app.worker(config=HANDFUL):
        ended = [await ground.until_status(chain.id, "completed") for chain in chains]
    assert len({job.output[0] for job in ended}) == 1


async def test_async_handlers_and_the_lifespan_of_the_process(ground: Ground) -> None:
    job = await _ended(ground, jobs.awhere.call(pause=0.01))
    pid, made_in = job.output
    assert pid == made_in != os.getpid()


@pytest.mark.parametrize("which", ["waits", "awaits"])
async def test_durable_waits(ground: Ground, which: str) -> None:
    """A process sleeps, hears and gathers as others do, and is free meanwhile."""
    chain = await ground.client.enqueue(getattr(jobs, which).call())
    async with ground.app.worker(config=ONE):
        await ground.until_status(chain.id, "blocked")
        assert (await ground.get(chain.id)).step == "go"
        await ground.client.signal(chain, "go", "word")
        job = await ground.until_status(chain.id, "completed")
    assert job.output == (["word", 5, 10, 1] if which == "waits" else ["word", 5, 1])


async def test_middleware_is_around_it(ground: Ground) -> None:
    job = await _ended(ground, jobs.wrapped.call())
    assert job.output == "<inside>"


async def test_failures_carry_their_traceback_and_reach_the_hook(ground: Ground, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    job = await _ended(ground, jobs.fails.call(notes=str(notes)))
    assert job.status == Status.DEAD_LETTER
    assert job.last_attempt_error is not None
    assert (job.last_attempt_error.type, job.last_attempt_error.message) == ("ValueError", f"not good: {notes}")
    assert "process_jobs.py" in (job.last_attempt_error.traceback or "")
    said, _, pid = notes.read_text().rpartition(" ")
    assert said == "ValueError in"
    assert int(pid) != os.getpid()


@pytest.mark.parametrize("handle", [jobs.stepped, jobs.astepped], ids=["def", "async"])
async def test_steps_progress_and_logs(ground: Ground, handle: Any) -> None:
    job = await _ended(ground, handle.call())
    assert job.attempt == 2
    [(result,)] = ground.sql("SELECT result FROM {job_step} WHERE job_id = :id", id=job.id)
    assert str(job.output) in str(result)
    assert job.progress == {"done": 1}
    assert [message for (message,) in ground.sql("SELECT message FROM {job_log}")] == ["half way", "half way"]


async def test_completion_on_the_handlers_own_transaction(ground: Ground) -> None:
    job = await _ended(ground, jobs.ends_on_own_transaction.call(url=ground.url))
    assert (job.status, ground.orders()) == (Status.COMPLETED, [7])


async def test_transactions_and_continuations(ground: Ground) -> None:
    chain = await ground.client.enqueue(jobs.writes_and_goes_on.call())
    async with ground.app.worker(config=HANDFUL):
        pid, _ = await ground.client.wait(chain, timeout=20)
    assert ground.orders() == [8]
    assert pid != os.getpid()


@pytest.mark.parametrize("handle", [jobs.uses_everything, jobs.auses_everything], ids=["def", "async"])
async def test_steps_in_transactions_keys_and_blockers(ground: Ground, handle: Any) -> None:
    """What the first attempt committed holds for the second, which has the same blockers."""
    before = await ground.client.enqueue(jobs.takes_its_time.call(seconds=0))
    job = await _ended(ground, handle.call().options(blockers=[before]), ONE)
    pid, is_first, outputs = job.output
    [(result,)] = ground.sql("SELECT result FROM {job_step} WHERE job_id = :id", id=job.id)
    assert (job.attempt, str(pid)) == (2, str(result))
    assert pid != os.getpid()
    assert is_first is False
    assert outputs == [(await ground.get(before.id)).output]
    assert [attempt.error.type for attempt in await ground.client.list_attempts(job)] == ["RetryAt"]


async def test_events_of_a_chain_that_goes_on_in_the_handlers_transaction(ground: Ground) -> None:
    """Told by the worker, who knows of it from the process."""
    heard: list[AttemptEvent] = []
    ground.app.on_event(AttemptEvent)(heard.append)
    chain = await ground.client.enqueue(jobs.goes_on_in_own_transaction.call())
    async with ground.app.worker(config=HANDFUL):
        await ground.client.wait(chain, timeout=20)
        await ground.until(lambda: len(heard) == 4)
    # The next job may start before its worker has seen that the transaction committed.
    first = [event for event in heard if event.job_id == chain.id]
    last = [event for event in heard if event.job_id != chain.id]
    assert [type(event) for event in first] == [JobStarted, JobContinued]
    assert [type(event) for event in last] == [JobStarted, JobCompleted]
    assert isinstance(first[1], JobContinued)
    assert (first[1].next_job_id, first[1].next_type_name) == (last[0].job_id, "where")


async def test_events_are_told_where_they_happen(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the handler's client does, in the handler's process."""
    monkeypatch.setenv(jobs.EVENTS, str(tmp_path / "events"))
    await _ended(ground, jobs.enqueues.call())
    told = dict(line.split() for line in (tmp_path / "events").read_text().splitlines())
    assert told.keys() == {"enqueues", "where"}
    assert int(told["enqueues"]) == os.getpid() != int(told["where"])


async def test_its_client_is_of_the_workers_database(ground: Ground) -> None:
    job = await _ended(ground, jobs.enqueues.call())
    assert (await ground.get(job.output)).type_name == "where"


@pytest.mark.parametrize(("how", "status"), [("cancel", "cancelled"), ("dead", "dead_letter")])
async def test_control_exceptions(ground: Ground, how: str, status: str) -> None:
    job = await _ended(ground, jobs.ends_specially.call(how=how))
    assert job.status == status


async def test_snooze(ground: Ground) -> None:
    chain = await ground.client.enqueue(jobs.ends_specially.call(how="snooze"))

    async def is_put_off() -> bool:
        job = await ground.get(chain.id)
        return job.status == Status.PENDING and job.lease_generation == 1

    async with ground.app.worker(config=HANDFUL):
        await ground.until(is_put_off)
    assert (await ground.get(chain.id)).attempt == 0


async def test_timeout_kills_the_process_and_what_it_started(ground: Ground, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    job = await _ended(ground, jobs.never_ends.call(mark=str(mark)))
    assert job.status == Status.DEAD_LETTER
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "JobTimeout"
    pids = [int(pid) for pid in mark.read_text().split()]
    await ground.until(lambda: not any(map(jobs.is_alive, pids)), 5)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_crash_harms_no_other(ground: Ground, number: int) -> None:
    """The one that died has failed; those beside it do not notice, and the slot is filled again."""
    beside = await ground.client.enqueue(jobs.takes_its_time.call(seconds=1.5))
    culprit = await ground.client.enqueue(jobs.kills_itself.call(number=number))
    after = [await ground.client.enqueue(jobs.takes_its_time.call(seconds=0)) for _ in range(5)]
    async with ground.app.worker(config=HANDFUL):
        for chain in (beside, *after):
            await ground.client.wait(chain, timeout=20)
        await ground.until_status(culprit.id, "dead_letter")
    job = await ground.get(culprit.id)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "HandlerProcessDied"
    assert signal.Signals(number).name in job.last_attempt_error.message
    for chain in (beside, *after):
        assert (await ground.get(chain.id)).attempt == 1


async def test_an_exit_is_a_failure(ground: Ground) -> None:
    job = await _ended(ground, jobs.exits.call())
    assert job.last_attempt_error is not None
    assert "status 3" in job.last_attempt_error.message


async def test_processes_are_used_again(ground: Ground) -> None:
    chains = [await ground.client.enqueue(jobs.takes_its_time.call(seconds=0)) for _ in range(10)]
    async with ground.app.worker(config=ONE):
        pids = {await ground.client.wait(chain, timeout=20) for chain in chains}
    assert len(pids) == 1


async def test_cancellation_is_told(ground: Ground, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    chain = await ground.client.enqueue(jobs.waits_to_be_told.call(mark=str(mark)))
    async with ground.app.worker(config=HANDFUL):
        await ground.until(mark.exists)
        await ground.client.cancel(chain.id)
        assert await ground.client.wait(chain, timeout=20) == Cancellation.CANCELLED


async def test_a_lost_job_is_interrupted(ground: Ground, tmp_path: Path) -> None:
    """The handler of a deleted job cleans up and is gone; its process serves the next one."""
    mark = tmp_path / "mark"
    chain = await ground.client.enqueue(jobs.cleans_up.call(mark=str(mark)))
    async with ground.app.worker(config=ONE):
        await ground.until(mark.exists)
        await ground.client.complete_job(chain.id, None)
        next_one = await ground.client.enqueue(jobs.takes_its_time.call(seconds=0))
        pid = await ground.client.wait(next_one, timeout=20)
    assert mark.with_suffix(".clean").read_text() == "yes"
    assert pid == int(mark.read_text())


async def test_stop_releases_what_does_not_finish(ground: Ground, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    chain = await ground.client.enqueue(jobs.cleans_up.call(mark=str(mark)))
    async with ground.app.worker(config=replace(HANDFUL, stop_deadline=timedelta(seconds=0.2))):
        await ground.until(mark.exists)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert mark.with_suffix(".clean").read_text() == "yes"
    job = await ground.get(chain.id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 1)


async def test_who_is_told_to_stop_knows_why(ground: Ground, tmp_path: Path) -> None:
    """And its job goes back, with its only attempt."""
    mark = tmp_path / "mark"
    chain = await ground.client.enqueue(jobs.notes_why.call(mark=str(mark)))
    async with ground.app.worker(config=replace(HANDFUL, stop_deadline=timedelta(seconds=0.2))):
        await ground.until(mark.exists)
    assert mark.with_suffix(".why").read_text() == Cancellation.STOPPING
    job = await ground.get(chain.id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 1)


async def test_an_unstoppable_handler_is_killed_by_a_stop(ground: Ground, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    chain = await ground.client.enqueue(jobs.holds_the_interpreter.call(mark=str(mark)))
    async with ground.app.worker(config=replace(HANDFUL, stop_deadline=timedelta(seconds=0.2))):
        await ground.until(mark.exists)
    assert not jobs.is_alive(int(mark.read_text()))
    job = await ground.get(chain.id)
    assert (job.status, job.attempt) == (Status.PENDING, 0)


async def test_batches(ground: Ground) -> None:
    chains = await ground.client.enqueue_many([jobs.doubles.call(number) for number in range(4)])
    async with ground.app.worker(config=ONE):
        for chain, wanted in zip(chains, [0, None, 4, None], strict=True):
            if wanted is not None:
                assert await ground.client.wait(chain, timeout=20) == wanted

        async def has_failed() -> bool:
            error = (await ground.get(chains[1].id)).last_attempt_error
            return error is not None and error.type == "ValueError"

        await ground.until(has_failed)


async def test_waiting_in_a_handler_is_refused(ground: Ground) -> None:
    job = await _ended(ground, jobs.asks_for_a_wait.call())
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "WaitRefused"


def test_functions_that_a_process_cannot_find() -> None:
    app = App("sqlite:////nowhere/at/all.db")

    def inner() -> None: ...

    with pytest.raises(InvalidJobType, match="top level"):
        app.job(executor="process")(inner)
    assert app.job_types == {}


async def test_process_of_a_killed_worker_is_gone(ground: Ground, tmp_path: Path) -> None:
    """SIGKILL of the worker takes its handler processes with it, whatever they are doing."""
    mark = tmp_path / "mark"
    await ground.client.enqueue(jobs.holds_the_interpreter.call(mark=str(mark)))
    code = (
        f"from holdfast import App, WorkerConfig; from tests.crew import process_jobs\n"
        f"app = App({ground.url!r}); app.adopt(process_jobs.app); app.run_worker(WorkerConfig(concurrency=1))"
    )
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    await ground.until(mark.exists)
    worker.kill()
    await worker.wait()
    await ground.until(lambda: not jobs.is_alive(int(mark.read_text())), 5)


async def test_a_process_that_died_of_waiting_is_replaced(ground: Ground) -> None:
    async with ground.app.worker(config=ONE):
        first = await ground.client.wait(await ground.client.enqueue(jobs.takes_its_time.call(seconds=0)), timeout=20)
        os.kill(first, signal.SIGKILL)
        await ground.until(lambda: not _children(), 5)
        chain = await ground.client.enqueue(jobs.takes_its_time.call(seconds=0))
        second = await ground.client.wait(chain, timeout=20)
    assert second != first
    assert (await ground.get(chain.id)).attempt == 1


async def test_a_process_that_cannot_be_told_what_to_do(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for: the job fails, and the worker stops."""
    send = ProcessLine.send

    def refuse(line: ProcessLine, message: wire.ToProcess) -> None:
        if isinstance(message, wire.Setup):
            raise OverflowError("there is no such number")
        send(line, message)

    monkeypatch.setattr(ProcessLine, "send", refuse)
    job = await _ended(ground, jobs.where.call().options(max_attempts=1), ONE)
    assert job.status is Status.DEAD_LETTER


async def test_paths_that_are_no_text(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, "/home/j\udcfcrgen/lib"])
    assert (await _ended(ground, jobs.where.call())).status is Status.COMPLETED


@pytest.mark.parametrize("turns", range(1, 12))
async def test_a_start_that_is_given_up_leaves_no_process(ground: Ground, turns: int) -> None:
    """At any step of it."""
    async with ground.app.worker(config=ONE) as worker:
        engine: Any = worker._engine
        starting = asyncio.create_task(engine.slots._executors[Place.PROCESS]._spawn())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await ground.until(lambda: not _children())


async def test_a_job_waits_until_its_process_calls_it(ground: Ground, tmp_path: Path) -> None:
    """For a rate, which is one of calls, it has not started before that."""
    mark = tmp_path / "mark"
    async with ground.app.worker(config=replace(ONE, stop_deadline=timedelta(0))) as worker:
        engine: Any = worker._engine
        chain = await ground.client.enqueue(jobs.cleans_up.call(mark=str(mark)))
        await ground.until_status(chain.id, "running")
        assert engine.slots.waiting_of("default") == 1
        await ground.until(mark.exists)
        assert engine.slots.waiting_of("default") == 0


async def test_no_process_to_be_had(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt fails, says why, and its slot is free for the next."""
    monkeypatch.setattr("holdfast.app.app._HANDLER_PROCESS", ("/nowhere/at/all",))
    ids = [(await ground.client.enqueue(jobs.exits.call())).id for _ in range(2)]
    async with ground.app.worker(config=ONE):
        for job_id in ids:
            job = await ground.until_status(job_id, "dead_letter")
            assert job.last_attempt_error is not None
            assert job.last_attempt_error.type == "HandlerProcessDied"
            assert "/nowhere/at/all" in job.last_attempt_error.message


async def test_a_job_that_is_given_back_before_its_process_was_there_still_expires(
    ground: Ground, tmp_path: Path
) -> None:
    """Nobody has called its handler; one whose handler was called is past expiring."""
    mark = tmp_path / "mark"
    chain = await ground.client.enqueue(jobs.cleans_up.call(mark=str(mark)), expires=60)
    hasty = replace(ONE, stop_deadline=timedelta(0))
    async with ground.app.worker(config=hasty):
        await ground.until_status(chain.id, "running")
    job = await ground.get(chain.id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 1)
    assert job.expires_at is not None
    assert not mark.exists()
    async with ground.app.worker(config=hasty):
        await ground.until(mark.exists)
    job = await ground.get(chain.id)
    assert (job.status, job.attempt, job.expires_at) == (Status.PENDING, 0, None)


async def test_a_slow_hook_does_not_change_the_outcome(ground: Ground) -> None:
    job = await _ended(ground, jobs.fails_quickly.call())
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "ValueError"


async def test_a_fork_of_a_handler_does_not_answer_for_it(ground: Ground) -> None:
    """It ends when it comes out of the handler, and has no part in what comes next."""
    forked = await ground.client.enqueue(jobs.forks.call())
    async with ground.app.worker(config=ONE):
        assert await ground.client.wait(forked, timeout=20) == "parent"
        for seconds in (0.1, 0.0, 0.1):
            pid = await ground.client.wait(
                await ground.client.enqueue(jobs.takes_its_time.call(seconds=seconds)), timeout=20
            )
            assert pid > 1


async def test_a_fork_of_a_handler_is_refused_the_context(ground: Ground) -> None:
    """It would wait for ever: the answer is heard in the handler's own process."""
    job = await _ended(ground, jobs.uses_its_context_in_a_fork.call())
    assert (job.output, job.progress) == (3, None)


async def test_the_file_is_the_one_of_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is relative to where the app was made, in its processes too."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    app = App("sqlite:///jobs.db")
    app.adopt(jobs.app)
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with app.async_client() as client, app.worker(config=ONE):
        enqueued = await client.wait(await client.enqueue(jobs.enqueues.call()), timeout=20)
        assert (await client.get_job(enqueued)).type_name == "where"
    await app.aclose()
    assert list((tmp_path / "elsewhere").iterdir()) == []
