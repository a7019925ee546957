"""The `holdfast` command: reads its arguments, calls the rooms below, prints what they say.

It knows no SQL and no driver, and it decides nothing about jobs.
"""

from holdfast.cli.command import main

__all__ = ["main"]
