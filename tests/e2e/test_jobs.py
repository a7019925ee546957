"""`holdfast jobs`: list and show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from holdfast import App, Client
from holdfast.model.ring import Ring, bucket_of
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from tests.e2e.conftest import CommandLine


@dataclass
class Shop:
    """A database with three jobs: completed, dead letter, scheduled."""

    url: str
    greeted: str
    spoilt: str
    scheduled: str


@pytest.fixture
def a_shop(command: CommandLine, url: str, app: App) -> Iterator[Shop]:
    with app.client() as client:
        shop = Shop(
            url,
            greeted=client.enqueue(app.call("greet", name="Ada"), tenant="acme").id,
            spoilt=client.enqueue(app.call("spoil", reason="[bold]spoilt[/]")).id,
            scheduled=client.enqueue(app.call("nap", seconds=1), delay=600).id,
        )
        worker = command.start("worker", "shop:make_app", "--poll=50ms", HOLDFAST_URL=url)
        worker.expect("attempt 2")
        worker.signal()
        assert worker.exit_code() == 0
        assert _statuses(client) == ["completed", "dead_letter", "pending"]
        yield shop
    app.close()


def _statuses(client: Client) -> list[str]:
    return [job.status.value for job in client.list_jobs(newest_first=False).items]


def test_list(command: CommandLine, a_shop: Shop) -> None:
    """Three formats of the same jobs, filters, order and pages."""
    listed = command.run("jobs", "list", "--url", a_shop.url)
    assert listed.returncode == 0
    rows = listed.stdout.splitlines()[2:]
    assert [row.split()[0] for row in rows] == [a_shop.scheduled, a_shop.spoilt, a_shop.greeted]
    assert [row.split()[3] for row in rows] == ["scheduled", "dead_letter", "completed"]
    assert "ValueError: [bold]spoilt[/]" in rows[1]

    document = json.loads(command.run("jobs", "list", "--url", a_shop.url, "--format=json").stdout)
    assert [job["id"] for job in document["items"]] == [a_shop.scheduled, a_shop.spoilt, a_shop.greeted]
    assert document["next_cursor"] is None

    first = command.run("jobs", "list", "--url", a_shop.url, "--format=jsonl", "--limit=2", "--oldest-first")
    assert [json.loads(line)["id"] for line in first.stdout.splitlines()] == [a_shop.greeted, a_shop.spoilt]
    cursor = first.stderr.split("--cursor ")[1].strip()
    second = command.run(
        "jobs", "list", "--url", a_shop.url, "--format=jsonl", "--limit=2", "--oldest-first", "--cursor", cursor
    )
    assert [json.loads(line)["id"] for line in second.stdout.splitlines()] == [a_shop.scheduled]
    assert second.stderr == ""


def test_filters(command: CommandLine, a_shop: Shop) -> None:
    """Each filter of `client.list_jobs` has its option."""

    def ids(*arguments: str, **variables: str) -> list[str]:
        ended = command.run("jobs", "list", "--url", a_shop.url, "--format=jsonl", *arguments, **variables)
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line)["id"] for line in ended.stdout.splitlines()]

    assert ids("--status=dead_letter", "-s", "completed") == [a_shop.spoilt, a_shop.greeted]
    assert ids("--type=nap", "--queue=default") == [a_shop.scheduled]
    assert ids("--tenant=acme") == ids("--queue=mail") == [a_shop.greeted]
    assert ids("--chain-type=spoil") == ids("--id", a_shop.spoilt) == ids("--chain", a_shop.spoilt) == [a_shop.spoilt]
    assert ids("--id", a_shop.spoilt, "--id", a_shop.greeted) == [a_shop.spoilt, a_shop.greeted]
    assert ids("--partition-key=order:1") == []
    assert ids("--until=1h") == []
    assert len(ids("--since=1h")) == 3
    assert ids(HOLDFAST_JOBS_LIST_TYPE="spoil") == [a_shop.spoilt]


def test_show(command: CommandLine, a_shop: Shop) -> None:
    """Every column, every attempt, every error with its traceback."""
    shown = command.run("jobs", "show", a_shop.spoilt, "--url", a_shop.url)
    assert shown.returncode == 0
    assert "dead_letter" in shown.stdout
    assert '{"reason": "[bold]spoilt[/]"}' in shown.stdout
    assert "attempt 1 (generation 1)" in shown.stdout
    assert "attempt 2 (generation 2)" in shown.stdout
    assert shown.stdout.count("Traceback (most recent call last)") == 2
    assert shown.stdout.count("ValueError: [bold]spoilt[/]") == 3

    document = json.loads(command.run("jobs", "show", a_shop.spoilt, "--url", a_shop.url, "--format=json").stdout)
    assert (document["id"], document["status"], document["attempt"]) == (a_shop.spoilt, "dead_letter", 2)
    assert [attempt["outcome"] for attempt in document["attempts"]] == ["failed", "failed"]
    line = command.run("jobs", "show", a_shop.spoilt, "--url", a_shop.url, "--format=jsonl").stdout
    assert json.loads(line) == document
    assert line.count("\n") == 1


def test_show_says_whose_key_it_is(command: CommandLine, url: str, app: App) -> None:
    """A job whose partition key belongs to one of the workers that share them out."""
    store = app.store.sync()
    with app.client() as client:
        job_id = client.enqueue(app.call("greet", name="Ada"), partition_key="ada").id
        for name in ("left", "right"):
            identity = WorkerIdentity(id=name, version="1", queues=["mail"], metadata={"affinity": "ring"})
            store.run(partial(register_worker, identity))
        shown = command.run("jobs", "show", job_id, "--url", url)
        (told,) = json.loads(command.run("jobs", "show", job_id, "--url", url, "--format=json").stdout)[
            "why_not_running"
        ]
    store.close()
    app.close()
    bucket = bucket_of("ada")
    owner = Ring(["left", "right"]).owners[bucket]
    words = f"its partition key is in bucket {bucket} of queue 'mail', which is worker {owner}'s; others take it in "
    assert words in " ".join(shown.stdout.split())
    assert told.startswith(words)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["jobs", "show", "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"], 1, "no job has the id"),
        (["jobs", "show", "nonsense"], 2, "must be a UUID"),
        (["jobs", "list", "--cursor=nonsense"], 2, "does not belong to this query"),
        (["jobs", "list", "--limit=0"], 2, "must be a whole number from 1 to 1,000"),
        (["jobs", "list", "--status=sleeping"], 2, "is not one of"),
        (["jobs", "list", "--since=2026-05-01"], 2, "write 2026-05-01T00:00Z for UTC"),
        (["jobs", "list", "--since=soon"], 2, "is not a time"),
    ],
)
def test_errors(command: CommandLine, sqlite_path: Path, arguments: list[str], exit_code: int, words: str) -> None:
    """What is wrong and what would be right, on stderr."""
    url = f"sqlite:///{sqlite_path}"
    with App(url).client() as client:
        client.migrate()
    ended = command.run(*arguments, "--url", url)
    assert ended.returncode == exit_code
    assert ended.stderr.startswith("error: ")
    assert words in ended.stderr
    assert ended.stdout == ""


def test_reading_creates_no_file(command: CommandLine, sqlite_path: Path) -> None:
    """A misspelt name is an error, not an empty database."""
    ended = command.run("jobs", "list", "--url", f"sqlite:///{sqlite_path}")
    assert ended.returncode == 1
    assert f"there is no file {sqlite_path}" in ended.stderr
    assert not sqlite_path.exists()
