"""Commands about lanes and pauses: list lanes, pause and resume lanes and types, set max_workers."""

from typing import Any

import click

from mayfly.admin.audit import TERMINAL, this_user
from mayfly.admin.lanes import end_pause, list_lanes, set_max_workers, start_pause
from mayfly.bootstrap import load_registry
from mayfly.cli.options import (
    Choice,
    future_time,
    json_option,
    name_given,
    open_installation,
    pause_options,
    print_json,
    print_list,
)
from mayfly.cli.text import lanes_text
from mayfly.db.database import Database
from mayfly.format import did_you_mean, moment, plural
from mayfly.queue.count import find_lanes
from mayfly.queue.pauses import LANE, TYPE, Pause, load_pauses
from mayfly.settings import Settings

KIND = Choice((LANE, TYPE))
DEFAULT = "default"  # max_workers of the settings


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=name_given)
@pause_options
def pause(kind: str, name: str, reason: str | None, until: str | None) -> None:
    """Pause a lane or a type on all hosts; running jobs finish."""
    settings, database = open_installation()
    end = future_time(until, database.clock.now())
    start_pause(database, kind, name, this_user(TERMINAL), end, reason)
    _warn_of_unknown(settings, database, kind, name)
    click.echo(f"Paused {kind} {name}{f' until {until}' if until else ''}.")


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=name_given)
def resume(kind: str, name: str) -> None:
    """Resume a lane or a type; its delayed jobs are due at once."""
    _settings, database = open_installation()
    was_paused, moved = end_pause(database, kind, name, this_user(TERMINAL))
    text = f"Resumed {kind} {name}." if was_paused else f"{kind.capitalize()} {name} was not paused."
    click.echo(f"{text} {plural(moved, 'job')} due again." if moved else text)


@click.command()
@json_option
def pauses(as_json: bool) -> None:
    """List paused lanes and types: since, until, by whom and why."""
    _settings, database = open_installation()
    now = database.clock.now()
    known = database.read(lambda connection: load_pauses(connection, now))
    found = sorted([*known.lanes.values(), *known.types.values()], key=lambda each: (each.kind, each.name))
    if as_json:
        print_json(list(map(_pause_facts, found)))
    else:
        click.echo("\n".join(map(_pause_line, found)) or "Nothing is paused.")


def _pause_facts(pause: Pause) -> dict[str, Any]:
    return {
        "kind": pause.kind,
        "name": pause.name,
        "since": pause.paused_at.isoformat(timespec="seconds"),
        "until": pause.paused_until and pause.paused_until.isoformat(timespec="seconds"),
        "by": pause.paused_by,
        "reason": pause.reason,
    }


def _pause_line(pause: Pause) -> str:
    until = f" until {moment(pause.paused_until)}" if pause.paused_until else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"{pause.kind} {pause.name}  since {moment(pause.paused_at)} by {pause.paused_by}{until}{reason}"


def _warn_of_unknown(settings: Settings, database: Database, kind: str, name: str) -> None:
    """Not an error: the lane or type may be new."""
    lanes = {*settings.lanes, *database.read(find_lanes)}
    known = lanes if kind == LANE else {*load_registry(settings).handlers}
    if name not in known:
        click.echo(f"warning: no {kind} {name!r} is known here.{did_you_mean(name, known)}", err=True)


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
@click.argument("name", callback=name_given)
@pause_options
@click.pass_context
def pause_lane(context: click.Context, name: str, reason: str | None, until: str | None) -> None:
    """Pause a lane; the same as `mayfly pause lane NAME`."""
    context.invoke(pause, kind=LANE, name=name, reason=reason, until=until)


@lanes.command("resume")
@click.argument("name", callback=name_given)
@click.pass_context
def resume_lane(context: click.Context, name: str) -> None:
    """Resume a lane; the same as `mayfly resume lane NAME`."""
    context.invoke(resume, kind=LANE, name=name)


@lanes.command("set")
@click.argument("name", callback=name_given)
@click.argument("given", metavar="max_workers=NUMBER")
def set_lane(name: str, given: str) -> None:
    """Set max_workers of a lane on all hosts.

    It holds from the next plan on. `max_workers=default` returns to the settings of each host.
    """
    setting, _, value = given.partition("=")
    if setting != "max_workers" or not (value == DEFAULT or (value.isascii() and value.isdigit())):
        raise click.UsageError(f"{given!r}: write max_workers=3, or max_workers={DEFAULT}.")
    settings, database = open_installation()
    set_max_workers(database, name, None if value == DEFAULT else int(value), this_user(TERMINAL))
    _warn_of_unknown(settings, database, LANE, name)
    click.echo(f"Lane {name}: max_workers {value if value != DEFAULT else 'from the settings'}.")
