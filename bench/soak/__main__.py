"""`python3 dev.py soak`: a mixed load for minutes; tables, WAL and memory must not grow while history is pruned."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from tempfile import TemporaryFile
from typing import IO

from rich.console import Console
from rich.table import Table

from bench.databases import Database, databases
from bench.processes import ROOT
from bench.soak.judgement import Sample, Verdict, judge
from bench.soak.samples import JUDGED, open_sampler

_MOST_SAMPLES = 180
_SHORTEST_PAUSE = 1.0
#: one of the two workers is killed so often, and another one started
_KILL_SECONDS = 20.0


class Processes:
    """A worker that stays, one that is killed now and then, and one that enqueues."""

    def __init__(self, url: str) -> None:
        self._environment = {
            **os.environ,
            "HOLDFAST_URL": url,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        self._victim: subprocess.Popen[bytes] | None = None
        # Of the one that enqueues; workers log all the time what fails on purpose.
        self._said = TemporaryFile()  # noqa: SIM115 - closed at the end
        self._steady = [
            self._start("holdfast", "worker", "bench.soak.jobs:app"),
            self._start("bench.soak.load", said=self._said),
        ]
        self.replace_victim()

    @property
    def pids(self) -> list[int]:
        """Of those whose memory counts: they are there from the beginning to the end."""
        return [process.pid for process in self._steady]

    def replace_victim(self) -> None:
        if self._victim is not None:
            self._victim.kill()
            self._victim.wait()
        self._victim = self._start("holdfast", "worker", "bench.soak.jobs:app")

    def check(self) -> None:
        for process in self._steady:
            if process.poll() is not None:
                self._said.seek(0)
                said = self._said.read().decode(errors="replace")[-2_000:]
                raise RuntimeError(f"{process.args!r} ended with exit code {process.returncode}: {said}")

    def end(self) -> None:
        for process in filter(None, [*self._steady, self._victim]):
            process.kill()
            process.wait()
        self._said.close()

    def _start(self, *arguments: str, said: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *arguments]
        return subprocess.Popen(
            command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if said is None else said,
            cwd=ROOT,
        )


def soak(database: Database, seconds: float, say: Console) -> list[Sample]:
    """The samples, from the beginning on."""
    samples: list[Sample] = []
    with ExitStack() as stack:
        stack.enter_context(database.fresh())
        _create_schema(database.url)
        processes = Processes(database.url)
        stack.callback(processes.end)
        sampler = stack.enter_context(open_sampler(database))
        began = killed_at = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            time.sleep(max(_SHORTEST_PAUSE, seconds / _MOST_SAMPLES))
            processes.check()
            samples.append(Sample(time.monotonic() - began, sampler.take(processes.pids)))
            if time.monotonic() - killed_at > _KILL_SECONDS:
                processes.replace_victim()
                killed_at = time.monotonic()
            if len(samples) % 10 == 0:
                finished = samples[-1].figures["finished"]
                say.print(f"{database.name}: {passed:.0f} of {seconds:.0f} s, {finished:,.0f} finished")
    if samples[-1].figures["finished"] < 1:
        raise RuntimeError("no job has finished")
    # The first one has no time before it that rates could be of.
    return samples[1:]


def _create_schema(url: str) -> None:
    command = [sys.executable, "-m", "holdfast", "migrate", "up", "--url", url]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dev.py soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0, help="for each database; default: 15")
    parser.add_argument("--database", choices=["sqlite", "postgres"], action="append", help="default: both")
    parser.add_argument("--major", type=int, help="PostgreSQL major version; default: 15 where present, else 18")
    parser.add_argument("--limit", type=float, default=1.0, help="growth in percent per minute; default: 1")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    chosen = parser.parse_args(arguments)

    verdicts = {
        database.name: judge(soak(database, chosen.minutes * 60, Console(stderr=True)), JUDGED, chosen.limit)
        for database in databases(chosen.database or ["sqlite", "postgres"], chosen.major)
    }
    if chosen.format == "json":
        shown = {
            name: [asdict(each) | {"is_exceeded": each.is_exceeded} for each in of] for name, of in verdicts.items()
        }
        print(json.dumps(shown, indent=2))
    else:
        _print_table(verdicts)
    return exit_code(verdicts.values())


def exit_code(verdicts: Iterable[Sequence[Verdict]]) -> int:
    """1 if anything that is judged has grown by more than its limit."""
    return int(any(each.is_exceeded for of in verdicts for each in of))


def _print_table(verdicts: dict[str, list[Verdict]]) -> None:
    table = Table("database", "figure", "after a third", "at the end", "% per minute", "limit", "")
    for database, each in ((name, each) for name, of in verdicts.items() for each in of):
        limit = "" if each.limit is None else f"{each.limit:g}"
        word = "EXCEEDED" if each.is_exceeded else "ok" if limit else ""
        values = [f"{value:,.1f}" for value in (each.first, each.last, each.percent_per_minute)]
        table.add_row(database, each.name, *values, limit, word)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
