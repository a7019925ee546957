"""The command line as a whole: help, version, environment."""

from __future__ import annotations

import importlib.metadata

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


def test_an_unknown_command_is_wrong_usage(command: CommandLine) -> None:
    """With the way out."""
    ended = command.run("frobnicate")
    assert ended.returncode == 2
    assert ended.stderr == "error: No such command 'frobnicate'.\nsee `holdfast --help`\n"


def test_every_option_and_command_is_explained() -> None:
    """No option and no command without a help text."""
    unexplained = []
    pending: list[tuple[str, click.Command]] = [("holdfast", holdfast)]
    while pending:
        path, found = pending.pop()
        if not found.help:
            unexplained.append(path)
        unexplained += [
            f"{path} {option.name}" for option in found.params if isinstance(option, click.Option) and not option.help
        ]
        if isinstance(found, click.Group):
            pending += [(f"{path} {name}", child) for name, child in found.commands.items()]
    assert unexplained == []
