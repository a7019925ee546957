"""`holdfast worker`: from the command line to finished jobs and an exit code."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from holdfast import App, Status
from tests.e2e.conftest import CommandLine


def test_it_runs_jobs_and_stops_on_sigterm(command: CommandLine, url: str, app: App) -> None:
    """A job enqueued by another process is run and completed; SIGTERM ends the worker with exit code 0."""
    worker = command.start("worker", "shop:make_app", HOLDFAST_URL=url)
    started = worker.expect("serves")
    assert re.search(r"holdfast \d+\.\d+\.\d+: worker \S+ serves default, mail with 20 slots on ", started)
    with app.client() as client:
        chain = client.enqueue(app.call("greet", name="Ada"))
        worker.expect("hello Ada")
        worker.signal()
        worker.expect("stopped")
        assert worker.exit_code() == 0
        job = client.get_job(chain.id)
    assert (job.status, job.output) == (Status.COMPLETED, "hello Ada")
    app.close()


def test_a_second_signal_does_not_wait(command: CommandLine, url: str, app: App) -> None:
    """The first SIGINT waits for the running job, the second does not: the job is back, its attempt refunded."""
    worker = command.start("worker", "shop:make_app", "--stop-deadline=60", HOLDFAST_URL=url)
    with app.client() as client:
        chain = client.enqueue(app.call("nap", seconds=50))
        worker.expect("napping")
        worker.signal(signal.SIGINT)
        worker.expect("SIGINT: no new jobs")
        worker.signal(signal.SIGINT)
        assert worker.exit_code() == 0
        job = client.get_job(chain.id)
    assert (job.status, job.attempt) == (Status.PENDING, 0)
    app.close()


def test_sigquit_does_not_wait(command: CommandLine, url: str, app: App) -> None:
    """As a second signal."""
    worker = command.start("worker", "shop:make_app", "--stop-deadline=60", HOLDFAST_URL=url)
    with app.client() as client:
        chain = client.enqueue(app.call("nap", seconds=50))
        worker.expect("napping")
        worker.signal(signal.SIGQUIT)
        worker.expect("SIGQUIT: running jobs go back at once")
        assert worker.exit_code() == 0
        job = client.get_job(chain.id)
    assert (job.status, job.attempt) == (Status.PENDING, 0)
    app.close()


def test_the_stop_deadline_is_kept(command: CommandLine, url: str, app: App) -> None:
    """A job that does not end by --stop-deadline goes back to its queue; the exit code is 0."""
    worker = command.start("worker", "shop:make_app", "--stop-deadline=100ms", HOLDFAST_URL=url)
    with app.client() as client:
        chain = client.enqueue(app.call("nap", seconds=50))
        worker.expect("napping")
        worker.signal()
        assert worker.exit_code() == 0
        job = client.get_job(chain.id)
    assert (job.status, job.attempt) == (Status.PENDING, 0)
    app.close()


def test_queues_choose_what_it_serves(command: CommandLine, url: str, app: App) -> None:
    """A worker for one queue leaves the jobs of others alone; options come from the environment as well."""
    with app.client() as client:
        other = client.enqueue(app.call("nap", seconds=0))
        client.enqueue(app.call("greet", name="Ada"))
        worker = command.start(
            "worker", "shop:make_app", "--no-notify", "--poll=100ms",
            HOLDFAST_URL=url, HOLDFAST_WORKER_QUEUES="mail", HOLDFAST_WORKER_CONCURRENCY="3",
        )  # fmt: skip
        worker.expect("serves mail with 3 slots")
        worker.expect("hello Ada")
        worker.signal()
        assert worker.exit_code() == 0
        assert client.get_job(other.id).status is Status.PENDING
    app.close()


def test_the_url_is_shown_without_its_password(command: CommandLine, new_postgres_url: str) -> None:
    """What is printed can be pasted anywhere."""
    with_password = new_postgres_url.replace("postgres@", "postgres:s3cret@")
    worker = command.start("worker", "shop:make_app", HOLDFAST_URL=with_password)
    assert "postgres:***@" in worker.expect("serves")
    worker.signal()
    worker.expect("stopped")
    assert worker.exit_code() == 0
    assert "s3cret" not in "".join(worker.lines)


def test_a_database_without_tables_is_refused(command: CommandLine, new_postgres_url: str) -> None:
    """One line that says what to do, exit code 1, no traceback."""
    (command.directory / "bare.py").write_text(
        "from holdfast import App\napp = App()\n@app.job()\ndef work() -> None: ...\n"
    )
    ended = command.run("worker", "bare:app", HOLDFAST_URL=new_postgres_url)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the database has no Holdfast tables")
    assert "holdfast migrate up" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_an_app_without_handlers_is_refused(command: CommandLine) -> None:
    """Nothing to run, for ever: one line with the way out, exit code 1."""
    (command.directory / "bare.py").write_text("from holdfast import App\napp = App('sqlite:///x.db')\n")
    ended = command.run("worker", "bare:app")
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: this app has no handlers")
    assert "@app.job()" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_queues_that_nobody_knows_are_refused(command: CommandLine, url: str, app: App) -> None:
    """Neither a job type's nor any job's; as soon as a job is in such a queue, it is served."""
    ended = command.run("worker", "shop:make_app", "--queues=mial", HOLDFAST_URL=url)
    assert ended.returncode == 1
    assert "error: no job type and no job belongs to the queues mial" in ended.stderr
    assert "those of the job types are default, mail" in ended.stderr
    with app.client() as client:
        client.enqueue(app.call("greet", name="Ada"), queue="mial")
        ended = command.run("worker", "shop:make_app", "--queues=mial", "--until-idle", HOLDFAST_URL=url)
    assert ended.returncode == 0, ended.stderr
    assert "hello Ada" in ended.stdout
    app.close()


def test_a_file_that_is_no_database_is_refused(command: CommandLine, tmp_path: Path) -> None:
    """One line with the path, exit code 1."""
    path = tmp_path / "notes.db"
    path.write_text("not a database, but long enough to be looked at: " * 100)
    ended = command.run("worker", "shop:make_app", HOLDFAST_URL=f"sqlite:///{path}")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"error: cannot use {path}: file is not a database"


@pytest.mark.parametrize(
    ("target", "exit_code", "words"),
    [
        ("shop", 2, "must look like module:app"),
        ("shop:", 2, "must look like module:app"),
        ("nowhere:app", 2, "there is no module 'nowhere'"),
        ("shop.deeper:app", 2, "there is no module 'shop.deeper'"),
        ("shop:nothing", 2, "module 'shop' has no 'nothing'"),
        ("shop:asyncio", 2, "not a holdfast.App"),
        ("broken:app", 1, "importing broken failed: ZeroDivisionError: division by zero"),
        ("lacking:app", 1, "importing lacking failed: ModuleNotFoundError: No module named 'not_installed'"),
        ("twice:app", 1, "job type 'work' is defined twice"),
    ],
)
def test_a_bad_target_is_named(command: CommandLine, target: str, exit_code: int, words: str) -> None:
    """A wrong MODULE:APP is wrong usage (2); a module that raises cannot work (1), and says where."""
    (command.directory / "broken.py").write_text("app = 1 / 0\n")
    (command.directory / "lacking.py").write_text("import not_installed\n")
    (command.directory / "twice.py").write_text(
        "from holdfast import App\napp = App('sqlite:///x.db')\n"
        "@app.job()\ndef work() -> None: ...\n@app.job(name='work')\ndef other() -> None: ...\n"
    )
    ended = command.run("worker", target)
    assert ended.returncode == exit_code
    assert ended.stderr.startswith("error: ")
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_debug_shows_the_traceback(command: CommandLine) -> None:
    """Only when asked for."""
    (command.directory / "broken.py").write_text("app = 1 / 0\n")
    ended = command.run("worker", "broken:app", "--log-level=debug")
    assert ended.returncode == 1
    assert "Traceback (most recent call last)" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("error: importing broken failed")
