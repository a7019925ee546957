"""`holdfast demo`: the whole story, once, and its ledger taken at its word."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

from tests.e2e.conftest import CommandLine


def test_the_ledger_balances(command: CommandLine) -> None:
    """Every job is accounted for, one worker was really killed, nothing was lost, nothing finished twice."""
    ended = command.run("demo", "--jobs=800", "--keep", TMPDIR=str(command.directory))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"killed worker 2 \(pid \d+, SIGKILL\) while it held [1-9]\d* jobs", ended.stdout)
    story, _, account = ended.stdout.partition("\nLedger\n")
    assert "worker 1 stopped, worker 2 killed, worker 3 stopped" in story
    figures = re.finditer(r"^([a-z ]+?) +([\d,]+)\b", account, re.MULTILINE)
    ledger = {match[1]: int(match[2].replace(",", "")) for match in figures}
    assert ledger["enqueued"] == 800
    assert ledger["finished"] == 799
    assert ledger["dead letters"] == 1
    assert ledger["retried"] == 81
    assert ledger["returned after the crash"] > 0
    assert (ledger["lost"], ledger["finished twice"]) == (0, 0)

    found = re.search(r"holdfast (jobs list --url \S+)", account)
    assert found is not None
    dead = command.run(*found[1].split(), "--status=dead_letter", "--format=jsonl")
    assert [json.loads(line)["type_name"] for line in dead.stdout.splitlines()] == ["import_file"]


def test_interrupted_it_leaves_nothing_behind(command: CommandLine) -> None:
    """Ctrl-C ends its workers and removes its directory; the exit code says so."""
    running = command.start("demo", TMPDIR=str(command.directory))
    pids = [int(pid) for pid in running.expect("started workers").partition("started workers ")[2].split(", ")]
    running.signal(signal.SIGINT)
    assert running.exit_code() == 130
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert list(command.directory.glob("holdfast-demo-*")) == []
