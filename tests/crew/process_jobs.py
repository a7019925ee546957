"""Handlers that run in processes; a handler process imports this module, so they are not made by a fixture."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from holdfast import App, Cancel, Context, DeadLetter, Job, JobEnqueued, Retry, RetryAt, Snooze, SyncBatch, SyncContext


@contextmanager
def lifespan(_: App) -> Iterator[dict[str, Any]]:
    yield {"made_in": os.getpid()}


def tagged(ctx: SyncContext, call_next: Any) -> Any:
    output = call_next()
    return f"<{output}>" if ctx.job.type_name == "wrapped" else output


#: the tests' apps adopt its job types, on other databases
app = App("sqlite:////nowhere/at/all.db", lifespan=lifespan, middleware=[tagged])

ONCE = Retry(max_attempts=1)


#: where it is set, a file of what was enqueued, and in which process
EVENTS = "EVENTS_OF_PROCESSES"


@app.on_event(JobEnqueued)
def note_enqueued(event: JobEnqueued) -> None:
    if path := os.environ.get(EVENTS):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{event.type_name} {os.getpid()}\n")


@app.on_error
def note_error(job: Job, error: BaseException) -> None:
    if job.type_name == "fails":
        Path(job.input["notes"]).write_text(f"{type(error).__name__} in {os.getpid()}")
    if job.type_name == "fails_quickly":
        time.sleep(2)


@app.job(executor="process")
def where() -> list[int]:
    return [os.getpid(), os.getppid()]


@app.job(executor="process")
async def awhere(ctx: Context, pause: float) -> list[int]:
    await asyncio.sleep(pause)
    return [os.getpid(), ctx.state["made_in"]]


@app.job(executor="process")
def appends(notes: str, number: int) -> None:
    with Path(notes).open("a") as file:
        file.write(f"{number}\n")


@app.job()
async def half(number: int) -> int:
    return number // 2


@app.job(executor="process")
def waits(ctx: SyncContext) -> list[Any]:
    """Everything that gives the process back."""
    ctx.step("begin", os.getpid)
    ctx.sleep("nap", 0.05)
    heard = ctx.wait_signal("go")
    children = [ctx.enqueue("first", half.call(number=10)), *ctx.enqueue_many("more", [half.call(number=20)])]
    return [heard, *ctx.gather(children), ctx.attempt]


@app.job(executor="process")
async def awaits(ctx: Context) -> list[Any]:
    await ctx.sleep("nap", 0.05)
    heard = await ctx.wait_signal("go")
    child = await ctx.enqueue("first", half.call(number=10))
    return [heard, *await ctx.gather(child), ctx.attempt]


@app.job(executor="process")
def wrapped() -> str:
    return "inside"


@app.job(executor="process", retry=ONCE)
def fails(notes: str) -> None:
    raise ValueError(f"not good: {notes}")


@app.job(executor="process", retry=ONCE, timeout=1)
def fails_quickly() -> None:
    raise ValueError


@app.job(executor="process", retry=ONCE)
def forks() -> str:
    """Both come out of it, as if each were the handler; the parent last."""
    if (pid := os.fork()) == 0:
        return "child"
    os.waitpid(pid, 0)
    return "parent"


@app.job(executor="process", retry=ONCE)
def uses_its_context_in_a_fork(ctx: SyncContext) -> int:
    """How the child ended: 3, if it was refused."""
    if (pid := os.fork()) == 0:
        try:
            ctx.progress(1)
        except RuntimeError:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@app.job(executor="process", retry=Retry(max_attempts=2, initial=0))
def stepped(ctx: SyncContext) -> int:
    count = ctx.step("first", os.getpid)
    ctx.progress({"done": 1})
    ctx.log("half way", pid=os.getpid())
    if ctx.attempt == 1:
        raise RuntimeError("once more")
    return count


@app.job(executor="process", retry=Retry(max_attempts=2, initial=0))
async def astepped(ctx: Context) -> int:
    count = await ctx.step("first", os.getpid)
    await ctx.progress({"done": 1})
    ctx.log("half way")
    if ctx.attempt == 1:
        raise RuntimeError("once more")
    return count


@app.job(executor="process")
def ends_on_own_transaction(ctx: SyncContext, url: str) -> None:
    connection: Any = psycopg.connect(url) if url.startswith("postgres") else sqlite3.connect(url.split("///")[1])
    with connection:
        connection.execute("INSERT INTO orders (id) VALUES (7)")
        ctx.complete(tx=connection)
    connection.close()


@app.job(executor="process")
def goes_on_in_own_transaction(ctx: SyncContext) -> list[int]:
    with ctx.transaction() as tx:
        return ctx.continue_with(where.call(), tx=tx)


@app.job(executor="process")
def writes_and_goes_on(ctx: SyncContext) -> list[int]:
    with ctx.transaction() as tx:
        tx.execute("INSERT INTO orders (id) VALUES (8)")
        ctx.once("only", tx=tx)
    return ctx.continue_with(where.call())


@app.job(executor="process", retry=Retry(max_attempts=2, initial=0))
def uses_everything(ctx: SyncContext) -> list[Any]:
    with ctx.transaction() as tx:
        pid = ctx.step_tx(tx, "first", os.getpid)
        is_first = ctx.once("key", tx=tx)
    if ctx.attempt == 1:
        raise RetryAt(datetime.now(UTC))
    return [pid, is_first, [blocker.output for blocker in ctx.blockers]]


@app.job(executor="process", retry=Retry(max_attempts=2, initial=0))
async def auses_everything(ctx: Context) -> list[Any]:
    async with ctx.transaction() as tx:
        pid = await ctx.step_tx(tx, "first", os.getpid)
        is_first = await ctx.once("key", tx=tx)
    if ctx.attempt == 1:
        raise RetryAt(datetime.now(UTC))
    return [pid, is_first, [blocker.output for blocker in ctx.blockers]]


@app.job(executor="process", retry=ONCE)
def notes_why(ctx: SyncContext, mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))
    try:
        time.sleep(600)
    except BaseException:  # noqa: BLE001 - as a library that turns everything into errors of its own
        for _ in range(100):  # the reason comes from another process, and may come after the interruption
            if ctx.cancelled:
                break
            time.sleep(0.01)
        Path(mark).with_suffix(".why").write_text(str(ctx.cancelled))
        raise RuntimeError("stopped in the middle") from None


@app.job(executor="process")
def enqueues(ctx: SyncContext) -> str:
    return str(ctx.client.enqueue(where.call()).id)


@app.job(executor="process", retry=ONCE)
def ends_specially(how: str) -> None:
    raise {"snooze": Snooze(3600), "cancel": Cancel("not wanted"), "dead": DeadLetter("hopeless")}[how]


@app.job(executor="process", retry=ONCE, timeout=1)
def never_ends(mark: str) -> None:
    # A grandchild, which must not outlive the attempt either.
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(mark).write_text(f"{os.getpid()} {sleeper.pid}")
    while True:
        with suppress(BaseException):  # as stubborn as can be
            time.sleep(600)


@app.job(executor="process", retry=ONCE)
def kills_itself(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


@app.job(executor="process", retry=ONCE)
def exits() -> None:
    os._exit(3)


@app.job(executor="process")
def waits_to_be_told(ctx: SyncContext, mark: str) -> str:
    Path(mark).write_text(str(os.getpid()))
    while ctx.cancelled is None:
        time.sleep(0.01)
    return str(ctx.cancelled)


@app.job(executor="process")
def cleans_up(mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))
    try:
        time.sleep(600)
    finally:
        Path(mark).with_suffix(".clean").write_text("yes")


@app.job(executor="process")
def holds_the_interpreter(mark: str) -> None:
    """Nothing in Python gets a turn: not the thread that listens to the worker, not a signal's handler."""
    Path(mark).write_text(str(os.getpid()))
    sum(range(10**12))


@app.job(executor="process")
def takes_its_time(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@app.job(executor="process", batch=10)
def doubles(numbers: SyncBatch[int]) -> list[int | Exception]:
    return [ValueError("odd") if item.input % 2 else item.input * 2 for item in numbers]


@app.job(executor="process", retry=ONCE)
def asks_for_a_wait(ctx: SyncContext) -> None:
    ctx.client.wait(ctx.client.enqueue(where.call()), timeout=1)


def is_alive(pid: int) -> bool:
    """Running, that is: a zombie is as good as gone."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
