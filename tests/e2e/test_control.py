"""`holdfast jobs cancel|retry|reschedule|remove|delete` and `holdfast dead`, from outside."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import App, Client
from tests.e2e.conftest import CommandLine
from tests.e2e.terminal import watch

_NOBODY = "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"


@pytest.fixture
def client(app: App) -> Iterator[Client]:
    with app.client() as opened:
        opened.migrate()
        yield opened
    app.close()


def _statuses(client: Client) -> list[str]:
    return [job.status.value for job in client.list_jobs(newest_first=False).items]


def _results(command: CommandLine, url: str, *arguments: str, exit_code: int = 0, **variables: str) -> Any:
    ended = command.run(*arguments, "--url", url, "--yes", "--format=json", **variables)
    assert ended.returncode == exit_code, ended.stderr + ended.stdout
    return json.loads(ended.stdout)


def test_a_life(command: CommandLine, url: str, app: App, client: Client) -> None:
    """Rescheduled, cancelled, retried, deleted; each says what it did, and the record says who."""
    naps = [client.enqueue(app.call("nap", seconds=1), delay=600).id for _ in range(2)]
    moved = _results(command, url, "jobs", "reschedule", *naps, "--delay=2h", "--actor=ada")
    assert [(each["id"], each["outcome"]) for each in moved["results"]] == [(nap, "rescheduled") for nap in naps]
    assert _results(command, url, "jobs", "reschedule", naps[0], "--at=now")["counts"] == {"rescheduled": 1}
    cancelled = _results(command, url, "jobs", "cancel", naps[0], _NOBODY, "--reason=too late", exit_code=1)
    assert cancelled["counts"] == {"cancelled": 1, "not_found": 1}
    assert client.get_job(naps[0]).last_attempt_error.message == "too late"  # type: ignore[union-attr]  # it has one, or this fails
    assert _results(command, url, "jobs", "retry", naps[0])["counts"] == {"retried": 1}
    lines = command.run("jobs", "delete", *naps, "--url", url, "-y", "--format=jsonl").stdout.splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["deleted", "deleted"]
    assert _statuses(client) == []


def test_tables(command: CommandLine, url: str, app: App, client: Client) -> None:
    """For people: one row per id, with the reason where there is one; of filters, the counts and what was refused."""
    first = client.enqueue(app.call("nap", seconds=1), delay=600)
    second = client.enqueue(app.call("nap", seconds=1), blockers=[first])
    by_id = command.run("jobs", "retry", first.id, "--url", url, "--yes")
    assert by_id.returncode == 1
    assert by_id.stdout.splitlines()[0].split() == ["id", "outcome", "why"]
    assert "wrong_status" in by_id.stdout
    assert "the job is pending" in by_id.stdout
    by_filter = command.run("jobs", "delete", "--status=pending", "--type=nap", "--url", url, "--yes")
    assert by_filter.returncode == 1
    assert by_filter.stdout.splitlines()[-1] == "1 needed"
    assert second.id in by_filter.stdout
    by_filter = command.run("jobs", "cancel", "--queue=default", "--url", url, "--yes")
    assert (by_filter.returncode, by_filter.stdout) == (0, "2 cancelled\n")
    nothing = command.run("jobs", "cancel", "--queue=default", "--url", url, "--yes")
    assert (nothing.returncode, nothing.stdout) == (0, "no jobs\n")


def test_refusals(command: CommandLine, url: str, app: App, client: Client) -> None:
    """All or nothing, where that was asked for or is the rule: one line on stderr that names the culprit."""
    first = client.enqueue(app.call("nap", seconds=1))
    second = client.enqueue(app.call("nap", seconds=1), blockers=[first])
    strict = command.run("jobs", "cancel", first.id, _NOBODY, "--strict", "--yes", "--url", url)
    assert (strict.returncode, strict.stdout) == (1, "")
    assert _NOBODY in strict.stderr
    needed = command.run("jobs", "delete", first.id, "--yes", "--url", url)
    assert needed.returncode == 1
    assert second.id in needed.stderr
    assert _statuses(client) == ["pending", "blocked"]
    deleted = _results(command, url, "jobs", "delete", second.id, "--cascade")
    assert deleted["counts"] == {"deleted": 2}


def test_remove(command: CommandLine, url: str, app: App, client: Client) -> None:
    """By type and key."""
    chain = client.enqueue(app.call("nap", seconds=1), dedup="k")
    removed = _results(command, url, "jobs", "remove", "nap", "k")
    assert [(each["id"], each["outcome"]) for each in removed["results"]] == [(chain.id, "removed")]
    assert _results(command, url, "jobs", "remove", "nap", "k", exit_code=1)["counts"] == {"not_found": 1}


def test_dead_letters(command: CommandLine, url: str, app: App, client: Client) -> None:
    """Listed with their errors, shown with their attempts, retried by id, by filter, or all."""
    spoilt = [client.enqueue(app.call("spoil", reason=f"bad {n}"), max_attempts=1).id for n in range(3)]
    worker = command.start("worker", "shop:make_app", "--poll=50ms", HOLDFAST_URL=url)
    deadline = time.monotonic() + 30
    while _statuses(client) != ["dead_letter"] * 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    worker.signal()
    assert worker.exit_code() == 0
    listed = command.run("dead", "list", "--url", url)
    assert [row.split()[0] for row in listed.stdout.splitlines()[2:]] == spoilt[::-1]
    assert "ValueError: bad 2" in listed.stdout
    assert command.run("dead", "list", "--queue=mail", "--url", url).stdout == "no dead letters\n"
    shown = command.run("dead", "show", spoilt[0], "--url", url)
    assert "Traceback (most recent call last)" in shown.stdout
    which = command.run("dead", "retry", "--url", url, "--yes")
    assert which.returncode == 2
    assert _results(command, url, "dead", "retry", spoilt[0])["counts"] == {"retried": 1}
    assert _results(command, url, "dead", "retry", "--type=nap")["counts"] == {}
    assert _results(command, url, "dead", "retry", "--all")["counts"] == {"retried": 2}
    assert _statuses(client) == ["pending"] * 3


def test_questions(command: CommandLine, url: str, app: App, client: Client) -> None:
    """Without --yes it asks, naming what it is about; no means no, and silence is not consent."""
    chain = client.enqueue(app.call("nap", seconds=1))

    def asked(answer: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast", "jobs", "cancel", *arguments, "--url", url],
            cwd=command.directory, input=answer, check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    refused = asked("n\n", "--queue=default", "--status=pending", "-s", "blocked")
    assert refused.returncode == 1
    assert "cancel every job with" in refused.stderr
    assert "status pending or blocked" in refused.stderr
    assert "queue default" in refused.stderr
    silent = asked("", chain.id)
    assert silent.returncode == 2
    assert "--yes" in silent.stderr
    assert _statuses(client) == ["pending"]
    assert asked("y\n", chain.id).returncode == 0
    assert _statuses(client) == ["cancelled"]


def test_progress(command: CommandLine, url: str, app: App, client: Client) -> None:
    """A terminal sees how far a filter has come; the answer on stdout stays clean."""
    client.enqueue_many([app.call("nap", seconds=1) for _ in range(1200)], delay=600)
    ended = watch(command.directory, "jobs", "cancel", "--type=nap", "--yes", "--format=jsonl", "--url", url)
    assert ended.returncode == 0
    assert [json.loads(line)["outcome"] for line in ended.stdout.splitlines()] == ["cancelled"] * 1200
    assert "cancel: 1,200 jobs" in ended.drawn


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["jobs", "cancel"], "say which"),
        (["jobs", "cancel", _NOBODY, "--queue=mail"], "not both"),
        (["jobs", "cancel", "nonsense", "--yes"], "must be a UUID"),
        (["jobs", "reschedule", _NOBODY], "--at or --delay"),
        (["jobs", "reschedule", _NOBODY, "--at=2h"], "is not a time"),
        (["jobs", "reschedule", _NOBODY, "--at=now", "--delay=2h"], "--at or --delay"),
        (["jobs", "retry", "--strict", "--queue=mail", "--yes"], "strict"),
        (["jobs", "remove", "nap"], "KEY"),
        (["dead", "retry", "--all", _NOBODY], "--all"),
        (["dead", "retry", "--yes"], "or --all"),
    ],
)
def test_errors(command: CommandLine, client: Client, url: str, arguments: list[str], words: str) -> None:
    """What is wrong and what would be right, before anything is done."""
    ended = command.run(*arguments, "--url", url)
    assert ended.returncode == 2, ended.stderr
    assert words in ended.stderr
    assert ended.stdout == ""
    assert _statuses(client) == []
