"""The example workers in bash and in Node: they run what Python enqueues, with SQL and the worker's role alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Client, Job, Retry
from holdfast.errors import ChainFailed
from tests.conformance.sql_surface.conftest import REAPER, Surface, psql_program
from tests.crew.waiting import wait_for

EXAMPLES = Path(__file__).parents[3] / "examples" / "workers"
NASTY = """it's "quoted" \\ $body$ `date` %s :'id' \n second line ü 🙂"""

BASH_HANDLERS = {
    "echo_back": "cat",
    "fails": "echo 'disk full' >&2; exit 3",
    "slow": 'echo "$$" >> "$MARKS/started"; until [ -e "$MARKS/gate" ]; do sleep 0.05; done; echo \'"done"\'',
    "babbles": "echo this is not JSON",
}
NODE_HANDLERS = """
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
const marks = process.env.MARKS
export const echo_back = (input) => input
export const fails = () => { throw new Error('disk full') }
export async function slow(input, { signal }) {
  appendFileSync(`${marks}/started`, `${process.pid}\\n`)
  while (!existsSync(`${marks}/gate`)) await sleep(50, null, { signal })
  return 'done'
}
export const babbles = () => ({ toJSON() { throw new Error('this is not JSON') } })
"""


@dataclass
class Foreign:
    """Starts workers of one language, and enqueues for them from Python."""

    surface: Surface
    language: str
    directory: Path
    app: App
    client: Client
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def start(self) -> subprocess.Popen[str]:
        command = [EXAMPLES / "worker.sh"]
        if self.language == "node":
            node = shutil.which("node")
            if node is None:
                pytest.fail("node is missing; install it with: sudo apt-get install nodejs", pytrace=False)
            command = [Path(node), EXAMPLES / "worker.mjs", self.directory / "handlers.mjs"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment |= {
            "PATH": f"{psql_program().parent}{os.pathsep}{os.environ['PATH']}",
            "DATABASE_URL": self.surface.url_of("worker"),
            "HOLDFAST_SCHEMA": self.surface.schema,
            "QUEUES": "foreign",
            "HANDLERS": str(self.directory),
            "MARKS": str(self.directory),
            "RENEW_SECONDS": "0.3",
            "POLL_SECONDS": "0.1",
        }
        process = subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        assert process.stdout is not None
        greeting, _, name = process.stdout.readline().rstrip().partition(" ")
        assert greeting == "worker"
        self.names.append(name)
        return process

    def enqueue(self, type_name: str, **arguments: Any) -> str:
        return self.client.enqueue(self.app.call(type_name, **arguments)).id

    def ended(self, job_id: str) -> Job:
        wait_for(lambda: self.client.get_job(job_id).status.is_terminal, "the job ends")
        return self.client.get_job(job_id)

    def runs(self, times: int) -> None:
        """Until the slow handler has begun so many times."""
        marks = self.directory / "started"
        wait_for(lambda: marks.exists() and len(marks.read_text().splitlines()) >= times, f"{times} runs begun")

    def open_gate(self) -> None:
        (self.directory / "gate").touch()


@pytest.fixture(params=["bash", "node"])
def foreign(request: pytest.FixtureRequest, surface: Surface, tmp_path: Path) -> Iterator[Foreign]:
    app = App(surface.url, schema=surface.schema, notify=False)

    @app.job(queue="foreign")
    def echo_back(text: str, number: int | None = None) -> dict[str, Any]: ...  # type: ignore[empty-body]  # handled elsewhere

    @app.job(queue="foreign", retry=Retry(max_attempts=2, initial=0))
    def fails() -> None: ...

    @app.job(queue="foreign", retry=Retry(max_attempts=5, initial=0))
    def slow() -> str: ...  # type: ignore[empty-body]  # handled elsewhere

    @app.job(queue="foreign", retry=Retry(max_attempts=1))
    def babbles() -> None: ...

    for name, text in BASH_HANDLERS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "handlers.mjs").write_text(NODE_HANDLERS)
    for name, options in (("fails", "max_attempts => 2"), ("slow", ""), ("babbles", "max_attempts => 1")):
        given = ", ".join(filter(None, [f"'{name}'", "'foreign'", "retry_initial => '0'", options]))
        surface.sql(f"SELECT {{s}}.register_type({given})", role="worker")
    with app.client() as client:
        foreign = Foreign(surface, str(request.param), tmp_path, app, client)
        yield foreign
        for process in foreign.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
            assert process.stdout is not None
            process.stdout.close()
        # A claim that is under way when its psql dies would take a job of the next test.
        left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'psql' AND datname = current_database()"
        wait_for(lambda: surface.one(left) == 0, "the last statements end")
    app.close()


def test_complete_and_fail(foreign: Foreign) -> None:
    """Arguments and outputs arrive as they were sent; failures are retried by the type's policy, and say why."""
    echoed = foreign.client.enqueue(foreign.app.call("echo_back", text=NASTY, number=None))
    failing, babbling = foreign.enqueue("fails"), foreign.enqueue("babbles")
    foreign.start()
    assert foreign.client.wait(echoed, timeout=30) == {"text": NASTY, "number": None}
    dead = foreign.ended(failing)
    assert (dead.status, dead.attempt) == ("dead_letter", 2)
    assert dead.last_attempt_error is not None
    assert "disk full" in dead.last_attempt_error.message
    with pytest.raises(ChainFailed, match="disk full"):
        foreign.client.wait(failing, timeout=30)
    assert foreign.ended(babbling).status == "dead_letter"


def test_unknown_types_fail(foreign: Foreign) -> None:
    """With a message that says so; and a name is never taken for a path."""
    for name in ("unknown", "../echo_back"):
        foreign.surface.sql("SELECT {s}.register_type(%s, 'foreign', max_attempts => 1)", name)
        job_id = foreign.surface.enqueue(name)
        foreign.start()
        error = foreign.ended(job_id).last_attempt_error
        assert error is not None
        assert "no handler" in error.message


async def test_killed_in_the_middle(foreign: Foreign) -> None:
    """The job runs again elsewhere, the crash is counted, and what is left of the first run cannot finish it."""
    job_id = foreign.enqueue("slow")
    first = foreign.start()
    await asyncio.to_thread(foreign.runs, 1)
    first.send_signal(signal.SIGKILL)
    await asyncio.to_thread(first.wait, 10)
    async with foreign.app.worker(config=REAPER):
        await asyncio.to_thread(foreign.start)
        await asyncio.to_thread(foreign.runs, 2)
        assert foreign.client.get_job(job_id).status == "running"
        foreign.open_gate()
        job = await asyncio.to_thread(foreign.ended, job_id)
    assert (job.status, job.output, job.attempt, job.crash_count) == ("completed", "done", 2, 1)
    assert job.lease_generation == 2
    assert foreign.surface.refusal("SELECT {s}.complete(%s, 1)", job_id) == "HF003"


def test_a_long_job_keeps_its_lease(foreign: Foreign) -> None:
    """It is renewed while it runs, and the worker's heartbeat with it."""
    job_id = foreign.enqueue("slow")
    foreign.start()
    foreign.runs(1)
    times = "SELECT leased_until, last_seen_at FROM {s}.worker JOIN {s}.job ON leased_by = worker.id WHERE job.id = %s"
    ((until, seen),) = foreign.surface.sql(times, job_id)
    wait_for(
        lambda: all(now > then for now, then in zip(foreign.surface.sql(times, job_id)[0], (until, seen), strict=True)),
        "a renewal and a heartbeat",
    )
    foreign.open_gate()
    assert foreign.ended(job_id).attempt == 1


def test_cancelled_while_it_runs(foreign: Foreign) -> None:
    """The handler is ended, and the job is cancelled, not tried again."""
    job_id = foreign.enqueue("slow")
    foreign.start()
    foreign.runs(1)
    assert foreign.surface.one("SELECT {s}.cancel(%s)", job_id) == "requested"
    assert foreign.ended(job_id).status == "cancelled"


def test_sigterm_finishes_and_leaves(foreign: Foreign) -> None:
    """What runs is finished, nothing new is begun, and the worker is out of the registry."""
    job_id = foreign.enqueue("slow")
    process = foreign.start()
    foreign.runs(1)
    process.send_signal(signal.SIGTERM)
    foreign.open_gate()
    assert process.wait(30) == 0
    assert foreign.client.get_job(job_id).status == "completed"
    later = foreign.enqueue("slow")
    assert foreign.surface.sql("SELECT id FROM {s}.worker WHERE id = %s", foreign.names[0]) == []
    assert foreign.client.get_job(later).status == "pending"
