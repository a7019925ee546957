"""The root of the command line: what commands there are, and how each of them ends.

Exit codes: 0 done, 1 could not be done, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from holdfast.cli.demo.command import demo
from holdfast.cli.jobs import jobs
from holdfast.cli.loading import ImportFailed
from holdfast.cli.migrate import migrate
from holdfast.cli.worker import worker
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.stores.known import CODE_VERSION

DONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

_EPILOG = (
    "Every option can be given as an environment variable: HOLDFAST_, the command, the option. "
    "HOLDFAST_WORKER_QUEUES is --queues of `holdfast worker`. HOLDFAST_URL and HOLDFAST_APP serve every command."
)


@click.group(
    epilog=_EPILOG,
    context_settings={
        "auto_envvar_prefix": "HOLDFAST",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(CODE_VERSION, prog_name="holdfast", message="%(prog)s %(version)s")
def holdfast() -> None:
    """Durable background jobs in PostgreSQL or SQLite."""


for _command in (worker, migrate, jobs, demo):
    holdfast.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; whatever Holdfast raises on purpose becomes one line on stderr."""
    try:
        ended = holdfast.main(arguments, prog_name="holdfast", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return WRONG_USAGE
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code, _usage(error))
    except click.Abort:
        return _complain("interrupted", INTERRUPTED)
    except ImportFailed as error:
        if error.shows_traceback:
            traceback.print_exception(error.__cause__)
        return _complain(str(error), FAILED)
    except InvalidInput as error:
        return _complain(str(error), WRONG_USAGE)
    except HoldfastError as error:
        return _complain(str(error), FAILED)
    return ended if isinstance(ended, int) else DONE


def _usage(error: click.ClickException) -> str | None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return None if context is None else f"see `{context.command_path} --help`"


def _complain(message: str, exit_code: int, hint: str | None = None) -> int:
    line = " ".join(message.split())
    click.echo(f"error: {line}" + (f"\n{hint}" if hint else ""), err=True)
    return exit_code
