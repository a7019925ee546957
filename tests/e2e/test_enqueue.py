"""`holdfast jobs enqueue`: create a job, and wait for what comes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast import App, Client
from holdfast.model.partition import shard_of
from tests.e2e.conftest import CommandLine

ID = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"


@pytest.fixture
def client(app: App) -> Iterator[Client]:
    with app.client() as client:
        yield client
    app.close()


def _enqueue(command: CommandLine, url: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    shop = {"HOLDFAST_APP": "shop:make_app", "HOLDFAST_URL": url}
    ended = command.run("jobs", "enqueue", *arguments, **shop, **variables)
    return ended.returncode, ended.stdout, ended.stderr


def test_prints_the_id(command: CommandLine, url: str, client: Client) -> None:
    """Arguments by name and by place; nothing else goes to stdout."""
    for arguments in ('{"name": "Ada"}', '["Ada"]'):
        code, out, error = _enqueue(command, url, "greet", arguments)
        assert (code, error) == (0, "")
        job = client.get_job(out.strip())
        assert (job.type_name, job.input, job.queue) == ("greet", {"name": "Ada"}, "mail")
    code, out, _ = _enqueue(command, url, "greet", '["Bo"]', "--format=json", "--id", ID)
    document = json.loads(out)
    assert document == {"id": ID, "type_name": "greet", "status": "pending", "outcome": "created", "superseded": None}


def test_arguments_from_stdin(command: CommandLine, url: str, client: Client) -> None:
    """Where they are too long, or come from another program."""
    running = subprocess.run(
        [sys.executable, "-m", "holdfast", "jobs", "enqueue", "greet", "-", "--app=shop:make_app"],
        cwd=command.directory,
        env={**os.environ, "HOLDFAST_URL": url},
        input='{"name": "Ada"}',
        check=True,
        capture_output=True,
        text=True,
    )
    assert client.get_job(running.stdout.strip()).input == {"name": "Ada"}


def test_options(command: CommandLine, url: str, app: App, client: Client) -> None:
    """Each option of `client.enqueue` has its own."""
    first = client.enqueue(app.call("nap", seconds=0))
    flags = ["--queue=slow", "--priority=-3", "--delay=2h", "--expires=3h", "--max-attempts=9", "--tenant=acme"]
    flags += ["--header=trace=1=2", "--header=lang=de", "--dedup=one", "--id", ID]
    flags += ["--blocker", first.id, "--on-blocker-failure=run", "--partition-key=order:1", "--ordering=serial"]
    flags += ["--shards=4", "--concurrency-key=psp", "--flag=gpu", "--flag=big"]
    code, out, error = _enqueue(command, url, "greet", '["Ada"]', *flags)
    assert (code, out.strip(), error) == (0, ID, "")
    job = client.get_job(ID)
    assert (job.queue, job.priority, job.max_attempts, job.tenant) == ("slow", -3, 9, "acme")
    assert (job.headers, job.status, job.on_blocker_failure) == ({"trace": "1=2", "lang": "de"}, "blocked", "run")
    assert (job.partition_key, job.ordering) == (shard_of("order:1", 4, "one"), "serial")
    assert (job.concurrency_key, job.flags) == ("psp", ["big", "gpu"])
    assert (job.scheduled_at - job.created_at).total_seconds() == pytest.approx(7200, abs=1)
    assert job.expires_at is not None
    assert (job.expires_at - job.created_at).total_seconds() == pytest.approx(10_800, abs=1)

    code, out, error = _enqueue(command, url, "greet", '["Bo"]', "--dedup=one")
    assert (code, out.strip()) == (0, ID)
    assert error.startswith("kept: ")
    code, _, error = _enqueue(command, url, "greet", '["Bo"]', "--dedup=one", "--on-conflict=reject")
    assert code == 2
    assert ID in error


def test_wait_prints_the_output(command: CommandLine, url: str, client: Client) -> None:
    """As JSON, and nothing else; what is no success is one line on stderr."""
    worker = command.start("worker", "shop:make_app", "--poll=50ms", HOLDFAST_URL=url)
    worker.expect("serves")
    code, out, error = _enqueue(command, url, "greet", '{"name": "Ada"}', "--wait", "--timeout=30s")
    assert (code, out, error) == (0, '"hello Ada"\n', "")
    code, out, _ = _enqueue(command, url, "nap", "[0]", "--wait", "--format=jsonl")
    assert (code, out) == (0, "null\n")
    code, out, error = _enqueue(command, url, "spoil", '["rotten"]', "--wait")
    assert (code, out) == (1, "")
    assert "is a dead letter: ValueError: rotten" in error
    code, out, error = _enqueue(command, url, "nap", "[0]", "--wait", "--timeout=200ms", "--delay=1h")
    assert (code, out) == (1, "")
    assert "did not finish within 0.2 s, it is pending" in error
    worker.signal()
    assert worker.exit_code() == 0


@pytest.mark.parametrize(
    "mistake",
    [
        (["greet", "{"], 2, "is not JSON"),
        (["greet", "17"], 2, "neither an object nor an array"),
        (["greet", "{}"], 2, "missing required field `name`"),
        (["greet", '{"name": 1}'], 2, "Expected `str`, got `int`"),
        (["greet", '["a", "b"]'], 2, "takes 1 arguments, 2 were given"),
        (["grete", "{}"], 2, "'grete' is not registered with this app (registered: "),
        (["greet", '["a"]', "--header=x"], 2, "write --header NAME=TEXT"),
        (["greet", '["a"]', "--timeout=1s"], 2, "--timeout is for --wait"),
        (["greet", '["a"]', "--id=17"], 2, "must be a UUID"),
        (["greet", '["a"]', "--blocker", ID], 1, "no chain has the id"),
        (["greet", '["a"]', "--at=2026-05-01"], 2, "has no time zone"),
        (["greet", '["a"]', "--partition-key="], 2, "partition_key=''"),
        (["greet", '["a"]', "--partition-key=k", "--ordering=lifo"], 2, "'lifo' is not one of"),
        (["greet", '["a"]', "--partition-key=k", "--shards=0"], 2, "shards=0"),
        (["greet", '["a"]', "--shards=2"], 2, "needs a partition_key"),
        (["greet", '["a"]', "--flag="], 2, "flags=''"),
    ],
)
def test_mistakes(command: CommandLine, url: str, client: Client, mistake: tuple[list[str], int, str]) -> None:
    """One line that says what is wrong; nothing is enqueued."""
    arguments, exit_code, words = mistake
    code, out, error = _enqueue(command, url, *arguments)
    assert (code, out) == (exit_code, "")
    assert words in error
    assert client.list_jobs().items == []


def test_without_an_app(command: CommandLine, url: str) -> None:
    """A URL alone has no job types."""
    ended = command.run("jobs", "enqueue", "greet", "{}", "--url", url)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--app MODULE:APP" in ended.stderr
