"""Scripts that run a worker themselves, and what may keep them from ending."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crew.waiting import wait_for

#: a stop deadline, the grace after it, and a slow machine
SOON = 15.0

STUCK = """
import asyncio, sys, time
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from holdfast import App, Job, Retry, WorkerConfig

how = sys.argv[1]

@asynccontextmanager
async def lifespan(_):
    if how == "start":
        Path("reached").touch()
        await asyncio.sleep(600)
    yield
    if how == "end":
        await asyncio.sleep(600)

app = App("sqlite:///jobs.db", lifespan=lifespan)

@app.on_error
def hook(job: Job, error: BaseException) -> None:
    if how == "hook":
        Path("reached").touch()
        time.sleep(600)

@app.job(retry=Retry(max_attempts=1))
async def work() -> None:
    if how == "hook":
        raise ValueError
    Path("reached").touch()
    if how == "to_thread":
        await asyncio.to_thread(time.sleep, 600)
    while how == "swallow":
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

if __name__ == "__main__":
    work.enqueue()
    app.run_worker(WorkerConfig(stop_deadline=timedelta(seconds=1)))
"""


@contextmanager
def script(folder: Path, text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "script.py").write_text(text)
    with subprocess.Popen(
        [sys.executable, "script.py", *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOLDFAST_URL": "sqlite:///jobs.db"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", ["to_thread", "hook", "start", "end", "swallow"])
def test_two_signals_end_whatever_hangs(how: str, tmp_path: Path) -> None:
    """Threads of asyncio, hooks, lifespans, tasks that swallow their cancellation: the second signal ends it."""
    with script(tmp_path, STUCK, how) as process:
        wait_for((tmp_path / "reached").exists, "it works", patience=30)
        process.send_signal(signal.SIGTERM)
        time.sleep(2.5)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(SOON)
        assert time.monotonic() - began < SOON / 2


HEAVY = """
from holdfast import App, Retry

app = App("sqlite:///jobs.db")

@app.job(executor="process", retry=Retry(max_attempts=1))
def work() -> int:
    return 7

"""


def _output(folder: Path, command: Callable[[], list[str]]) -> str:
    done = subprocess.run(command(), cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_a_script_without_a_guard_is_told(tmp_path: Path) -> None:
    """Its handler process would become a second worker; instead the job's error says what is missing."""
    text = HEAVY + "chain = work.enqueue()\napp.drain()\nprint(app.shared_client.get_job(chain).last_attempt_error)\n"
    (tmp_path / "script.py").write_text(text)
    assert '__name__ == "__main__"' in _output(tmp_path, lambda: [sys.executable, "script.py"])


@pytest.mark.parametrize("how", [["script.py"], ["-m", "shop.jobs"]], ids=["script", "module"])
def test_handlers_of_a_script_are_found(tmp_path: Path, how: list[str]) -> None:
    """By its file, or by the name that it was run under, with what it imports relative to that."""
    end = (
        'if __name__ == "__main__":\n    chain = work.enqueue()\n    app.drain()\n'
        "    print('output', app.shared_client.get_job(chain).output)\n"
    )
    (tmp_path / "script.py").write_text(HEAVY + end)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "number.py").write_text("NUMBER = 7\n")
    relative = HEAVY.replace("return 7", "return NUMBER")
    (tmp_path / "shop" / "jobs.py").write_text("from .number import NUMBER\n" + relative + end)
    assert "output 7" in _output(tmp_path, lambda: [sys.executable, *how])


FORKING = """
import os
import warnings
from holdfast import App, Retry

warnings.simplefilter("ignore")
app = App("sqlite:///jobs.db")

@app.job(retry=Retry(max_attempts=1))
def work() -> str:
    pid = os.fork()
    if not pid:
        return "child"
    os.waitpid(pid, 0)
    return "parent"

chain = work.enqueue()
app.drain(timeout=20)
print("output", app.shared_client.get_job(chain).output)
"""


def test_what_a_thread_forks_ends_when_it_comes_out_of_the_handler(tmp_path: Path) -> None:
    """A copy of the worker without its other threads, which would wait for ever."""
    (tmp_path / "script.py").write_text(FORKING)
    assert "output parent" in _output(tmp_path, lambda: [sys.executable, "script.py"])


COLLECTED = """
import gc, sys
from holdfast import App

app = App("sqlite:///jobs.db")

@app.job()
async def young() -> None:
    print("young", gc.get_threshold()[0])

if __name__ == "__main__":
    if sys.argv[1:]:
        gc.set_threshold(int(sys.argv[1]))
    young.enqueue()
    app.run_worker(until_idle=True)
"""


@pytest.mark.parametrize(("chosen", "found"), [((), "10000"), (("123",), "123"), (("0",), "0")])
def test_unreachable_objects_are_looked_for_less_often(tmp_path: Path, chosen: tuple[str, ...], found: str) -> None:
    """Unless somebody has said how often, or never."""
    (tmp_path / "script.py").write_text(COLLECTED)
    assert f"young {found}\n" in _output(tmp_path, lambda: [sys.executable, "script.py", *chosen])
