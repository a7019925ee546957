"""`holdfast chains`: list and show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast import App
from holdfast.testing import drain
from tests.e2e.conftest import CommandLine


@dataclass
class Shop:
    """A database with a finished chain, a dead one, and one that waits for the dead one."""

    url: str
    greeted: str
    spoilt: str
    waiting: str


@pytest.fixture
def a_shop(url: str, app: App) -> Iterator[Shop]:
    with app.client() as client:
        spoilt = client.enqueue(app.call("spoil", reason="[bold]spoilt[/]"), max_attempts=1)
        shop = Shop(
            url,
            greeted=client.enqueue(app.call("greet", name="Ada"), tenant="acme").id,
            spoilt=spoilt.id,
            waiting=client.enqueue(app.call("greet", name="Bob"), blockers=[spoilt]).id,
        )
        drain(app)
        yield shop
    app.close()


def test_list(command: CommandLine, a_shop: Shop) -> None:
    """Three formats of the same chains, filters, order and pages."""
    listed = command.run("chains", "list", "--url", a_shop.url)
    assert listed.returncode == 0, listed.stderr
    rows = [row.split() for row in listed.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == [a_shop.waiting, a_shop.greeted, a_shop.spoilt]
    assert [row[1:4] for row in rows] == [
        ["greet", "blocked", "1"], ["greet", "completed", "1"], ["spoil", "dead_letter", "1"]
    ]  # fmt: skip
    assert "ValueError: [bold]spoilt[/]" in listed.stdout

    document = json.loads(command.run("chains", "list", "--url", a_shop.url, "--format=json").stdout)
    assert [chain["status"] for chain in document["items"]] == ["blocked", "completed", "dead_letter"]
    assert document["items"][1]["output"] == "hello Ada"
    assert document["items"][1]["tail"]["id"] == a_shop.greeted

    def ids(*arguments: str) -> list[str]:
        ended = command.run("chains", "list", "--url", a_shop.url, "--format=jsonl", *arguments)
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line)["id"] for line in ended.stdout.splitlines()]

    assert ids("--status=dead_letter") == ids("--type=spoil") == ids("--id", a_shop.spoilt) == [a_shop.spoilt]
    assert ids("--tenant=acme") == [a_shop.greeted]
    assert ids("--oldest-first", "--limit=2") == [a_shop.spoilt, a_shop.greeted]
    assert command.run("chains", "list", "--url", a_shop.url, "--queue=none").stdout == "no chains\n"


def test_show(command: CommandLine, a_shop: Shop) -> None:
    """How it stands, its jobs, who waits for it; and from the other side, what a job waits for."""
    shown = command.run("chains", "show", a_shop.spoilt, "--url", a_shop.url)
    assert shown.returncode == 0, shown.stderr
    assert "dead_letter" in shown.stdout
    assert "ValueError: [bold]spoilt[/]" in shown.stdout
    own, waiting = shown.stdout.split("waiting for it")
    assert a_shop.spoilt in own.split("\njobs\n")[1]
    assert a_shop.waiting in waiting

    document = json.loads(command.run("chains", "show", a_shop.spoilt, "--url", a_shop.url, "--format=json").stdout)
    assert (document["id"], document["status"], document["job_count"]) == (a_shop.spoilt, "dead_letter", 1)
    assert [job["id"] for job in document["jobs"]] == [a_shop.spoilt]
    assert [job["id"] for job in document["blocked_jobs"]] == [a_shop.waiting]
    line = command.run("chains", "show", a_shop.spoilt, "--url", a_shop.url, "--format=jsonl").stdout
    assert json.loads(line) == document

    job = json.loads(command.run("jobs", "show", a_shop.waiting, "--url", a_shop.url, "--format=json").stdout)
    assert [blocker["chain_id"] for blocker in job["blockers"]] == [a_shop.spoilt]
    shown = command.run("jobs", "show", a_shop.waiting, "--url", a_shop.url)
    assert a_shop.spoilt in shown.stdout.split("waits for")[1]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["chains", "show", "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"], 1, "no chain has the id"),
        (["chains", "show", "nonsense"], 2, "must be a UUID"),
        (["chains", "list", "--cursor=nonsense"], 2, "does not belong to this query"),
        (["chains", "list", "--id=nonsense"], 2, "must be a UUID"),
        (["chains", "list", "--limit=1001"], 2, "must be a whole number from 1 to 1,000"),
    ],
)
def test_errors(command: CommandLine, sqlite_path: Path, arguments: list[str], exit_code: int, words: str) -> None:
    """What is wrong and what would be right, on stderr."""
    url = f"sqlite:///{sqlite_path}"
    assert command.run("migrate", "up", "--url", url).returncode == 0
    ended = command.run(*arguments, "--url", url)
    assert ended.returncode == exit_code
    assert words in ended.stderr
