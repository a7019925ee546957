"""The `holdfast` command with somebody watching: one of its streams is a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")
_COLUMNS = 120


@dataclass(frozen=True)
class Watched:
    """How it ended; `drawn` is what the terminal got, without colours and cursor movements."""

    returncode: int
    drawn: str
    stdout: str


def watch(directory: Path, *arguments: str, is_stdout_watched: bool = False, **variables: str) -> Watched:
    """Run it with stderr, or both streams, on a terminal."""
    outside, inside = pty.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(outside, 65_536)
            except OSError:  # how Linux says that nobody holds the other end
                return
            if not piece:
                return
            pieces.append(piece)

    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=directory, text=True, stdout=inside if is_stdout_watched else subprocess.PIPE, stderr=inside,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(_COLUMNS), **variables},
    )  # fmt: skip
    os.close(inside)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        output, _ = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        process.kill()  # or it would be found behind the tests that follow
        process.communicate()
        raise
    finally:
        reader.join(10)
    os.close(outside)
    return Watched(process.returncode, _CONTROL.sub("", b"".join(pieces).decode(errors="replace")), output or "")
