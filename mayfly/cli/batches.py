"""`mayfly batches` and `mayfly limits`: list them; seal or abandon a batch whose producer has died."""

import click

from mayfly.admin.actions import CANCEL, count_matching
from mayfly.admin.audit import TERMINAL, this_user
from mayfly.admin.batches import abandon_batch, list_batches
from mayfly.admin.filters import JobFilter
from mayfly.admin.lanes import list_limits
from mayfly.cli.options import ask, json_option, open_installation, print_list
from mayfly.cli.text import batches_text, counted_jobs, limits_text
from mayfly.errors import UnknownName
from mayfly.format import plural
from mayfly.queue.batches import is_being_filled, is_open, seal_batch
from mayfly.schema.tables import PENDING


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def batches(context: click.Context, as_json: bool) -> None:
    """List open and recent batches with their jobs per status."""
    if context.invoked_subcommand:
        return
    _settings, database = open_installation()
    now = database.clock.now()
    print_list(database.read(lambda connection: list_batches(connection, now)), as_json, batches_text)


@batches.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Check whether it can be sealed, change nothing.")
def seal(name: str, dry_run: bool) -> None:
    """Seal the batch: no more jobs will be added.

    For a batch whose producer died before the end of its `with` block.
    """
    _settings, database = open_installation()
    if dry_run and database.read(lambda connection: is_being_filled(connection, name)):
        click.echo(f"The batch {name} would be sealed; nothing was changed.")
    elif not dry_run and seal_batch(database, name):
        click.echo(f"Sealed the batch {name}.")
    else:
        raise UnknownName("batch", name, "that is being filled; `mayfly batches` lists them")


@batches.command()
@click.argument("name")
@click.option("--reason", help="Why; kept with each job.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Count its jobs, change nothing.")
def abandon(name: str, reason: str | None, yes: bool, dry_run: bool) -> None:
    """Abandon the batch: cancel its pending jobs, skip its callback.

    Running jobs finish.
    """
    _settings, database = open_installation()
    if not database.read(lambda connection: is_open(connection, name)):
        raise UnknownName("batch", name, "that is open; `mayfly batches` lists them")
    number = count_matching(database, CANCEL, JobFilter(group_key=name, status=PENDING))
    if dry_run:
        return click.echo(f"{counted_jobs(number)} would be cancelled; nothing was changed.")
    if not yes:
        ask(f"Abandon the batch {name}, and cancel {counted_jobs(number)}?")
    cancelled = abandon_batch(database, name, reason or "its producer is gone", this_user(TERMINAL))
    return click.echo(f"Abandoned the batch {name}. {plural(cancelled.changed, 'job')} cancelled.")


@click.command()
@click.argument("prefix", metavar="[KEY]", required=False)
@click.option("--used-up", is_flag=True, help="Only limits with nothing left.")
@json_option
def limits(prefix: str | None, used_up: bool, as_json: bool) -> None:
    """List limits in use, or those whose key begins with KEY.

    A key appears with its first job, and is deleted a week after its window.
    """
    _settings, database = open_installation()
    now = database.clock.now()
    listed = database.read(lambda connection: list(list_limits(connection, now)))
    found = [each for each in listed if each.key.startswith(prefix or "") and (each.is_used_up or not used_up)]
    print_list(found, as_json, limits_text)
