"""The end of a process that cannot wait for its handlers."""

from __future__ import annotations

import subprocess
import sys
import time

SCRIPT = """
import sys, time
from holdfast.worker.process import _exit

def say_farewell():
    time.sleep(float(sys.argv[1]))
    print("said", flush=True)

_exit(3, say_farewell)
"""


def _said(seconds: float) -> str:
    command = [sys.executable, "-c", SCRIPT, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 3, done.stderr
    return done.stdout


def test_the_last_hints_are_waited_for() -> None:
    """They are sent by threads, which would end with the process."""
    assert _said(0.1) == "said\n"


def test_but_not_for_long() -> None:
    """The server that carries them may be gone."""
    began = time.monotonic()
    assert not _said(600)
    assert time.monotonic() - began < 20
