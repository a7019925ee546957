"""Worker processes of a command: real ones, started with the command that users start them with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.app import App
from holdfast.cli.interruption import Interruption
from holdfast.errors import WorkerCannotWork

_STOP_SECONDS = 20


@dataclass
class WorkerProcess:
    """One of them."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    state: str = "working"

    @property
    def pid(self) -> int:
        return self.process.pid


class Fleet:
    """Starts them, kills one, stops the others, and leaves none behind.

    - `make_app`: makes the app of each of them, from `variables`; what the user has set for workers of his own is not
      for these.
    - `directory`: for what they say.
    """

    def __init__(
        self,
        make_app: Callable[[], App],
        variables: Mapping[str, str],
        directory: Path,
        interruption: Interruption,
        *options: str,
    ) -> None:
        self._interruption = interruption
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._environment = {**inherited, **variables}
        self._directory = directory
        target = f"{make_app.__module__}:{make_app.__name__}"
        self._command = [sys.executable, "-m", "holdfast", "worker", target, *options]
        self.workers: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()

    def start(self) -> None:
        """One more worker; Ctrl-C in the terminal does not reach it, the command decides how it ends."""
        number = len(self.workers) + 1
        log = self._directory / f"worker-{number}.log"
        with log.open("wb") as output, self._interruption.deferred():
            process = subprocess.Popen(  # noqa: S603 - our own command
                self._command, env=self._environment, stdout=output, stderr=output, start_new_session=True
            )
            self.workers.append(WorkerProcess(number, process, log))

    @contextmanager
    def frozen(self, worker: WorkerProcess) -> Iterator[None]:
        """It does nothing inside the block, and goes on afterwards if it was not killed."""
        worker.process.send_signal(signal.SIGSTOP)
        with suppress(ChildProcessError):  # it has ended by itself, which `check` will tell
            os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # signals take a moment to arrive
        try:
            yield
        finally:
            if worker.state == "working":
                worker.process.send_signal(signal.SIGCONT)

    def kill(self, worker: WorkerProcess) -> None:
        """SIGKILL: no goodbye, no clean-up."""
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
        worker.state = "killed"

    def stop(self) -> None:
        """SIGTERM to those that work, and wait."""
        working = [worker for worker in self.workers if worker.state == "working"]
        for worker in working:
            worker.process.send_signal(signal.SIGTERM)
        for worker in working:
            code = worker.process.wait(_STOP_SECONDS)
            worker.state = "stopped" if code == 0 else f"exit code {code}"

    def check(self) -> None:
        """Raise if one ended that nobody killed."""
        for worker in self.workers:
            if worker.state == "working" and (code := worker.process.poll()) is not None:
                last = worker.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise WorkerCannotWork(f"worker {worker.number} ended with exit code {code}: {last[0]}")
