"""Commands for lanes, pauses and limits: list them, pause and resume lanes and types, set max_workers."""

from datetime import datetime

import click

from mayfly.admin.auth import TERMINAL, this_user
from mayfly.admin.jobs import json_value
from mayfly.admin.lanes import end_pause, list_lanes, list_limits, set_max_workers, start_pause
from mayfly.cli.options import Choice, json_option, open_installation, pause_options, print_json, print_list
from mayfly.cli.text import lanes_text, limits_text, paused_text
from mayfly.client import load_registry
from mayfly.db.database import Database
from mayfly.format import did_you_mean, moment, plural
from mayfly.queue.count import find_lanes
from mayfly.queue.pauses import LANE, TYPE, Pause, load_pauses
from mayfly.settings import Settings

KIND = Choice((LANE, TYPE))
DEFAULT = "default"  # max_workers from the settings
PAUSE_FIELDS = ("kind", "name", "since", "until", "by", "reason")  # in JSON


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name")
@pause_options
def pause(kind: str, name: str, reason: str | None, until: datetime | None) -> None:
    """Pause a lane or a type on all hosts; running jobs finish."""
    settings, database = open_installation()
    start_pause(database, kind, name, this_user(TERMINAL), until, reason)
    _warn_about_unknown(settings, database, kind, name)
    click.echo(paused_text(f"{kind} {name}", until))


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name")
def resume(kind: str, name: str) -> None:
    """Resume a lane or a type; its delayed jobs are due at once."""
    _settings, database = open_installation()
    was_paused, moved = end_pause(database, kind, name, this_user(TERMINAL))
    text = f"Resumed {kind} {name}." if was_paused else f"{kind.capitalize()} {name} was not paused."
    click.echo(f"{text} {plural(moved, 'job')} due again." if moved else text)


@click.command()
@json_option
def pauses(as_json: bool) -> None:
    """List paused lanes and types: start, end, user, reason."""
    _settings, database = open_installation()
    now = database.clock.now()
    known = database.read(lambda connection: load_pauses(connection, now))
    found = sorted([*known.lanes.values(), *known.types.values()], key=lambda each: (each.kind, each.name))
    if as_json:
        print_json([dict(zip(PAUSE_FIELDS, map(json_value, each), strict=True)) for each in found])
    else:
        click.echo("\n".join(map(_pause_line, found)) or "No lane or type is paused.")


def _pause_line(pause: Pause) -> str:
    until = f" until {moment(pause.paused_until)}" if pause.paused_until else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"{pause.kind} {pause.name}  since {moment(pause.paused_at)} by {pause.paused_by}{until}{reason}"


def _warn_about_unknown(settings: Settings, database: Database, kind: str, name: str) -> None:
    """Only a warning: the lane or type may be new."""
    lanes = {*settings.lanes, *database.read(find_lanes)}
    known = lanes if kind == LANE else {*load_registry(settings).handlers}
    if name not in known:
        click.echo(f"warning: no {kind} {name!r} was found.{did_you_mean(name, known)}", err=True)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def lanes(context: click.Context, as_json: bool) -> None:
    """List lanes: backlog, oldest job, running, last hour, dead."""
    if context.invoked_subcommand:
        return
    settings, database = open_installation()
    now = database.clock.now()
    found = database.read(lambda connection: list_lanes(connection, settings, now))
    print_list(found, as_json, lambda found: lanes_text(found, now))


@lanes.command("pause")
@click.argument("name")
@pause_options
@click.pass_context
def pause_lane(context: click.Context, name: str, reason: str | None, until: datetime | None) -> None:
    """Pause a lane; same as `mayfly pause lane NAME`."""
    context.invoke(pause, kind=LANE, name=name, reason=reason, until=until)


@lanes.command("resume")
@click.argument("name")
@click.pass_context
def resume_lane(context: click.Context, name: str) -> None:
    """Resume a lane; same as `mayfly resume lane NAME`."""
    context.invoke(resume, kind=LANE, name=name)


@lanes.command("set")
@click.argument("name")
@click.argument("given", metavar="max_workers=NUMBER")
def set_lane(name: str, given: str) -> None:
    """Set max_workers of a lane on all hosts.

    Takes effect with the next plan. `max_workers=default` returns to the settings of each host.
    """
    setting, _, value = given.partition("=")
    if setting != "max_workers" or not (value == DEFAULT or (value.isascii() and value.isdigit())):
        raise click.UsageError(f"{given!r}: write max_workers=3, or max_workers={DEFAULT}.")
    settings, database = open_installation()
    set_max_workers(database, name, None if value == DEFAULT else int(value), this_user(TERMINAL))
    _warn_about_unknown(settings, database, LANE, name)
    click.echo(f"Lane {name}: max_workers {value if value != DEFAULT else 'from the settings'}.")


@click.command()
@click.argument("prefix", metavar="[KEY]", required=False)
@click.option("--used-up", is_flag=True, help="Only exhausted limits.")
@json_option
def limits(prefix: str | None, used_up: bool, as_json: bool) -> None:
    """List limits in use, or those whose key starts with KEY.

    A key is listed from its first job until a week after its last window.
    """
    _settings, database = open_installation()
    now = database.clock.now()
    listed = database.read(lambda connection: list(list_limits(connection, now)))
    found = [each for each in listed if each.key.startswith(prefix or "") and (each.is_used_up or not used_up)]
    print_list(found, as_json, limits_text)
