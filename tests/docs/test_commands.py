"""What the pages say about the command line is what the command line has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli.command import holdfast
from tests.docs.blocks import ROOT, commands, page_name, pages

REFERENCE = ROOT / "docs" / "reference" / "cli.md"
_SHARED_SECTION = "The database"
_SHARED_FLAGS = {"--app", "--url", "--schema", "--prefix"}


def _all_commands(command: click.Command = holdfast, path: str = "holdfast") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _all_commands(child, f"{path} {name}")
    else:
        yield path, command


def _options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option) and option.name != "help"]


def _documented(page: Path) -> list[str]:
    """Commands in console blocks, and those in running text that have a command behind `holdfast`."""
    inline = re.findall(r"`(holdfast [a-z][^`]*)`", page.read_text(encoding="utf-8"))
    return [line for line in [*commands(page), *inline] if line.startswith("holdfast ")]


@pytest.mark.parametrize("page", [page for page in pages() if _documented(page)], ids=page_name)
def test_documented_commands_exist(page: Path) -> None:
    """Each is a command that there is, with options that it has."""
    for line in _documented(page):
        command: click.Command = holdfast
        words = shlex.split(line)[1:]
        while words and isinstance(command, click.Group) and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        is_group_named = isinstance(command, click.Group) and not words
        assert is_group_named or not isinstance(command, click.Group) or words[0] in {"--version", "COMMAND"}, line
        known = {flag for option in command.params for flag in [*option.opts, *option.secondary_opts]} | {"--version"}
        unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]
        assert unknown == [], line


def test_the_reference_lists_every_command_and_option() -> None:
    """With its variable, and nothing that is not there."""
    text = REFERENCE.read_text(encoding="utf-8")
    found = re.finditer(r"^\| `(?:[^|]*)\|[^|]*\| `?(HOLDFAST_\w+)?`? \|.*$", text, re.MULTILINE)
    rows = {match[1]: match[0] for match in found}
    expected = {
        str(option.envvar): option
        for _, command in _all_commands()
        for option in _options(command)
        if not _SHARED_FLAGS & set(option.opts)
    }
    shared = {"HOLDFAST_APP", "HOLDFAST_URL", "HOLDFAST_SCHEMA", "HOLDFAST_PREFIX"}
    assert {name for name in rows if name} == expected.keys() | shared
    for name, option in expected.items():
        assert all(f"`{flag}`" in rows[name] for flag in [*option.opts, *option.secondary_opts]), rows[name]
    for path, _ in _all_commands():
        assert path in text
    assert f"## {_SHARED_SECTION}" in text


def test_defaults_in_the_reference_are_the_real_ones() -> None:
    """Where an option has a plain default, its row says it."""
    text = REFERENCE.read_text(encoding="utf-8")
    for _, command in _all_commands():
        for option in _options(command):
            if isinstance(option.default, str | int) and not option.is_flag and "--schema" not in option.opts:
                row = next(line for line in text.splitlines() if str(option.envvar) in line)
                assert f"| {option.default} |" in row, row
