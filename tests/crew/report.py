"""What a test wants to be seen with its failure: seeds, counts, logs."""

from __future__ import annotations

import sys


def say(text: object) -> None:
    """Captured by pytest, and shown if the test fails."""
    sys.stdout.write(f"{text}\n")
