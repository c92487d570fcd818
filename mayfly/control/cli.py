"""The commands of those who hold work up, end it, and ask why it does not go on."""

import json

import click

from mayfly import exits
from mayfly.actor import TERMINAL, this_user
from mayfly.control.parameters import ask, duration, name_given
from mayfly.operators import end_of_pause, pause_options
from mayfly.settings import load_settings

KIND = click.Choice(("lane", "type"))


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=name_given)
@pause_options
def pause(kind: str, name: str, reason: str | None, until: str | None) -> int:
    """Start nothing more in the lane NAME, or of the type NAME, on all hosts. What runs already is not touched."""
    from mayfly.control.listing import doubt  # the database, only where it is needed
    from mayfly.jobs import operate
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    settings = load_settings()
    database = open_database(settings)
    end = end_of_pause(until, database.clock.now())
    operate.pause(database, JOBS, kind, name, this_user(TERMINAL), end, reason)
    for warning in doubt(settings, database, kind, name):
        click.echo(warning, err=True)
    click.echo(f"Paused {kind} {name}{f' until {until}' if until else ''}.")
    return exits.SUCCESS


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=name_given)
def resume(kind: str, name: str) -> int:
    """Let the lane NAME, or the type NAME, go on. What a paused type had put off is due at once."""
    from mayfly.jobs import operate
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    was_paused, moved = operate.resume(open_database(load_settings()), JOBS, kind, name, this_user(TERMINAL))
    told = f"Resumed {kind} {name}." if was_paused else f"{kind.capitalize()} {name} was not paused."
    click.echo(f"{told} {moved} jobs are due again." if moved else told)
    return exits.SUCCESS


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def pauses(as_json: bool) -> int:
    """List the lanes and types that are paused, since when, until when, by whom and why."""
    from mayfly.control import listing
    from mayfly.jobs.pauses import load_pauses
    from mayfly.opening import open_database

    database = open_database(load_settings())
    now = database.clock.now()
    known = database.read(lambda connection: load_pauses(connection, now))
    held = sorted([*known.lanes.values(), *known.types.values()], key=lambda each: (each.kind, each.name))
    if as_json:
        click.echo(json.dumps(list(map(listing.facts, held)), indent=2))
    else:
        click.echo("\n".join(map(listing.line, held)) or "Nothing is paused.")
    return exits.SUCCESS


@click.command()
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
@click.option("--group", "group_key", metavar="KEY", help="Those with this group_key.")
@click.option("--lane", metavar="NAME", help="Those of this lane.")
@click.option("--type", "type_name", metavar="NAME", help="Those of this type.")
@click.option("--status", type=click.Choice(("pending", "processing")), help="Only those that wait, or that run.")
@click.option("--older-than", callback=duration, metavar="TIME", help="Enqueued so long ago: 90s, 5m, 2h, 1d.")
@click.option("--reason", help="Why; kept with each job.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Count them, cancel nothing.")
def cancel(
    ids: tuple[int, ...],
    group_key: str | None,
    lane: str | None,
    type_name: str | None,
    status: str | None,
    older_than: int | None,
    reason: str | None,
    yes: bool,
    dry_run: bool,
) -> int:
    """Cancel the unfinished jobs that have all of what is named.

    Those that wait end at once. Those that run are told, and end when their handlers look.
    """
    from mayfly.cancelling import created_before
    from mayfly.control import listing
    from mayfly.jobs import operate
    from mayfly.jobs.which import Which
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    database = open_database(load_settings())
    before = None if older_than is None else created_before(database, older_than)
    which = Which(ids or None, group_key, lane, type_name, status, before)
    number = operate.count_found(database, JOBS, operate.CANCEL, which)
    if dry_run:
        click.echo(f"{listing.counted(number)} would be cancelled; nothing was changed.")
        return exits.SUCCESS
    if number > 1 and not yes:
        ask(f"Cancel {listing.counted(number)}?")
    click.echo(listing.cancelled(operate.cancel(database, JOBS, which, this_user(TERMINAL), reason)))
    return exits.SUCCESS


@click.command()
@click.argument("job_id", type=click.IntRange(1, 2**63 - 1), metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(job_id: int, as_json: bool) -> int:
    """Say why the job ID is not running, or what became of it."""
    from mayfly.control import listing
    from mayfly.jobs.circumstances import look_into
    from mayfly.jobs.why import explain
    from mayfly.opening import load_registry, open_database
    from mayfly.schema import JOBS

    settings = load_settings()
    database, registry = open_database(settings), load_registry(settings)
    now = database.clock.now()
    known = database.read(lambda connection: look_into(connection, JOBS, job_id, settings, registry, now))
    reasons = explain(known)
    if as_json:
        click.echo(json.dumps(listing.explained_facts(known.row, reasons), indent=2))
    else:
        click.echo(listing.explained(known.row, reasons))
    return exits.SUCCESS
