"""`holdfast completion`: what a shell must know to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

#: click looks for this name when the shell asks for completions
_VARIABLE = "_HOLDFAST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    bash and zsh: eval "$(holdfast completion bash)" in ~/.bashrc or ~/.zshrc; fish: holdfast completion fish >
    ~/.config/fish/completions/holdfast.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - one of the choices
    click.echo(kind(context.find_root().command, {}, "holdfast", _VARIABLE).source())
