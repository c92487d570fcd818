"""The commands of those who hold lanes and types up, let them go on, and set how many workers one may have."""

import json

import click

from mayfly import exits
from mayfly.actor import TERMINAL, this_user
from mayfly.control.parameters import name_given
from mayfly.operators import end_of_pause, pause_options
from mayfly.settings import load_settings

KIND = click.Choice(("lane", "type"))
DEFAULT = "default"  # as the settings say


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=name_given)
@pause_options
def pause(kind: str, name: str, reason: str | None, until: str | None) -> int:
    """Start nothing more in the lane NAME, or of the type NAME, on all hosts. What runs already is not touched."""
    from mayfly.jobs import operate
    from mayfly.lanes.listing import doubt  # the database, only where it is needed
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
    from mayfly.jobs.pauses import load_pauses
    from mayfly.lanes import listing
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


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def lanes(context: click.Context, as_json: bool) -> int | None:
    """List the lanes: what waits and since when, what runs, what the last hour brought, what is dead or to come."""
    return None if context.invoked_subcommand else _show(as_json)


def _show(as_json: bool) -> int:
    from mayfly.jobs import browse
    from mayfly.opening import open_database
    from mayfly.schema import JOBS
    from mayfly.views.text import lanes_text

    settings = load_settings()
    database = open_database(settings)
    now = database.clock.now()
    found = database.read(lambda connection: browse.list_lanes(connection, JOBS, settings, now))
    click.echo(json.dumps([each.facts() for each in found], indent=2) if as_json else lanes_text(found, now))
    return exits.SUCCESS


@lanes.command("pause")
@click.argument("name", callback=name_given)
@pause_options
@click.pass_context
def pause_lane(context: click.Context, name: str, reason: str | None, until: str | None) -> int:
    """Start nothing more in the lane NAME: as `mayfly pause lane NAME`."""
    return int(context.invoke(pause, kind="lane", name=name, reason=reason, until=until))


@lanes.command("resume")
@click.argument("name", callback=name_given)
@click.pass_context
def resume_lane(context: click.Context, name: str) -> int:
    """Let the lane NAME go on: as `mayfly resume lane NAME`."""
    return int(context.invoke(resume, kind="lane", name=name))


@lanes.command("set")
@click.argument("name", callback=name_given)
@click.argument("given", metavar="max_workers=NUMBER")
def set_lane(name: str, given: str) -> int:
    """Set how many workers the lane NAME may have, on all hosts, from the next plan on.

    `max_workers=default` lets the settings of each host hold again.
    """
    from mayfly.jobs import operate
    from mayfly.lanes.listing import doubt
    from mayfly.opening import open_database

    what, _, value = given.partition("=")
    if what != "max_workers" or not (value == DEFAULT or (value.isascii() and value.isdigit())):
        raise click.UsageError(f"{given!r}: write max_workers=3, or max_workers={DEFAULT}.")
    settings = load_settings()
    database = open_database(settings)
    operate.set_lane(database, name, None if value == DEFAULT else int(value), this_user(TERMINAL))
    for warning in doubt(settings, database, "lane", name):
        click.echo(warning, err=True)
    click.echo(f"Lane {name}: max_workers {value if value != DEFAULT else 'as the settings say'}.")
    return exits.SUCCESS


COMMANDS = (lanes, pause, resume, pauses)
