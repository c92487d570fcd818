"""The commands by which people hold work up and let it go on: `mayfly pause`, `resume`, `pauses`."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from mayfly import exits
from mayfly.operators import end_of_pause, pause_options, who
from mayfly.schema import NAME_LENGTH
from mayfly.settings import Settings, load_settings
from mayfly.wording import storable

if TYPE_CHECKING:
    from mayfly.engine import Database
    from mayfly.jobs.pauses import Pause

KIND = click.Choice(("lane", "type"))


def _name(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    if not 1 <= len(given) <= NAME_LENGTH:
        raise click.BadParameter(f"must have 1 to {NAME_LENGTH} characters")
    return storable(given)


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=_name)
@pause_options
def pause(kind: str, name: str, reason: str | None, until: str | None) -> int:
    """Start nothing more in the lane NAME, or of the type NAME, on all hosts. What runs already is not touched."""
    from mayfly.jobs import pauses  # the database, only where it is needed
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    settings = load_settings()
    database = open_database(settings)
    now = database.clock.now()
    new = pauses.Pause(kind, name, now, end_of_pause(until, now), who(), reason and storable(reason))
    was_paused = database.run(lambda connection: pauses.pause(connection, new))
    if was_paused and kind == pauses.TYPE:
        pauses.bring_back(database, JOBS, name)  # to be put off again, until the new end
    _warn_of_unknown(settings, database, kind, name)
    click.echo(f"Paused {kind} {name}{f' until {until}' if until else ''}.")
    return exits.SUCCESS


@click.command()
@click.argument("kind", type=KIND, metavar="lane|type")
@click.argument("name", callback=_name)
def resume(kind: str, name: str) -> int:
    """Let the lane NAME, or the type NAME, go on. What a paused type had put off is due at once."""
    from mayfly.jobs import pauses
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    database = open_database(load_settings())
    now = database.clock.now()
    was_paused = database.run(lambda connection: pauses.resume(connection, kind, name, now))
    moved = pauses.bring_back(database, JOBS, name) if kind == pauses.TYPE else 0
    back = f" {moved} jobs are due again." if moved else ""
    told = f"Resumed {kind} {name}." if was_paused else f"{kind.capitalize()} {name} was not paused."
    click.echo(f"{told}{back}")
    return exits.SUCCESS


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def pauses(as_json: bool) -> int:
    """List the lanes and types that are paused, since when, until when, by whom and why."""
    from mayfly.jobs.pauses import load_pauses
    from mayfly.opening import open_database

    database = open_database(load_settings())
    now = database.clock.now()
    known = database.read(lambda connection: load_pauses(connection, now))
    held = sorted([*known.lanes.values(), *known.types.values()])
    click.echo(json.dumps(list(map(_facts, held)), indent=2) if as_json else _listed(held))
    return exits.SUCCESS


def _facts(pause: "Pause") -> dict[str, Any]:
    return {
        "kind": pause.kind,
        "name": pause.name,
        "since": pause.paused_at.isoformat(timespec="seconds"),
        "until": pause.paused_until and pause.paused_until.isoformat(timespec="seconds"),
        "by": pause.paused_by,
        "reason": pause.reason,
    }


def _listed(held: Iterable["Pause"]) -> str:
    return "\n".join(map(_line, held)) or "Nothing is paused."


def _line(pause: "Pause") -> str:
    until = f" until {_minute(pause.paused_until)}" if pause.paused_until else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"{pause.kind} {pause.name}  since {_minute(pause.paused_at)} by {pause.paused_by}{until}{reason}"


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _warn_of_unknown(settings: Settings, database: "Database", kind: str, name: str) -> None:
    """A misspelled name would be a pause that holds nothing; one that is new is no mistake."""
    from difflib import get_close_matches

    from mayfly.jobs.looks import find_lanes
    from mayfly.opening import load_registry
    from mayfly.schema import JOBS

    if kind == "lane":
        known = {*settings.lanes, *database.read(lambda connection: find_lanes(connection, JOBS))}
    else:
        known = {*load_registry(settings).handlers}
    if name not in known:
        nearest = next(iter(get_close_matches(name, known, n=1)), None)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        click.echo(f"warning: no {kind} {name!r} is known here{hint}", err=True)
