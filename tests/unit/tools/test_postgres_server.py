"""The launcher starts a real server, brings it back after every kind of end, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tools.postgres_server import DURABLE, PostgresAddress, PostgresServer, PostgresUnavailable, available

ROOT = Path(__file__).parents[3]


def test_committed_rows_survive_every_kind_of_end() -> None:
    """Restart, kill of the postmaster and crash of everything keep what was committed, on the same address."""
    with PostgresServer(available()[18]) as server:
        with psycopg.connect(server.url()) as connection:
            connection.execute("CREATE TABLE survivor AS SELECT 1 AS n")
        ends = [server.shut_down, server.kill, server.crash]
        for end in ends:
            with psycopg.connect(server.url()) as witness:
                witness.execute("INSERT INTO survivor VALUES (1)")
                witness.commit()
                end()
                with pytest.raises(psycopg.OperationalError):
                    psycopg.connect(server.url())
            server.start()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT count(*) FROM survivor").fetchone() == (1 + len(ends),)


def test_the_server_dies_with_its_parent() -> None:
    """SIGKILL of the starting process ends the server and removes its directory."""
    program = (
        "from tools.postgres_server import *; import signal; server = PostgresServer(available()[18]).start();"
        "print(server.pid, server.address.socket_directory, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    traces = [Path(directory), Path(f"/proc/{pid}")]
    while any(trace.exists() for trace in traces) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [trace for trace in traces if trace.exists()] == []


def test_settings_reach_the_server_and_stop_removes_its_data() -> None:
    names = ("fsync", "work_mem", "max_connections")
    with PostgresServer(available()[18], settings={**DURABLE, "work_mem": "5MB"}) as server:
        directory = Path(server.address.socket_directory)
        assert (directory / "data" / "PG_VERSION").exists()
        with psycopg.connect(server.url()) as connection:
            assert [connection.execute(f"SHOW {name}").fetchone() for name in names] == [("on",), ("5MB",), ("200",)]
    assert not directory.exists()


def test_a_setting_that_postgres_refuses_is_reported_in_its_words() -> None:
    """And nothing is left of the server that did not start, neither processes nor files."""
    server = PostgresServer(available()[18], settings={"no_such_setting": "1"})
    with pytest.raises(PostgresUnavailable, match="no_such_setting"), server:
        pass
    assert not any(directory.exists() for directory in server._scratch)


def test_programs_in_a_private_directory_are_copied(tmp_path: Path) -> None:
    """Root's environment may lie where the unprivileged account cannot go."""
    wheel = available()[18].parent.parent
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for part in (wheel, wheel.with_name(wheel.name + ".libs")):
        subprocess.run(["cp", "-r", part, private], check=True)
    with (
        PostgresServer(private / wheel.name / "pginstall" / "bin") as server,
        psycopg.connect(server.url()) as connection,
    ):
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_every_test_gets_an_empty_database_of_its_own(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
        connection.execute("CREATE TABLE trace (n int)")


def test_a_database_can_be_made_from_a_template(postgres_server: PostgresAddress, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE trace (n int)")
    template = postgres_url.rpartition("/")[2]
    try:
        with psycopg.connect(postgres_server.create_database(f"{template}_copy", template)) as connection:
            assert connection.execute("SELECT count(*) FROM trace").fetchone() == (0,)
    finally:
        postgres_server.drop_database(f"{template}_copy")


def test_the_address_of_the_major_it_claims(postgres_server: PostgresAddress, worker_database_url: str) -> None:
    with psycopg.connect(worker_database_url) as connection:
        assert connection.info.server_version // 10000 == postgres_server.major


def test_the_override_replaces_the_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bin_dir = available()[18]
    monkeypatch.setenv("HOLDFAST_PG_BIN", f"{bin_dir}{os.pathsep}{tmp_path}")
    assert available() == {18: bin_dir}
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(tmp_path))
    assert available() == {}
