"""`holdfast worker --reload`: the code changes, and the worker with it."""

from __future__ import annotations

import os
import re
import signal
import time

from holdfast import App, Status
from tests.crew.traces import processes
from tests.e2e.conftest import CommandLine, Running

_MODULE = """
from holdfast import App
app = App("{url}", auto_migrate=True)

@app.job()
def greet() -> None:
    print("{word}", flush=True)

@app.job()
def nap() -> None:
    import time
    print("napping", flush=True)
    time.sleep(30)
"""


def _write(command: CommandLine, url: str, word: str) -> None:
    (command.directory / "dev.py").write_text(_MODULE.format(url=url, word=word))


def _enqueue(url: str, name: str) -> str:
    app = App(url)

    @app.job()
    def greet() -> None: ...

    @app.job()
    def nap() -> None: ...

    with app.client() as client:
        chain_id = client.enqueue(app.call(name)).id
    app.close()
    return chain_id


def _serving(worker: Running) -> int:
    found = re.search(r"worker \S+-(\d+)-\w+ serves", worker.expect("serves"))
    assert found is not None
    return int(found[1])


def test_the_new_code_runs(command: CommandLine, url: str) -> None:
    """A saved module restarts the worker; an error in it is shown, and the next change waited for."""
    _write(command, url, "old")
    worker = command.start("worker", "dev:app", "--reload")
    first = _serving(worker)
    _enqueue(url, "greet")
    worker.expect("old")

    _write(command, url, "new words")
    worker.expect("dev.py changed: restarting")
    second = _serving(worker)
    assert second != first
    _enqueue(url, "greet")
    worker.expect("new words")

    (command.directory / "dev.py").write_text("app = 1 / 0\n")
    worker.expect("error: importing dev failed: ZeroDivisionError")
    worker.expect("waiting for a change of the code")
    _write(command, url, "mended")
    _serving(worker)
    _enqueue(url, "greet")
    worker.expect("mended")
    worker.signal(signal.SIGINT)
    assert worker.exit_code() == 0
    assert processes(command.mark) == set()


def test_it_begins_with_an_error(command: CommandLine, url: str) -> None:
    """Then too it waits for a change; a signal ends the waiting."""
    (command.directory / "dev.py").write_text("import nothing_like_this\n")
    worker = command.start("worker", "dev:app", "--reload")
    worker.expect("No module named 'nothing_like_this'")
    worker.expect("waiting for a change of the code")
    os.killpg(worker.process.pid, signal.SIGINT)
    assert worker.exit_code() == 0


def test_a_long_job_does_not_hold_up_the_new_code(command: CommandLine, url: str) -> None:
    """It has two seconds; then it goes back, its attempt refunded, and the new code begins it anew."""
    _write(command, url, "old")
    worker = command.start("worker", "dev:app", "--reload")
    _serving(worker)
    chain_id = _enqueue(url, "nap")
    worker.expect("napping")
    began = time.monotonic()
    _write(command, url, "new")
    _serving(worker)
    worker.expect("napping")
    assert time.monotonic() - began < 15
    app = App(url)
    with app.client() as client:
        job = client.get_job(chain_id)
    assert (job.status, job.attempt) == (Status.RUNNING, 1)
    app.close()
    worker.signal(signal.SIGQUIT)
    assert worker.exit_code() == 0


def test_it_cannot_be_had_with_until_idle(command: CommandLine) -> None:
    """One waits for changes, the other for the end."""
    ended = command.run("worker", "shop:make_app", "--reload", "--until-idle")
    assert ended.returncode == 2
    assert "choose one" in ended.stderr
