"""`holdfast dead`: jobs that will not be tried again until a person says so."""

from __future__ import annotations

from typing import Any

import click

from holdfast.app import App
from holdfast.cli.acting import acting_options, filter_options, ids_argument, several, strict_option
from holdfast.cli.control import EPILOG, retry_jobs
from holdfast.cli.database import database_options, require_database
from holdfast.cli.jobs import show as show_job
from holdfast.cli.listing import print_page
from holdfast.cli.output import format_option
from holdfast.cli.shown import print_jobs
from holdfast.model.status import Status

_FILTERS = ("type_name", "queue", "tenant", "partition_key", "since", "until")


@click.group()
def dead() -> None:
    """Dead letters: look at them, and let them begin anew."""


@dead.command("list")
@several(database_options, filter_options)
@click.option("--limit", default=50, show_default=True, help="Most to show, up to 1,000.")
@click.option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
@format_option
def list_(app: App, *, output_format: str, **filters: Any) -> None:
    """List dead letters, newest first, with the error of the last attempt."""
    require_database(app)
    with app.client() as client:
        page = client.list_jobs(status=Status.DEAD_LETTER, **filters)
    print_page(page, output_format, print_jobs, "no dead letters")


dead.add_command(click.Command("show", params=[*show_job.params], callback=show_job.callback, help=show_job.help))


@dead.command(epilog=EPILOG)
@several(ids_argument, database_options, filter_options)
@click.option("--all", "is_all", is_flag=True, help="Every dead letter.")
@several(strict_option, acting_options)
def retry(app: App, *, strict: bool, is_all: bool, **options: Any) -> int:
    """Let dead letters begin anew, with all their attempts."""
    is_filtered = any(options[name] is not None for name in _FILTERS)
    if is_all and (options["ids"] or is_filtered):
        raise click.UsageError("--all leaves nothing to choose", click.get_current_context())
    if not (is_all or is_filtered or options["ids"]):
        raise click.UsageError(
            "say which: by ids, by --type, --queue and the like, or --all", click.get_current_context()
        )
    options["status"] = (Status.DEAD_LETTER.value,) if is_all or is_filtered else ()
    return retry_jobs(app, options, strict=strict)
