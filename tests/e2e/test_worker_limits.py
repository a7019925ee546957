"""Workers that end by themselves: nothing left to do, jobs enough, memory enough."""

from __future__ import annotations

import time

from holdfast import App, Status
from holdfast.errors import ChainFailed
from tests.crew.waiting import wait_for
from tests.e2e.conftest import CommandLine


def test_until_idle_runs_what_is_due_and_ends(command: CommandLine, url: str, app: App) -> None:
    """Chains are followed to their end, immediate retries are run, what is due later is left alone; exit code 0."""
    with app.client() as client:
        chains = client.enqueue_many([app.call("greet", name=str(n)) for n in range(200)])
        journey = client.enqueue(app.call("hop", times=5))
        nap = client.enqueue(app.call("nap", seconds=1))
        later = client.enqueue(app.call("nap", seconds=0), delay=3600)
        ended = command.run("worker", "shop:make_app", "--until-idle", HOLDFAST_URL=url)
        assert ended.returncode == 0, ended.stderr
        assert "the worker stops: nothing is due and nothing runs" in ended.stderr
        assert {client.get_job(chain.id).status for chain in [*chains, nap]} == {Status.COMPLETED}
        assert client.wait(journey, 1) == "arrived"
        assert client.get_job(later.id).status is Status.PENDING
    app.close()


def test_until_idle_waits_for_what_others_run(command: CommandLine, url: str, app: App) -> None:
    """A job that another worker has is not due, and not done either."""
    other = command.start("worker", "shop:make_app", HOLDFAST_URL=url)
    other.expect("serves")
    with app.client() as client:
        nap = client.enqueue(app.call("nap", seconds=50))
        other.expect("napping")
        waiting = command.start("worker", "shop:make_app", "--until-idle", HOLDFAST_URL=url)
        waiting.expect("serves")
        time.sleep(1)  # there is nothing to wait for: it must do nothing
        assert waiting.process.poll() is None
        client.complete_job(nap.id, None)
        assert waiting.exit_code() == 0
    other.signal()
    assert other.exit_code() == 0
    app.close()


def test_until_idle_tells_of_dead_letters(command: CommandLine, url: str, app: App) -> None:
    """Exit code 3 if a job became one during the run; old ones do not count."""
    with app.client() as client:
        spoilt = client.enqueue(app.call("spoil", reason="rain"))
        ended = command.run("worker", "shop:make_app", "--until-idle", HOLDFAST_URL=url)
        assert ended.returncode == 3, ended.stderr
        assert "1 jobs became dead letters; see `holdfast dead list`" in ended.stderr
        assert client.get_job(spoilt.id).status is Status.DEAD_LETTER
        try:
            client.wait(spoilt, 1)
        except ChainFailed as error:
            assert "rain" in str(error)  # noqa: PT017 - both are claims of this test
    ended = command.run("worker", "shop:make_app", "--until-idle", HOLDFAST_URL=url)
    assert ended.returncode == 0, ended.stderr
    app.close()


def test_a_worker_may_run_so_many_jobs(command: CommandLine, url: str, app: App) -> None:
    """At --max-jobs it drains and ends with exit code 0, for systemd's Restart=always; the rest is untouched."""
    with app.client() as client:
        client.enqueue_many([app.call("nap", seconds=0.02) for _ in range(500)])
        ended = command.run("worker", "shop:make_app", "--max-jobs=50", "--concurrency=5", HOLDFAST_URL=url)
        assert ended.returncode == 0, ended.stderr
        assert "it has run as many jobs as it may" in ended.stderr
        jobs = [job for job in client.iter_jobs()]  # noqa: C416 - an iterator of pages
    done = [job for job in jobs if job.status is Status.COMPLETED]
    assert 50 <= len(done) < 400
    assert {(job.status, job.attempt) for job in jobs} == {(Status.COMPLETED, 1), (Status.PENDING, 0)}
    app.close()


def test_a_worker_may_have_so_much_memory(command: CommandLine, url: str, app: App) -> None:
    """At --max-rss it drains and ends with exit code 0."""
    with app.client() as client:
        worker = command.start("worker", "shop:make_app", "--max-rss=400MiB", HOLDFAST_URL=url)
        worker.expect("serves")
        client.enqueue(app.call("hoard", megabytes=450))
        worker.expect("the worker stops: it has as much memory as it may")
        assert worker.exit_code() == 0
        wait_for(lambda: [job.status for job in client.iter_jobs()] == [Status.COMPLETED], "the job is completed")
    app.close()


def test_too_little_memory_is_refused(command: CommandLine, url: str) -> None:
    """Less than the process needs before its first job would restart it for ever."""
    ended = command.run("worker", "shop:make_app", "--max-rss=5M", HOLDFAST_URL=url)
    assert ended.returncode == 1
    assert "MiB before its first job and may have 5 MiB; raise --max-rss" in ended.stderr.splitlines()[-1]


def test_settings_of_run_worker(url: str, app: App) -> None:
    """The same limits from Python; what it returns is the exit code."""
    with app.client() as client:
        chain = client.enqueue(app.call("greet", name="Ada"))
        assert app.run_worker(until_idle=True, queues=["mail"]) == 0
        assert client.get_job(chain.id).status is Status.COMPLETED
        client.enqueue(app.call("spoil", reason="rain"))
        assert app.run_worker(until_idle=True) == 3
    app.close()
