"""What a run was made on."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path


def describe(command: str, rounds: int, scale: float) -> dict[str, object]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": command,
        "rounds": rounds,
        "scale": scale,
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "SQLite": sqlite3.sqlite_version,
        "load at the beginning": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def _first(file: str, name: str) -> str:
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""
