"""Completion, as the shells ask for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import CommandLine


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["mig"], {"migrate"}),
        (["worker", "--max-"], {"--max-jobs", "--max-rss"}),
        (["worker", "--log-level", "de"], {"debug"}),
        (["jobs", "resch"], {"reschedule"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(command: CommandLine, words: list[str], found: set[str]) -> None:
    """The script, evaluated by a real bash, fills COMPREPLY by asking the command."""
    shim = command.directory / "holdfast"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    shim.chmod(0o755)
    line = " ".join(f"'{word}'" for word in ["./holdfast", *words])
    script = (
        'eval "$(./holdfast completion bash)"\n'
        f"COMP_WORDS=({line}); COMP_CWORD={len(words)}\n"
        '_holdfast_completion ./holdfast; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ended = subprocess.run(
        ["bash", "-c", script], cwd=command.directory, check=True, capture_output=True, text=True, timeout=60
    )
    assert set(ended.stdout.split()) == found, ended.stderr


@pytest.mark.parametrize(("shell", "needle"), [("zsh", "compdef"), ("fish", "complete --no-files --command holdfast")])
def test_other_shells(command: CommandLine, shell: str, needle: str) -> None:
    """The script is theirs; what they ask is answered."""
    assert needle in command.run("completion", shell).stdout
    question = {"COMP_WORDS": "holdfast wor", "COMP_CWORD": "1" if shell == "zsh" else "wor"}
    answer = command.run(_HOLDFAST_COMPLETE=f"{shell}_complete", **question).stdout
    assert "worker" in answer


def test_other_words_are_refused(command: CommandLine, tmp_path: Path) -> None:
    """With the shells that there are."""
    ended = command.run("completion", "tcsh")
    assert ended.returncode == 2
    assert "'bash', 'zsh', 'fish'" in ended.stderr
