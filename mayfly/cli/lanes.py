"""What the commands of lanes show: pauses, and doubts about a name."""

import json
from collections.abc import Iterator
from typing import Any

import click

from mayfly.admin.audit import TERMINAL, this_user
from mayfly.bootstrap import load_registry
from mayfly.cli.options import end_of_pause, name_given, pause_options
from mayfly.db.database import Database
from mayfly.format import did_you_mean, moment
from mayfly.process import exits
from mayfly.queue.count import find_lanes
from mayfly.queue.pauses import LANE, Pause
from mayfly.settings import Settings, load_settings


def pause_facts(pause: Pause) -> dict[str, Any]:
    return {
        "kind": pause.kind,
        "name": pause.name,
        "since": pause.paused_at.isoformat(timespec="seconds"),
        "until": pause.paused_until and pause.paused_until.isoformat(timespec="seconds"),
        "by": pause.paused_by,
        "reason": pause.reason,
    }


def pause_line(pause: Pause) -> str:
    until = f" until {moment(pause.paused_until)}" if pause.paused_until else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"{pause.kind} {pause.name}  since {moment(pause.paused_at)} by {pause.paused_by}{until}{reason}"


def unknown_lane_warning(settings: Settings, database: Database, kind: str, name: str) -> Iterator[str]:
    """A misspelled name would be a pause that holds nothing; one that is new is no mistake."""
    if kind == LANE:
        known = {*settings.lanes, *database.read(lambda connection: find_lanes(connection))}
    else:
        known = {*load_registry(settings).handlers}
    if name not in known:
        yield f"warning: no {kind} {name!r} is known here.{did_you_mean(name, known)}"


KIND = click.Choice(("lane", "type"))
DEFAULT = "default"  # as the settings say


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=name_given)
@pause_options
def pause(kind: str, name: str, reason: str | None, until: str | None) -> int:
    """Start nothing more in the lane NAME, or of the type NAME, on all hosts. What runs already is not touched."""
    from mayfly import admin
    from mayfly.bootstrap import open_database

    settings = load_settings()
    database = open_database(settings)
    end = end_of_pause(until, database.clock.now())
    admin.pause(database, kind, name, this_user(TERMINAL), end, reason)
    for warning in unknown_lane_warning(settings, database, kind, name):
        click.echo(warning, err=True)
    click.echo(f"Paused {kind} {name}{f' until {until}' if until else ''}.")
    return exits.SUCCESS


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=name_given)
def resume(kind: str, name: str) -> int:
    """Let the lane NAME, or the type NAME, go on. What a paused type had put off is due at once."""
    from mayfly import admin
    from mayfly.bootstrap import open_database

    was_paused, moved = admin.resume(open_database(load_settings()), kind, name, this_user(TERMINAL))
    told = f"Resumed {kind} {name}." if was_paused else f"{kind.capitalize()} {name} was not paused."
    click.echo(f"{told} {moved} jobs are due again." if moved else told)
    return exits.SUCCESS


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def pauses(as_json: bool) -> int:
    """List the lanes and types that are paused, since when, until when, by whom and why."""
    from mayfly.bootstrap import open_database
    from mayfly.queue.pauses import load_pauses

    database = open_database(load_settings())
    now = database.clock.now()
    known = database.read(lambda connection: load_pauses(connection, now))
    held = sorted([*known.lanes.values(), *known.types.values()], key=lambda each: (each.kind, each.name))
    if as_json:
        click.echo(json.dumps(list(map(pause_facts, held)), indent=2))
    else:
        click.echo("\n".join(map(pause_line, held)) or "Nothing is paused.")
    return exits.SUCCESS


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def lanes(context: click.Context, as_json: bool) -> int | None:
    """List the lanes: what waits and since when, what runs, what the last hour brought, what is dead or to come."""
    return None if context.invoked_subcommand else _show(as_json)


def _show(as_json: bool) -> int:
    from mayfly import admin
    from mayfly.bootstrap import open_database
    from mayfly.cli.text import lanes_text

    settings = load_settings()
    database = open_database(settings)
    now = database.clock.now()
    found = database.read(lambda connection: admin.list_lanes(connection, settings, now))
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
    from mayfly import admin
    from mayfly.bootstrap import open_database

    what, _, value = given.partition("=")
    if what != "max_workers" or not (value == DEFAULT or (value.isascii() and value.isdigit())):
        raise click.UsageError(f"{given!r}: write max_workers=3, or max_workers={DEFAULT}.")
    settings = load_settings()
    database = open_database(settings)
    admin.set_lane(database, name, None if value == DEFAULT else int(value), this_user(TERMINAL))
    for warning in unknown_lane_warning(settings, database, "lane", name):
        click.echo(warning, err=True)
    click.echo(f"Lane {name}: max_workers {value if value != DEFAULT else 'as the settings say'}.")
    return exits.SUCCESS


COMMANDS = (lanes, pause, resume, pauses)
