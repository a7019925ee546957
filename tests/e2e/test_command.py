"""The command line as a whole: help, version, environment."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.cli.command import holdfast
from tests.e2e.conftest import CommandLine


def test_version(command: CommandLine) -> None:
    """The installed one."""
    assert command.run("--version").stdout == f"holdfast {importlib.metadata.version('holdfast')}\n"


def test_help_names_every_command(command: CommandLine) -> None:
    """And a bare `holdfast` is wrong usage that shows the help."""
    shown = command.run("--help")
    assert shown.returncode == 0
    assert all(f"  {name}" in shown.stdout for name in holdfast.commands)
    bare = command.run()
    assert bare.returncode == 2
    assert "Usage: holdfast" in bare.stderr


def test_output_that_cannot_be_written_is_told(command: CommandLine) -> None:
    """A full disk behind the redirection: one line, no traceback, exit code 1."""
    assert command.run("migrate", "up", "--url", "sqlite:///full.db").returncode == 0
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "holdfast", "migrate", "status", "--url", "sqlite:///full.db"],
            cwd=command.directory,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the output cannot be written")
    assert ended.stderr.count("\n") == 1


def test_an_unknown_command_is_wrong_usage(command: CommandLine) -> None:
    """With the way out."""
    ended = command.run("frobnicate")
    assert ended.returncode == 2
    assert ended.stderr == "error: No such command 'frobnicate'.\nsee `holdfast --help`\n"


def _all_commands() -> Iterator[tuple[str, click.Command]]:
    pending: list[tuple[str, click.Command]] = [("holdfast", holdfast)]
    while pending:
        path, found = pending.pop()
        yield path, found
        if isinstance(found, click.Group):
            pending += [(f"{path} {name}", child) for name, child in found.commands.items()]


def test_every_option_and_command_is_explained() -> None:
    """No option and no command without a help text."""
    unexplained = []
    for path, found in _all_commands():
        if not found.help:
            unexplained.append(path)
        unexplained += [
            f"{path} {option.name}" for option in found.params if isinstance(option, click.Option) and not option.help
        ]
    assert unexplained == []


def test_every_command_says_its_exit_codes() -> None:
    """Below its options, with what 1 means."""
    leaves = {path: found for path, found in _all_commands() if not isinstance(found, click.Group)}
    assert len(leaves) > 20
    assert [path for path, found in leaves.items() if not (found.epilog or "").startswith("Exit codes: 0 ")] == []


def test_every_option_has_a_variable() -> None:
    """One that begins with HOLDFAST_, and no two options of a command share theirs."""
    for path, found in _all_commands():
        options = [each for each in found.params if isinstance(each, click.Option) and each.expose_value]
        variables = [str(option.envvar) for option in options]
        assert all(variable.startswith("HOLDFAST_") for variable in variables), path
        assert len(set(variables)) == len(variables), path


def test_variables_are_obeyed_and_typed_options_win(command: CommandLine) -> None:
    """Also flags and those that may be given several times."""
    variables = {"HOLDFAST_URL": "sqlite:///shop.db", "HOLDFAST_JOBS_LIST_FORMAT": "json"}
    command.run("migrate", "up", HOLDFAST_URL="sqlite:///shop.db")
    assert json.loads(command.run("jobs", "list", **variables).stdout) == {"items": [], "next_cursor": None}
    assert command.run("jobs", "list", "--format=table", **variables).stdout == "no jobs\n"
    wrong = command.run("jobs", "list", HOLDFAST_JOBS_LIST_STATUS="pending mistyped", **variables)
    assert wrong.returncode == 2
    assert "'mistyped' is not one of" in wrong.stderr
    assert (
        command.run("migrate", "status", HOLDFAST_MIGRATE_STATUS_CHECK="1", HOLDFAST_URL="sqlite:///no.db").returncode
        == 1
    )
