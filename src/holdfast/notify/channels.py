"""The names under which hints travel."""

from __future__ import annotations


def work_channel(prefix: str) -> str:
    """The channel on which work is announced."""
    return f"{prefix}_work"


def lease_channel(prefix: str) -> str:
    """The channel on which workers are told that something has happened to jobs they hold."""
    return f"{prefix}_lease"


def chain_channel(prefix: str, token: str) -> str:
    """A channel on which the ends of chains are told to one waiting process and nobody else."""
    return f"{prefix}_chain_{token}"
