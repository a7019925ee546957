"""A file to which many processes append, and in the middle of which any of them may be killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def append_line(path: Path, value: object) -> None:
    """By one write, so that lines of many processes do not mix.

    A write may be cut short by SIGKILL where a page of the file ends: whoever comes next begins a line of his own.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"\n{json.dumps(value)}\n".encode())
    finally:
        os.close(descriptor)


def whole_lines(path: Path) -> Iterator[Any]:
    """What was written to its end; one that is just being written, or never will be, is passed by."""
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
