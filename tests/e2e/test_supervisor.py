"""`holdfast worker --processes`: several processes, one to start, to signal and to wait for."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import App, Status
from tests.crew.traces import processes
from tests.crew.waiting import wait_for
from tests.e2e.conftest import CommandLine, Running

_BRISK = ("--heartbeat=500ms", "--dead-after=3s", "--poll=500ms")


def _pid(line: str) -> int:
    found = re.search(r"\(pid (\d+)\)", line)
    assert found is not None, line
    return int(found[1])


def _working(supervisor: Running, count: int) -> list[int]:
    """The process ids of the workers, once all of them serve."""
    lines = [supervisor.expect("serves") for _ in range(count)]
    return [int(found[1]) for line in lines if (found := re.search(r"worker \S+-(\d+)-\w+ serves", line))]


def _naps(app: App, count: int, seconds: float, started: Callable[[], object]) -> list[str]:
    """One that takes its time for each process: with a single slot each, all of them are running."""
    with app.client() as client:
        chains = client.enqueue_many([app.call("nap", seconds=seconds) for _ in range(count)])
    for _ in range(count):
        started()
    return [chain.id for chain in chains]


def _states(app: App, ids: list[str]) -> set[tuple[Status, int]]:
    with app.client() as client:
        return {(job.status, job.attempt) for job in map(client.get_job, ids)}


def test_all_processes_work_and_stop_together(command: CommandLine, url: str, app: App) -> None:
    """Each runs jobs in an interpreter of its own; SIGTERM to the supervisor ends all of them with exit code 0."""
    supervisor = command.start("worker", "shop:make_app", "--processes=3", "--concurrency=1", HOLDFAST_URL=url)
    pids = _working(supervisor, 3)
    assert len({*pids, supervisor.process.pid}) == 4
    ids = _naps(app, 3, 1, lambda: supervisor.expect("napping"))
    supervisor.signal()
    supervisor.expect("SIGTERM: all processes stop within 30 s")
    assert supervisor.exit_code() == 0
    assert _states(app, ids) == {(Status.COMPLETED, 1)}
    assert processes(command.mark) == set()
    app.close()


def test_the_supervisor_has_no_database(command: CommandLine, url: str, sqlite_path: Path) -> None:
    """Neither the file nor a connection: nothing that a fork or a forgotten transaction could spoil."""
    supervisor = command.start("worker", "shop:make_app", "--processes=2", HOLDFAST_URL=url)
    _working(supervisor, 2)
    opened = [str(link.readlink()) for link in Path(f"/proc/{supervisor.process.pid}/fd").iterdir()]
    assert not [path for path in opened if path.startswith(str(sqlite_path))]
    inodes = {found[1] for path in opened if (found := re.fullmatch(r"socket:\[(\d+)\]", path))}
    connected = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
    assert inodes
    assert inodes.isdisjoint(connected)
    supervisor.signal()
    assert supervisor.exit_code() == 0


def test_a_crashed_process_is_replaced(command: CommandLine, url: str, app: App) -> None:
    """Killed, it is started again after a pause that doubles; the others are not touched."""
    supervisor = command.start("worker", "shop:make_app", "--processes=2", *_BRISK, HOLDFAST_URL=url)
    first, second = (_pid(supervisor.expect("started")) for _ in range(2))
    for pause in ("0.5 s", "1 s"):
        _working(supervisor, 1)
        os.kill(second, signal.SIGKILL)
        line = supervisor.expect(f"process 2 (pid {second}) was killed by SIGKILL")
        assert line.endswith(f"another one in {pause}")
        second = _pid(supervisor.expect("process 2"))
    _working(supervisor, 1)
    with app.client() as client:
        chain = client.enqueue(app.call("greet", name="Ada"))
        supervisor.expect("hello Ada")
        assert client.wait(chain, 20) == "hello Ada"
    os.kill(first, 0)
    supervisor.signal()
    assert supervisor.exit_code() == 0
    app.close()


def test_a_process_that_is_told_to_stop_is_replaced(command: CommandLine, url: str) -> None:
    """Somebody signals one of the processes: it ends in good order, and another takes its place."""
    supervisor = command.start("worker", "shop:make_app", "--processes=1", HOLDFAST_URL=url)
    (pid,) = _working(supervisor, 1)
    os.kill(pid, signal.SIGTERM)
    supervisor.expect("ended with exit code 0; another one in")
    _working(supervisor, 1)
    supervisor.signal()
    assert supervisor.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_one_signal_for_everybody_is_one_signal(
    command: CommandLine, url: str, app: App, number: signal.Signals
) -> None:
    """Ctrl-C in a terminal, or a service manager that signals every process: running jobs finish all the same."""
    supervisor = command.start("worker", "shop:make_app", "--processes=2", "--concurrency=1", HOLDFAST_URL=url)
    pids = _working(supervisor, 2)
    ids = _naps(app, 2, 2, lambda: supervisor.expect("napping"))
    if number is signal.SIGINT:
        os.killpg(supervisor.process.pid, number)
    else:
        for pid in (*pids, supervisor.process.pid):
            os.kill(pid, number)
    assert supervisor.exit_code() == 0
    assert _states(app, ids) == {(Status.COMPLETED, 1)}
    app.close()


@pytest.mark.parametrize(
    "numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGQUIT,)], ids=["SIGINT twice", "SIGQUIT"]
)
def test_a_second_signal_does_not_wait(
    command: CommandLine, url: str, app: App, numbers: tuple[signal.Signals, ...]
) -> None:
    """As for a single worker: the jobs go back at once, their attempts refunded."""
    supervisor = command.start(
        "worker", "shop:make_app", "--processes=2", "--concurrency=1", "--stop-deadline=60", HOLDFAST_URL=url
    )
    _working(supervisor, 2)
    ids = _naps(app, 2, 50, lambda: supervisor.expect("napping"))
    for number in numbers:
        supervisor.signal(number)
        supervisor.expect(f"{number.name}: all processes stop")
    assert supervisor.exit_code() == 0
    assert _states(app, ids) == {(Status.PENDING, 0)}
    app.close()


def test_a_killed_supervisor_takes_its_processes_along(command: CommandLine, url: str, app: App) -> None:
    """SIGKILL leaves it no last word; the processes notice, give their jobs back and end."""
    ids = _killed_over_naps(command, url, app, seconds=50, deadline="200ms")
    assert _states(app, ids) == {(Status.PENDING, 0)}
    app.close()


def test_a_killed_supervisor_leaves_its_processes_the_time_they_have(command: CommandLine, url: str, app: App) -> None:
    """However many threads it had: its end means one stop, and running jobs are finished."""
    ids = _killed_over_naps(command, url, app, seconds=2, deadline="20s")
    assert _states(app, ids) == {(Status.COMPLETED, 1)}
    app.close()


def _killed_over_naps(command: CommandLine, url: str, app: App, *, seconds: float, deadline: str) -> list[str]:
    """The jobs that a supervisor's processes ran when it was killed; now these are gone too."""
    supervisor = command.start(
        "worker", "shop:make_app", "--processes=2", "--concurrency=1", f"--stop-deadline={deadline}", HOLDFAST_URL=url
    )
    pids = _working(supervisor, 2)
    ids = _naps(app, 2, seconds, lambda: supervisor.expect("napping"))
    supervisor.signal(signal.SIGKILL)
    assert supervisor.exit_code() == -signal.SIGKILL
    wait_for(lambda: processes(command.mark).isdisjoint(pids), "the processes are gone")
    return ids


def test_a_process_that_does_not_stop_is_killed(command: CommandLine, url: str) -> None:
    """Frozen, it outlives the deadline and --kill-after; the exit code says that not all went well."""
    supervisor = command.start(
        "worker", "shop:make_app", "--processes=2", "--stop-deadline=200ms", "--kill-after=800ms", HOLDFAST_URL=url
    )
    frozen = _working(supervisor, 2)[0]
    os.kill(frozen, signal.SIGSTOP)
    began = time.monotonic()
    supervisor.signal()
    supervisor.expect(f"(pid {frozen}) does not stop: killed")
    assert supervisor.exit_code() == 1
    assert time.monotonic() - began < 6
    assert processes(command.mark) == set()


@pytest.mark.parametrize(
    ("target", "database", "exit_code", "words"),
    [
        ("broken:app", "sqlite:///x.db", 1, "importing broken failed: ZeroDivisionError"),
        ("nowhere:app", "sqlite:///x.db", 2, "there is no module 'nowhere'"),
        ("shop:make_app", "mysql://localhost/x", 1, "mysql://localhost/x"),
        ("shop:make_app", "sqlite:////nowhere/at/all/x.db", 1, "/nowhere/at/all"),
    ],
)
def test_processes_that_cannot_start_are_not_started_for_ever(
    command: CommandLine, target: str, database: str, exit_code: int, words: str
) -> None:
    """The first one says why; no other is tried, and the exit code is the same as for a single worker."""
    (command.directory / "broken.py").write_text("app = 1 / 0\n")
    ended = command.run("worker", target, "--processes=4", HOLDFAST_URL=database)
    assert ended.returncode == exit_code, ended.stderr
    assert ended.stderr.count("error: ") == 1
    assert words in ended.stderr
    assert ended.stderr.count("started") == 1
    assert "before it could work; the reason stands above" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_recycled_processes_follow_each_other(command: CommandLine, url: str, app: App) -> None:
    """At --max-jobs a process drains and ends; the next one is there at once, and no job is lost or repeated."""
    with app.client() as client:
        chains = client.enqueue_many([app.call("greet", name=str(n)) for n in range(120)])
        supervisor = command.start(
            "worker", "shop:make_app", "--processes=1", "--max-jobs=40", "--concurrency=2", "--batch=5",
            HOLDFAST_URL=url,
        )  # fmt: skip
        first = _pid(supervisor.expect("started"))
        supervisor.expect("the worker stops: it has run as many jobs as it may")
        assert f"(pid {first}) has done its share" in supervisor.expect("done its share")
        assert _pid(supervisor.expect("started")) != first
        for chain in chains:
            client.wait(chain, 30)
        assert {client.get_job(chain.id).attempt for chain in chains} == {1}
    supervisor.signal()
    assert supervisor.exit_code() == 0
    app.close()


def test_until_idle_ends_the_supervisor(command: CommandLine, url: str, app: App) -> None:
    """All processes work until there is nothing left; the worst of their exit codes is the supervisor's.

    Options come from the environment as well, for the supervisor and for its processes.
    """
    with app.client() as client:
        chains = client.enqueue_many([app.call("greet", name=str(n)) for n in range(20)])
        spoilt = client.enqueue(app.call("spoil", reason="rain"))
        ended = command.run(
            "worker", HOLDFAST_URL=url, HOLDFAST_APP="shop:make_app",
            HOLDFAST_WORKER_PROCESSES="2", HOLDFAST_WORKER_UNTIL_IDLE="yes",
        )  # fmt: skip
        assert ended.returncode == 3, ended.stderr
        assert "process 2" in ended.stderr
        assert {client.get_job(chain.id).status for chain in chains} == {Status.COMPLETED}
        assert client.get_job(spoilt.id).status is Status.DEAD_LETTER
    app.close()


def test_until_idle_waits_for_what_killed_a_process(command: CommandLine, url: str, app: App) -> None:
    """The job of the dead is neither due nor done: only when it is a dead letter is there nothing left."""
    with app.client() as client:
        chain = client.enqueue(app.call("die"))
        ended = command.run("worker", "shop:make_app", "--processes=2", "--until-idle", *_BRISK, HOLDFAST_URL=url)
        assert ended.returncode == 3, ended.stderr
        assert "was killed by SIGKILL; another one in 0.5 s" in ended.stderr
        assert client.get_job(chain.id).status is Status.DEAD_LETTER
    app.close()


def test_a_process_that_still_imports_goes_with_its_supervisor(command: CommandLine) -> None:
    """It listens to nobody yet: the system ends it."""
    (command.directory / "slow.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    supervisor = command.start("worker", "slow:app", "--processes=2")
    supervisor.expect("importing")
    supervisor.signal(signal.SIGKILL)
    assert supervisor.exit_code() == -signal.SIGKILL
    wait_for(lambda: not processes(command.mark), "the process is gone", patience=10)


def test_a_stop_before_anything_works(command: CommandLine, url: str) -> None:
    """The order waits for a process that is still importing; no other is started."""
    (command.directory / "slow.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(1)\nfrom shop import make_app\n"
    )
    supervisor = command.start("worker", "slow:make_app", "--processes=2", HOLDFAST_URL=url)
    supervisor.expect("importing")
    supervisor.signal()
    supervisor.expect("the supervisor: no new jobs")
    assert supervisor.exit_code() == 0
    assert "process 2" not in "".join(supervisor.lines)
