"""A deploy: processes of this code beside those of a copy that has one more migration.

As a program it is one of these processes: `python -m tests.crew.deploy ROLE URL DIRECTORY`.
"""

from __future__ import annotations

import compileall
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import holdfast
from tests.crew.database import Database
from tests.crew.jobs import Jobs, make_jobs
from tests.crew.ledger import Ledger
from tests.crew.process import STEADY
from tests.crew.report import say
from tests.crew.waiting import PATIENCE_SECONDS, wait_for

ROOT = Path(__file__).resolve().parents[2]
#: where the code under test lies
THIS_CODE = Path(holdfast.__file__).resolve().parents[1]
NEXT_VERSION = "99.0.0"

_MIGRATION = """\
-- {name}: jobs get a column, and there is a new table.
-- locks: the job table for a moment.
-- deploy order: migrate first.
-- oldest code: {oldest_code}
-- part: column
ALTER TABLE /*schema.*/job ADD COLUMN of_the_next integer NOT NULL DEFAULT 7;
-- part: mark
CREATE TABLE /*schema.*/next_mark (number integer NOT NULL);
-- part: marked
INSERT INTO /*schema.*/next_mark (number) VALUES (1);
"""


def newer_code(directory: Path, oldest_code: str = "0.1.0") -> Path:
    """A copy of this code, of a later release, that has one more migration; to be put on the path."""
    copy = directory / "newer"
    shutil.copytree(THIS_CODE / "holdfast", copy / "holdfast")
    # Otherwise each process would do it.
    compileall.compile_dir(copy, quiet=2)
    metadata = copy / f"holdfast-{NEXT_VERSION}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: holdfast\nVersion: {NEXT_VERSION}\n")
    for dialect in ("postgres", "sqlite"):
        migrations = copy / "holdfast" / "sql" / dialect / "migrations"
        number = max(int(path.name.partition("_")[0]) for path in migrations.glob("*.sql")) + 1
        name = f"{number:04d}_next_step"
        (migrations / f"{name}.sql").write_text(_MIGRATION.format(name=name, oldest_code=oldest_code))
    return copy


class Deploy:
    """The processes of one test; their output goes to a log."""

    def __init__(self, database: Database, directory: Path) -> None:
        self._database = database
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.ledger = Ledger(directory / "ledger.jsonl")
        self.log = directory / "deploy.log"

    def start(self, code: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """`python -m …` with that code."""
        path = os.pathsep.join([str(code), str(ROOT)])
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env={**os.environ, "PYTHONPATH": path, "HOLDFAST_URL": self._database.url},
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def play(self, code: Path, role: str) -> subprocess.Popen[bytes]:
        return self.start(code, "tests.crew.deploy", role, self._database.url, str(self._directory))

    def migrate(self, code: Path) -> subprocess.Popen[bytes]:
        return self.start(code, "holdfast", "migrate", "up")

    def wait_worked(self, process: subprocess.Popen[bytes], jobs: int = 10) -> None:
        """Until it has finished some more jobs than it had."""
        before = self._finished(process)

        def has_worked() -> bool:
            assert process.poll() is None, f"{process.pid} has ended"
            return self._finished(process) >= before + jobs

        wait_for(has_worked, f"{process.pid} works", patience=60, pause=0.1)

    def end_production(self) -> list[list[int]]:
        """No more jobs come; the numbers of those that did, by kind: each in the order of a quartet."""
        (self._directory / "enough").touch()
        quartets = []
        for path in self._directory.glob("accepted-*"):
            process = next(each for each in self._processes if path.name == f"accepted-{each.pid}")
            assert process.wait(PATIENCE_SECONDS) == 0
            quartets += [json.loads(line) for line in path.read_text().splitlines()]
        return quartets

    @property
    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _finished(self, process: subprocess.Popen[bytes]) -> int:
        return sum(entry.pid == process.pid for entry in self.ledger.read("finished"))


@contextmanager
def deploy_on(database: Database, directory: Path) -> Iterator[Deploy]:
    """Nothing of it survives the test."""
    deploy = Deploy(database, directory)
    try:
        yield deploy
    finally:
        deploy.end()
        say(deploy.said[-20_000:])


def stop(process: subprocess.Popen[bytes]) -> int:
    """SIGTERM; the exit code."""
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE_SECONDS)


# --- in the processes -------------------------------------------------------------------------------------------------


def _work(jobs: Jobs) -> None:
    @jobs.app.schedule("* * * * * *", name="seconds", catch_up="all")
    @jobs.app.job()
    async def tick() -> None: ...

    jobs.app.run_worker(replace(STEADY, concurrency=3))


def _produce(jobs: Jobs, directory: Path) -> None:
    """Quartets: one, a chain of three, one that fails once, and one that waits for these."""
    numbers = itertools.count(os.getpid() * 100_000)
    with jobs.app.client() as client, (directory / f"accepted-{os.getpid()}").open("w") as accepted:
        while not (directory / "enough").exists():
            quartet = list(itertools.islice(numbers, 4))
            chains = client.enqueue_many(
                [
                    jobs.note.call(number=quartet[0], pause=0.02),
                    jobs.relay.call(number=quartet[1], left=2, pause=0.01),
                    jobs.fail.call(number=quartet[2], times=1),
                ]
            )
            client.enqueue(jobs.note.call(number=quartet[3]), blockers=chains)
            accepted.write(json.dumps(quartet) + "\n")
            accepted.flush()
            time.sleep(0.08)


def _open(jobs: Jobs, directory: Path) -> None:
    """All at once: when everybody is there."""
    (directory / f"here-{os.getpid()}").touch()
    while not (directory / "go").exists():
        time.sleep(0.001)
    with jobs.app.client() as client:
        client.list_jobs()


def main(role: str, url: str, directory: Path) -> None:
    jobs = make_jobs(url, directory / "ledger.jsonl")
    match role:
        case "worker":
            _work(jobs)
        case "producer":
            _produce(jobs, directory)
        case "opener":
            _open(jobs, directory)
    jobs.app.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
