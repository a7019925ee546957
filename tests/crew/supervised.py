"""The crew's jobs in processes that a supervisor keeps: the real command, found by a mark that all of it carries."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast import App
from tests.crew.jobs import make_jobs
from tests.crew.process import Crew
from tests.crew.traces import end_processes, processes
from tests.crew.waiting import PATIENCE_SECONDS, wait_for

_ROOT = Path(__file__).resolve().parents[2]


def make_app() -> App:
    """What the processes load."""
    return make_jobs(os.environ["HOLDFAST_URL"], Path(os.environ["CREW_LEDGER"])).app


@dataclass(frozen=True)
class Supervised:
    """A supervisor and what it started."""

    process: subprocess.Popen[bytes]
    mark: str
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self.log.read_text()

    @property
    def processes(self) -> set[int]:
        """All of it, the supervisor too."""
        return processes(self.mark)

    def wait_serving(self, count: int) -> list[int]:
        """The ids of the worker processes."""

        def serving() -> list[int]:
            found = [int(pid) for pid in re.findall(r"worker \S+-(\d+)-\w+ serves", self.said)]
            return found if len(found) >= count else []

        return wait_for(serving, f"{count} processes serve")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def join(self, patience: float = PATIENCE_SECONDS) -> int:
        return self.process.wait(patience)


@contextlib.contextmanager
def supervised(crew: Crew, *options: str) -> Iterator[Supervised]:
    """Nothing of it may be left when the block ends, whoever ended it."""
    mark = uuid.uuid4().hex
    log = crew.directory / f"supervisor-{mark[:8]}.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(_ROOT)]))
    variables = {"TEST_MARK": mark, "HOLDFAST_URL": crew.url, "CREW_LEDGER": str(crew.ledger.path), "PYTHONPATH": path}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "worker", "tests.crew.supervised:make_app", *options],
            cwd=crew.directory,
            env={**inherited, **variables},
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )
    started = Supervised(process, mark, log)
    try:
        yield started
        wait_for(lambda: not started.processes, "no process is left")
    finally:
        end_processes(mark)
        process.wait()
        with crew.log.open("a") as account:
            account.write(started.said)
