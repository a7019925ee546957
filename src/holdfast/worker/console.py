"""What a process of ours writes to the console."""

from __future__ import annotations

import io
import logging
import sys


def open_console(level: int | str) -> None:
    """Log to stderr; what a handler prints is seen when it is printed, into a pipe or a file too."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
