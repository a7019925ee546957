"""The `holdfast` command in a process of its own that has imported it already: forked in 30 ms instead of 600.

Nothing else differs from `python -m holdfast`; whatever starts processes by itself is not run so.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: they start workers, which look at how their own process was started
COLD = {"worker", "demo", "bench"}

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.crew.process", "tests.e2e.warm_command", "holdfast.cli.command", "psycopg"])


def run_warm(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], patience: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with captured output."""
    streams = [directory.parent / name for name in ("stdout", "stderr")]
    process = _processes.Process(target=_main, args=(arguments, directory, dict(environment), streams))
    process.start()
    process.join(patience)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(["holdfast", *arguments], patience)
    out, err = (stream.read_text() for stream in streams)
    return subprocess.CompletedProcess(["holdfast", *arguments], process.exitcode, out, err)


def _main(arguments: Sequence[str], directory: Path, environment: Mapping[str, str], streams: Sequence[Path]) -> None:
    for number, stream in enumerate(streams, start=1):
        descriptor = os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.path[0] = str(directory)
    sys.argv = ["holdfast", *arguments]
    try:
        runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
    finally:
        # A process that was forked ends without them.
        atexit._run_exitfuncs()
