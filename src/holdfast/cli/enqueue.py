"""`holdfast jobs enqueue`: create a job, and wait for what comes of it."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any, get_args

import click
import msgspec

from holdfast.app import App
from holdfast.cli.database import database_options, require_connection
from holdfast.cli.output import JSON, JSONL, format_option, print_json, print_lines
from holdfast.cli.values import duration, point_in_time
from holdfast.model.call import Call, OnBlockerFailure
from holdfast.model.dedup import Dedup, OnConflict
from holdfast.model.job import Chain, Outcome
from holdfast.model.partition import Ordering
from holdfast.model.payload import from_json, to_json


@click.command(
    epilog="Exit codes: 0 done; 1 could not be done, or with --wait: the chain was cancelled or is a dead letter, "
    "or the time is over; 2 the command line is wrong; 130 interrupted."
)
@click.argument("type_name", metavar="TYPE")
@click.argument("arguments", metavar="[JSON]", default="{}")
@database_options
@click.option("--queue", metavar="NAME", help="Instead of the job type's.")
@click.option("--priority", type=int, metavar="NUMBER", help="Instead of the job type's; smaller runs first.")
@click.option("--at", type=point_in_time, metavar="TIME", help="Not before: 2026-05-01T12:00Z.")
@click.option("--delay", type=duration, metavar="DURATION", help="Not before so long from now: 90s, 10m, 2h.")
@click.option("--expires", type=duration, metavar="DURATION", help="Not started so long from now, it is cancelled.")
@click.option("--max-attempts", type=int, metavar="NUMBER", help="Instead of the job type's.")
@click.option("--dedup", metavar="KEY", help="At most one chain of the type holds this key.")
@click.option(
    "--on-conflict",
    type=click.Choice(get_args(OnConflict)),
    default="keep",
    show_default=True,
    help="With --dedup: what to do if one does.",
)
@click.option("--blocker", "blockers", multiple=True, metavar="ID", help="Wait for this chain; several times.")
@click.option(
    "--on-blocker-failure", type=click.Choice(get_args(OnBlockerFailure)), help="What a blocker that fails means."
)
@click.option("--partition-key", metavar="KEY", help="Jobs of the queue with the same key run one at a time.")
@click.option("--ordering", type=click.Choice(get_args(Ordering)), help="With a partition key: in which order.")
@click.option("--shards", type=int, metavar="NUMBER", help="With a partition key: over how many it is spread.")
@click.option("--concurrency-key", metavar="KEY", help="Of jobs with the same key, so many run as the queue allows.")
@click.option("--flag", "flags", multiple=True, metavar="WORD", help="Workers may leave it to others; several times.")
@click.option("--tenant", metavar="NAME", help="Whose job it is.")
@click.option("--header", "headers", multiple=True, metavar="NAME=TEXT", help="Kept with the job; several times.")
@click.option("--id", metavar="ID", help="Enqueueing the same id again changes nothing.")
@click.option("--wait", is_flag=True, help="Wait until the chain has ended, and print its output.")
@click.option("--timeout", type=duration, metavar="DURATION", help="With --wait: for so long at most.")
@format_option
def enqueue(
    app: App,
    type_name: str,
    arguments: str,
    output_format: str,
    *,
    wait: bool,
    timeout: timedelta | None,
    **options: Any,
) -> None:
    """Create a job of type TYPE, and print its id.

    JSON has the arguments: an object by their names, or an array in their order; - reads it from stdin. The job types
    are those of --app.

    With --wait the chain's output is printed instead, as JSON.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait", click.get_current_context())
    call = _call(app, type_name, sys.stdin.read() if arguments == "-" else arguments)
    require_connection(app)
    with app.client() as client:
        chain = client.enqueue(call, **_options(options))
        if chain.outcome is not Outcome.CREATED:
            click.echo(f"{chain.outcome}: a chain with this id or key was there before", err=True)
        if wait:
            _print_output(client.wait(chain, timeout), output_format)
        else:
            _print_chain(chain, output_format)


def _call(app: App, type_name: str, text: str) -> Call[Any]:
    if not app.job_types:
        raise click.UsageError(
            "there are no job types here; say with --app MODULE:APP whose they are", click.get_current_context()
        )
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text:.80} is not JSON: {error}", param_hint="JSON") from None
    if isinstance(arguments, dict):
        return app.call(type_name, **arguments)
    if isinstance(arguments, list):
        return app.call(type_name, *arguments)
    raise click.BadParameter(f"{text:.80} is neither an object nor an array", param_hint="JSON")


def _options(options: dict[str, Any]) -> Any:
    """As `client.enqueue` takes them; what was not given is left to the job type."""
    key, on_conflict = options.pop("dedup"), options.pop("on_conflict")
    headers = dict(_header(text) for text in options.pop("headers"))
    return {
        **options,
        "blockers": options["blockers"] or None,
        "flags": options["flags"] or None,
        "dedup": None if key is None else Dedup(key, on_conflict=on_conflict),
        "headers": headers or None,
    }


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} has no =; write --header NAME=TEXT", param_hint="--header")
    return name, value


def _print_chain(chain: Chain[Any], output_format: str) -> None:
    document = {name: getattr(chain, name) for name in ("id", "type_name", "status", "outcome", "superseded")}
    if output_format == JSON:
        print_json(document)
    elif output_format == JSONL:
        print_lines([document])
    else:
        click.echo(chain.id)


def _print_output(output: object, output_format: str) -> None:
    """As it is stored; the handler's own types are JSON there."""
    plain = from_json(to_json(output))
    if output_format == JSONL:
        print_lines([plain])
    else:
        print_json(plain)
