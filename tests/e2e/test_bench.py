"""`holdfast bench`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tests.crew.traces import processes
from tests.crew.waiting import wait_for
from tests.e2e.conftest import CommandLine

SMALL = ("--jobs", "1000", "--samples", "10")


def left_behind(url: str) -> list[str]:
    """Schemas, or files beside the one that was named."""
    if url.startswith("sqlite:"):
        return [path.name for path in Path(url.removeprefix("sqlite:///")).parent.glob("holdfast_bench*")]
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'holdfast%'")
        return [name for (name,) in found]


def test_it_measures_and_leaves_nothing(command: CommandLine, url: str) -> None:
    """As a table, with two processes, and as JSON; neither a file nor a schema of the user's is made or kept."""
    done = command.run("bench", "--url", url, *SMALL, "--processes", "2")
    assert done.returncode == 0, done.stderr
    for said in ("enqueue, one by one", "enqueue, in batches", "drain, 2 worker processes", "p50 / p99"):
        assert said in done.stdout
    told = json.loads(command.run("bench", *SMALL, "--format", "json", HOLDFAST_URL=url).stdout)
    assert told["worker_processes"] == 1
    assert all(value > 0 for value in told.values())
    assert told["enqueue_to_start_p50_ms"] <= told["enqueue_to_start_p99_ms"]
    assert left_behind(url) == []
    if url.startswith("sqlite:"):
        assert not Path(url.removeprefix("sqlite:///")).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_interrupted_it_leaves_nothing(command: CommandLine, url: str, number: signal.Signals) -> None:
    """Neither at its beginning nor while workers run; nor a worker."""
    begun: list[Callable[[], bool]] = [lambda: bool(left_behind(url)), lambda: len(processes(command.mark)) > 1]
    for is_far_enough in begun:
        running = command.start("bench", "--url", url, "--jobs", "100000")
        wait_for(lambda: is_far_enough() or running.process.poll() is not None, "it has begun")  # noqa: B023 - at once
        assert running.process.poll() is None
        running.signal(number)
        assert running.exit_code() == 130
        assert left_behind(url) == []
        assert processes(command.mark) == set()


def test_folders_with_strange_names(command: CommandLine, tmp_path: Path) -> None:
    """What stands for a character in a URL is that character."""
    folder = tmp_path / "c#1"
    folder.mkdir()
    done = command.run("bench", "--url", f"sqlite:///{quote(str(folder / 'app.db'))}", *SMALL)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c#1", "user"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--url", "sqlite:////nowhere/at/all/app.db"), "there is no folder /nowhere/at/all to measure in"),
        (("--url", "postgresql://127.0.0.1:1/app"), "127.0.0.1:1"),
        (("--jobs", "3"), "--jobs"),
        (("--processes", "0"), "--processes"),
    ],
)
def test_what_cannot_be_measured(command: CommandLine, arguments: tuple[str, ...], said: str) -> None:
    """Is refused in a line."""
    done = command.run("bench", *arguments)
    assert done.returncode in {1, 2}
    assert said in done.stderr
    assert "Traceback" not in done.stderr
