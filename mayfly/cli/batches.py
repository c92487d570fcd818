"""`mayfly batches`: look at them, and end the filling of one whose producer has died."""

import json

import click

from mayfly.admin.audit import TERMINAL, this_user
from mayfly.cli.options import ask
from mayfly.errors import UnknownName
from mayfly.process import exits
from mayfly.schema.tables import PENDING
from mayfly.settings import load_settings


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def batches(context: click.Context, as_json: bool) -> int | None:
    """List the batches that are open, and the last that are not: what is left of them, and how their jobs ended."""
    if context.invoked_subcommand:
        return None
    from mayfly.admin.batches import batches_text, list_batches  # the database, only where it is needed
    from mayfly.bootstrap import open_database

    database = open_database(load_settings())
    now = database.clock.now()
    found = database.read(lambda connection: list_batches(connection, now))
    click.echo(json.dumps([each.facts() for each in found], indent=2) if as_json else batches_text(found))
    return exits.SUCCESS


@batches.command("seal")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only look whether it could be.")
def seal_one(name: str, dry_run: bool) -> int:
    """Take what is in the batch NAME for all of it: its producer died before its block had ended."""
    from mayfly.bootstrap import open_database
    from mayfly.queue.batches import is_being_filled, seal_batch

    database = open_database(load_settings())
    if dry_run and database.read(lambda connection: is_being_filled(connection, name)):
        click.echo(f"The batch {name} would be sealed; nothing was changed.")
    elif not dry_run and seal_batch(database, name):
        click.echo(f"Sealed the batch {name}.")
    else:
        raise UnknownName("batch", name, "that is being filled; `mayfly batches` lists them")
    return exits.SUCCESS


@batches.command("abandon")
@click.argument("name")
@click.option("--reason", help="Why; kept with each job.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Count its jobs, change nothing.")
def abandon_one(name: str, reason: str | None, yes: bool, dry_run: bool) -> int:
    """Give the batch NAME up: what waits in it is cancelled, what runs goes on, and its callback never runs."""
    from mayfly.admin import CANCEL, count_matching
    from mayfly.admin.batches import abandon_batch
    from mayfly.admin.filters import JobFilter
    from mayfly.bootstrap import open_database
    from mayfly.cli import jobs
    from mayfly.queue.batches import is_open

    database = open_database(load_settings())
    if not database.read(lambda connection: is_open(connection, name)):
        raise UnknownName("batch", name, "that is open; `mayfly batches` lists them")
    number = count_matching(database, CANCEL, JobFilter(group_key=name, status=PENDING))
    if dry_run:
        click.echo(f"{jobs.counted(number)} would be cancelled; nothing was changed.")
        return exits.SUCCESS
    if not yes:
        ask(f"Abandon the batch {name}, and cancel {jobs.counted(number)}?")
    ended = abandon_batch(database, name, reason or "its producer is gone", this_user(TERMINAL))
    click.echo(f"Abandoned the batch {name}. {ended.ended} jobs cancelled.")
    return exits.SUCCESS
