"""`holdfast chains`: look at chains."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.app import App
from holdfast.cli.database import database_options, require_database
from holdfast.cli.listing import given, list_options, print_page
from holdfast.cli.output import JSON, TABLE, console, format_option, print_json, print_lines
from holdfast.cli.shown import print_chains, print_fields, print_jobs

_MOST = 1000


@click.group()
def chains() -> None:
    """Look at chains: a job and its continuations."""


@chains.command("list")
@database_options
@list_options
def list_(app: App, output_format: str, **filters: Any) -> None:
    """List chains in order of enqueue.

    The status is that of a chain's last job; all other filters are about its first one.
    """
    require_database(app)
    with app.client() as client:
        page = client.list_chains(**given(filters))
    print_page(page, output_format, print_chains, "no chains")


@chains.command()
@click.argument("chain_id", metavar="ID")
@database_options
@format_option
def show(app: App, chain_id: str, output_format: str) -> None:
    """Show one chain: how it stands, its jobs, and the jobs that wait for it."""
    require_database(app)
    with app.client() as client:
        chain = client.get_chain(chain_id)
        jobs = client.list_chain_jobs(chain, limit=_MOST)
        waiting = client.list_blocked_jobs(chain, limit=_MOST)
    if output_format == TABLE:
        out = console()
        print_fields(out, chain, chain.tail, leave_out=frozenset({"tail"}))
        for title, page in (("jobs", jobs), ("waiting for it", waiting)):
            if page.items:
                out.print(f"\n[bold]{title}[/]" + (f" (the first {_MOST:,})" if page.next_cursor else ""))
                print_jobs(page.items)
        return
    document = {**msgspec.to_builtins(chain), "jobs": jobs.items, "blocked_jobs": waiting.items}
    if output_format == JSON:
        print_json(document)
    else:
        print_lines([document])
