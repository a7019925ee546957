"""`holdfast prune`, `holdfast vacuum`, `holdfast settings`."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from holdfast import App, JobFilter
from tests.crew.waiting import wait_for
from tests.e2e.conftest import CommandLine


def cancelled(app: App, count: int) -> list[str]:
    """So many chains that have ended."""
    with app.client() as client:
        chains = client.enqueue_many([app.call("greet", name="Ada") for _ in range(count)])
        client.cancel(JobFilter(type_name="greet"))
    return [chain.id for chain in chains]


def test_prune_and_vacuum(command: CommandLine, url: str, app: App) -> None:
    """Counted first, then removed; in words and as JSON."""
    cancelled(app, 3)
    app.close()
    dry = command.run("prune", "--url", url, "--older-than", "0", "--dry-run")
    assert (dry.returncode, dry.stdout) == (0, "3 chains would be removed\n")
    assert command.run("prune", "--url", url).stdout == "0 chains removed\n"
    pruned = command.run("prune", "--url", url, "--older-than", "0s", "--format", "json")
    assert json.loads(pruned.stdout)["removed"] == 3
    vacuumed = command.run("vacuum", "--url", url)
    assert vacuumed.returncode == 0, vacuumed.stderr
    assert "MiB given back" in vacuumed.stdout
    assert json.loads(command.run("vacuum", "--url", url, "--format", "json").stdout)["is_incremental"] is True


def test_settings(command: CommandLine, url: str, app: App) -> None:
    """Set, listed, unset; what cannot be is named."""
    with app.client() as client:
        client.migrate()
    app.close()
    assert command.run("settings", "list", "--url", url).stdout == "nothing is set: all is as the code says\n"
    done = command.run("settings", "set", "keep_completed", "2d", "--type", "greet", "--url", url)
    assert (done.returncode, done.stdout) == (0, "keep_completed of greet is 2d\n")
    assert command.run("settings", "set", "archive", "true", "--url", url).stdout == "archive is true\n"
    assert command.run("settings", "set", "max_attempts", "7", "--url", url).returncode == 0
    listed = json.loads(command.run("settings", "list", "--url", url, "--format", "json").stdout)
    assert [(each["name"], each["type_name"], each["value"]) for each in listed] == [
        ("archive", None, True),
        ("keep_completed", "greet", 172800.0),
        ("max_attempts", None, 7),
    ]
    for wrong in (
        ("max_attempts", "0"),
        ("max_attempts", "many"),
        ("archive", "perhaps"),
        ("retry_jitter", "2"),
        ("keep_archive", "soon"),
        ("nothing", "1"),
    ):
        refused = command.run("settings", "set", *wrong, "--url", url)
        assert refused.returncode == 2, wrong
        assert refused.stderr.startswith("error: ")
    assert command.run("settings", "unset", "archive", "--url", url).stdout == "archive is no longer set\n"
    assert command.run("settings", "unset", "archive", "--url", url).returncode == 1


def test_killed_in_the_middle(command: CommandLine, url: str, app: App) -> None:
    """SIGKILL leaves every chain in one of the two places, whole; the next run does the rest."""
    ids = set(cancelled(app, 6000))
    with app.client() as client:
        client.settings.set("archive", value=True)
        pruning = command.start("prune", "--older-than", "0", "--url", url)
        wait_for(lambda: places(url)[1], "something is archived")
        pruning.signal(signal.SIGKILL)
        pruning.exit_code()
        jobs, archived = places(url)
        assert jobs | archived == ids
        assert not jobs & archived
        assert client.get_job(next(iter(archived))).status == "cancelled"
        assert client.admin.prune(older_than=0).archived == len(jobs)
        assert places(url) == (set(), ids)
    app.close()


def places(url: str) -> tuple[set[str], set[str]]:
    """The jobs in the table and those in the archive, at one moment."""
    text = "SELECT id, 0 FROM {0}job UNION ALL SELECT id, 1 FROM {0}job_archive"
    rows: list[tuple[Any, int]]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            rows = file.execute(text.format("holdfast_")).fetchall()
    else:
        with psycopg.connect(url) as connection:
            rows = connection.execute(sql.SQL(text.format("holdfast."))).fetchall()
    return {str(row[0]) for row in rows if row[1] == 0}, {str(row[0]) for row in rows if row[1] == 1}
