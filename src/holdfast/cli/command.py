"""The root of the command line: what commands there are, and how each of them ends.

Exit codes: 0 done, 1 could not be done, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from holdfast.cli.bench.command import bench
from holdfast.cli.chains import chains
from holdfast.cli.completion import completion
from holdfast.cli.control import CONTROL_COMMANDS
from holdfast.cli.dead import dead
from holdfast.cli.demo.command import demo
from holdfast.cli.enqueue import enqueue
from holdfast.cli.jobs import jobs
from holdfast.cli.loading import ImportFailed
from holdfast.cli.migrate import migrate
from holdfast.cli.pruning import prune, vacuum
from holdfast.cli.queues import queues
from holdfast.cli.schedules import schedules
from holdfast.cli.settings import settings
from holdfast.cli.stats import stats
from holdfast.cli.worker import worker
from holdfast.cli.workers import workers
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.stores.known import CODE_VERSION

_log = logging.getLogger("holdfast.cli")

DONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
#: what comes of writing to a full disk; that of the database is told otherwise
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_EPILOG = (
    "Every option can be given as an environment variable: HOLDFAST_, the command, the option. "
    "HOLDFAST_WORKER_QUEUES is --queues of `holdfast worker`. "
    "HOLDFAST_APP, HOLDFAST_URL, HOLDFAST_SCHEMA and HOLDFAST_PREFIX serve every command."
)

_EXIT_CODES = "Exit codes: 0 done; 1 could not be done, stderr says why; 2 the command line is wrong; 130 interrupted."


@click.group(
    epilog=_EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(CODE_VERSION, prog_name="holdfast", message="%(prog)s %(version)s")
def holdfast() -> None:
    """Durable background jobs in PostgreSQL or SQLite."""


def _name_variables(command: click.Command, prefix: str) -> None:
    """Give every option a variable by its flag; click's own naming would go by the parameter behind it."""
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None and option.expose_value:
            flag = max(option.opts, key=len)
            option.envvar = f"{prefix}_{flag.lstrip('-')}".replace("-", "_").upper()
    for name, child in command.commands.items() if isinstance(command, click.Group) else ():
        _name_variables(child, f"{prefix}_{name}")


def _tell_exit_codes(command: click.Command) -> None:
    """Commands that say more about theirs have an epilog of their own."""
    if isinstance(command, click.Group):
        for child in command.commands.values():
            _tell_exit_codes(child)
    elif command.epilog is None:
        command.epilog = _EXIT_CODES


for _command in (enqueue, *CONTROL_COMMANDS):
    jobs.add_command(_command)
_OPERATING = (queues, workers, schedules, settings, stats, prune, vacuum)
for _command in (worker, migrate, jobs, chains, dead, *_OPERATING, bench, demo, completion):
    holdfast.add_command(_command)
_name_variables(holdfast, "HOLDFAST")
_tell_exit_codes(holdfast)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; whatever Holdfast raises on purpose becomes one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        ended = holdfast.main(given, prog_name="holdfast", standalone_mode=False, obj=given)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        return _wrong_usage(error)
    except (HoldfastError, ImportFailed) as error:
        _log.debug("the error came from here", exc_info=True)
        _complain(str(error))
        return WRONG_USAGE if isinstance(error, InvalidInput) else FAILED
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        _log.debug("the error came from here", exc_info=True)
        _complain(f"the output cannot be written: {error.strerror}")
        _forget_output()
        return FAILED
    return ended if isinstance(ended, int) else DONE


def _wrong_usage(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return error.exit_code
    _complain(error.format_message())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"see `{error.ctx.command_path} --help`", err=True)
    return error.exit_code


def _forget_output() -> None:
    """What is left of it would be tried once more, in vain, when Python ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _complain(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
