"""The runner's side of what it says with an adapter (see `adapters/protocol.py`)."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dev
from bench.peers.environments import Environment

_STOP_SECONDS = 30.0
_LAST_WORDS = 2000


class AdapterFailed(Exception):
    """Carries what the adapter said of it."""


class Conversation:
    """One adapter process."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a process without pipes cannot be talked to")
        self._process = process
        self._commands, self._lines = process.stdin, process.stdout
        self._errors = errors
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.waited_ns: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.started = 0
        self.first_ns = 0
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def ask(self, do: str, timeout: float = 600, **arguments: object) -> Any:
        """What it answers."""
        try:
            self._commands.write(json.dumps({"do": do, **arguments}) + "\n")
            self._commands.flush()
            answer = self._answers.get(timeout=timeout)
        except (BrokenPipeError, queue.Empty) as error:
            raise AdapterFailed(f"no answer to {do}: {error!r}\n{self._last_words()}") from error
        if answer is None or "failed" in answer:
            raise AdapterFailed(f"{do}: {answer['failed'] if answer else 'it ended'}\n{self._last_words()}")
        return answer["done"]

    def end(self) -> None:
        with contextlib.suppress(AdapterFailed):
            self.ask("stop", _STOP_SECONDS)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()
        self._lines.close()
        with contextlib.suppress(BrokenPipeError):
            self._commands.close()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def check(self) -> None:
        if self.has_ended:
            raise AdapterFailed(f"it ended with exit code {self._process.returncode}\n{self._last_words()}")

    def _read(self) -> None:
        for line in self._lines:
            said = json.loads(line)
            if "waited_ns" in said:
                self.waited_ns.put(said["waited_ns"])
            elif "started" in said:
                self.started, self.first_ns = said["started"], said["first_ns"]
            else:
                self._answers.put(said)
        self._answers.put(None)

    def _last_words(self) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")[-_LAST_WORDS:]


@contextmanager
def conversation(environment: Environment, url: str, settings: Mapping[str, object]) -> Iterator[Conversation]:
    inherited = {name: value for name, value in os.environ.items() if name not in dev.NOT_INHERITED}
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "errors"
        with errors.open("w") as file:
            process = subprocess.Popen(
                [*environment.command, json.dumps({"url": url, "settings": settings})],
                # `python -m` finds adapters from here; no library has a name that stands here.
                cwd=dev.ROOT,
                env={**inherited, **environment.variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        talk = Conversation(process, errors)
        try:
            yield talk
        finally:
            talk.end()
