"""The ledger of the demo sees what it claims not to have seen: lost jobs and jobs that finished twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import App, Client
from holdfast.cli.demo.executions import Executions
from holdfast.cli.demo.ledger import count
from holdfast.testing import drain


@pytest.fixture
def app(sqlite_path: Path) -> Iterator[App]:
    made = App(f"sqlite:///{sqlite_path}")

    @made.job()
    def work() -> None: ...

    yield made
    made.close()


@pytest.fixture
def client(app: App) -> Iterator[Client]:
    with app.client() as opened:
        yield opened


def _executions(tmp_path: Path, *lines: str) -> Executions:
    path = tmp_path / "executions.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    executions = Executions(path)
    executions.read()
    return executions


def test_a_clean_run(app: App, client: Client, tmp_path: Path) -> None:
    """Finished in the database and in the handlers' own words."""
    ids = [chain.id for chain in client.enqueue_many([app.call("work"), app.call("work")])]
    drain(app)
    lines = [f"{event} {job_id} 1 77" for job_id in ids for event in ("start", "finish")]
    ledger = count(client, ids, set(ids[:1]), _executions(tmp_path, *lines))
    assert ledger.is_clean
    assert (ledger.enqueued, ledger.finished, ledger.returned, ledger.dead_letters) == (2, 2, 1, 0)


def test_an_unfinished_job_is_lost(app: App, client: Client, tmp_path: Path) -> None:
    """Nobody ran it."""
    ids = [client.enqueue(app.call("work")).id]
    ledger = count(client, ids, set(ids), _executions(tmp_path))
    assert (ledger.lost, ledger.returned) == (1, 0)
    assert not ledger.is_clean


def test_a_vanished_row_is_lost(app: App, client: Client, tmp_path: Path) -> None:
    """The enqueue returned an id that the database does not have."""
    client.migrate()
    assert count(client, ["0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"], set(), _executions(tmp_path)).lost == 1


def test_a_row_that_no_handler_finished_is_lost(app: App, client: Client, tmp_path: Path) -> None:
    """Completed under a generation whose handler never came to its end."""
    ids = [client.enqueue(app.call("work")).id]
    drain(app)
    assert count(client, ids, set(), _executions(tmp_path, f"start {ids[0]} 1 77")).lost == 1


def test_two_ends_under_one_generation_are_seen(app: App, client: Client, tmp_path: Path) -> None:
    """Two processes finished one job under one generation; under two it is a retry after a crash."""
    ids = [client.enqueue(app.call("work")).id]
    drain(app)
    twice = _executions(tmp_path, *(f"{event} {ids[0]} 1 {pid}" for pid in (1, 2) for event in ("start", "finish")))
    assert count(client, ids, set(), twice).finished_twice == 1
    again = _executions(tmp_path, f"finish {ids[0]} 1 77", f"finish {ids[0]} 2 78")
    assert count(client, ids, set(), again).finished_twice == 0


def test_counts_per_worker_and_retries(tmp_path: Path) -> None:
    """A failed job that is started again is retried; a line that is not whole yet waits."""
    executions = _executions(tmp_path, "start a 1 7", "fail a 1 7", "start b 1 8", "start a 2 8")
    with executions.path.open("a") as file:
        file.write("finish a 2")
        file.flush()
        executions.read()
        assert executions.workers[8].running == 2
        file.write(" 8\n")
    executions.read()
    assert executions.retried_jobs == {"a"}
    assert (executions.workers[7].failed, executions.workers[8].finished, executions.workers[8].running) == (1, 1, 1)
