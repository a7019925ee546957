"""A PostgreSQL server whose clock is put forward and back while it runs, by libfaketime."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tools.postgres_server import INSTALL_HINT, PostgresServer, available


@dataclass(frozen=True)
class SteppingServer:
    """Its clock is the machine's, plus a step."""

    server: PostgresServer
    _file: Path

    def step(self, by: timedelta) -> None:
        """From now on it is so much later than it is, or earlier."""
        _write(self._file, by)


@contextmanager
def stepping_server() -> Iterator[SteppingServer]:
    """Until the end of the block."""
    # Not pytest's directory, which is private: the server runs as somebody else, who reads the library and the step.
    with tempfile.TemporaryDirectory(prefix="holdfast-clock-") as directory:
        Path(directory).chmod(0o755)
        with _stepping_server(Path(directory)) as stepping:
            yield stepping


@contextmanager
def _stepping_server(directory: Path) -> Iterator[SteppingServer]:
    library = Path(shutil.copy(_library(), directory / "libfaketime.so.1"))
    library.chmod(0o755)
    steps = directory / "step"
    _write(steps, timedelta())
    settings = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(steps),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    if 18 not in available():
        pytest.fail(f"PostgreSQL 18 is missing; {INSTALL_HINT}", pytrace=False)
    server = PostgresServer(available()[18])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setitem(os.environ, name, value)  # the server's processes inherit it, this one was started without
        server.start()
    try:
        yield SteppingServer(server, steps)
    finally:
        server.stop()


def _write(file: Path, by: timedelta) -> None:
    """At once: a server that reads half of it would be in 1970."""
    new = file.with_suffix(".new")
    new.write_text(f"{by.total_seconds():+.0f}\n")
    new.chmod(0o644)
    new.replace(file)


def _library() -> Path:
    spec = importlib.util.find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
