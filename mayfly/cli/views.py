"""The commands that only look: what waits, runs, has ended and was done by hand."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mayfly.cli.options import duration
from mayfly.format import has_colour
from mayfly.process import exits
from mayfly.schema.tables import STATUSES
from mayfly.settings import load_settings

if TYPE_CHECKING:
    from mayfly.db.connection import Connection
    from mayfly.db.database import Database

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
JOB_ID = click.IntRange(1, 2**63 - 1)


def limit_option(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--limit", type=click.IntRange(1, 1000), default=default, show_default=True, help="So many at most."
    )


@click.command()
@click.option("--watch", type=click.FloatRange(0.2, 3600), is_flag=False, flag_value=2.0, metavar="[SECONDS]",
              help="Show it again every 2 seconds, or as many as are given, until Ctrl-C.")  # fmt: skip
@as_json_option
def status(watch: float | None, as_json: bool) -> int:
    """Show how it is with every lane, and when each host had its last cycle.

    Exit 0 if all is well, 1 if something is degraded or paused, 2 if no cycle ran lately.
    """
    from mayfly.bootstrap import open_database  # the database, only where it is needed
    from mayfly.cli.top import status_now, watch_status

    settings = load_settings()
    database = open_database(settings)
    if watch is not None:
        return watch_status(database, settings, watch, as_json)
    return status_now(database, settings, as_json)


@click.command()
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=1.0, show_default=True, metavar="SECONDS",
              help="How often it looks.")  # fmt: skip
def top(interval: float) -> int:
    """Watch lanes, runners and cycles on the whole screen; q ends it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; `mayfly status` prints the same figures once.")
    from mayfly.bootstrap import open_database
    from mayfly.cli.top import show

    settings = load_settings()
    show(open_database(settings), settings, interval)
    return exits.SUCCESS


@click.command()
@click.option("--lane", metavar="NAME", help="Those of this lane.")
@click.option("--type", "type_name", metavar="NAME", help="Those of this type.")
@click.option("--status", "status_word", type=click.Choice(STATUSES), help="Those that are so.")
@click.option("--group", "group_key", metavar="KEY", help="Those with this group_key.")
@click.option(
    "--error", metavar="FINGERPRINT", help="Those whose last error has this fingerprint; see `mayfly dead`."
)
@click.option("--older-than", callback=duration, metavar="TIME", help="Enqueued so long ago: 90s, 5m, 2h, 1d.")
@click.option("--younger-than", callback=duration, metavar="TIME", help="Enqueued since then.")
@click.option("--text", help="Those that have it in payload, error or keys; looks at the newest 10,000.")
@click.option("--after", metavar="NEXT", help="Go on where the page before has ended.")
@limit_option(50)
@as_json_option
def jobs(
    lane: str | None,
    type_name: str | None,
    status_word: str | None,
    group_key: str | None,
    error: str | None,
    older_than: int | None,
    younger_than: int | None,
    text: str | None,
    after: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """List the jobs that have all of what is named, the newest first."""
    from mayfly import admin
    from mayfly.admin.filters import JobFilter
    from mayfly.bootstrap import open_database
    from mayfly.cli.text import jobs_text
    from mayfly.client import created_before

    database = open_database(load_settings())
    before, since = (None if age is None else created_before(database, age) for age in (older_than, younger_than))
    which = JobFilter(None, group_key, lane, type_name, status_word, before, since, error)
    page = database.read(lambda connection: admin.list_jobs(connection, which, text, limit, after))
    if as_json:
        click.echo(json.dumps(page.facts(), indent=2))
        return exits.SUCCESS
    click.echo(jobs_text(page.jobs, database.clock.now()) if page.jobs else "No job was found.")
    if page.next is not None:
        seen = "Only so many rows are searched at a time; there may be more" if page.is_cut else "There are more"
        click.echo(f"{seen}: --after {page.next}", err=True)
    return exits.SUCCESS


@click.command()
@click.argument("job_id", type=JOB_ID, metavar="ID")
@as_json_option
def show(job_id: int, as_json: bool) -> int:
    """Show everything about the job ID: its row, why it is so, its timeline, each attempt with its error."""
    from mayfly import admin
    from mayfly.bootstrap import load_registry, open_database
    from mayfly.cli.text import job_text

    settings = load_settings()
    database, registry = open_database(settings), load_registry(settings)
    now = database.clock.now()
    view = database.read(lambda connection: admin.read_job(connection, job_id, settings, registry, now))
    click.echo(json.dumps(view.facts(), indent=2) if as_json else job_text(view, has_colour(sys.stdout)))
    return exits.SUCCESS


@click.command()
@click.option("--lane", metavar="NAME", help="Only those of this lane.")
@as_json_option
def dead(lane: str | None, as_json: bool) -> int:
    """Group the dead jobs by type and error, most frequent first: the newest 5,000."""
    from mayfly import admin
    from mayfly.bootstrap import open_database
    from mayfly.cli.text import dead_text

    database = open_database(load_settings())
    now = database.clock.now()
    found = database.read(lambda connection: admin.list_dead(connection, lane, now))
    if as_json:
        click.echo(json.dumps(found.facts(), indent=2))
        return exits.SUCCESS
    click.echo(dead_text(found, now))
    if found.is_cut:
        click.echo(f"There are more: these are of the newest {found.looked_at:,}.", err=True)
    return exits.SUCCESS


@click.command()
@click.option("--before", type=JOB_ID, metavar="CYCLE", help="Only those before this one.")
@limit_option(20)
@as_json_option
def cycles(before: int | None, limit: int, as_json: bool) -> int:
    """List the last cycles: when and where, how long they took, what came of them."""
    from mayfly import admin
    from mayfly.cli.text import cycles_text

    _, found = _read(lambda connection: admin.list_cycles(connection, limit, before))
    click.echo(_listed(found) if as_json else cycles_text(found))
    return exits.SUCCESS


@click.command()
@click.option("--live", is_flag=True, help="Only those that are alive.")
@limit_option(50)
@as_json_option
def runners(live: bool, limit: int, as_json: bool) -> int:
    """List the runners: those that are alive, then the last that ended, and how."""
    from mayfly import admin
    from mayfly.cli.text import runners_text

    database, found = _read(lambda connection: admin.list_runners(connection, limit, live))
    click.echo(_listed(found) if as_json else runners_text(found, database.clock.now()))
    return exits.SUCCESS


@click.command()
@click.option("--before", type=JOB_ID, metavar="ID", help="Only those before this one.")
@limit_option(50)
@as_json_option
def audit(before: int | None, limit: int, as_json: bool) -> int:
    """List what was done by hand: when, by whom, through which door, to how many jobs, and why."""
    from mayfly import admin
    from mayfly.cli.text import deeds_text

    _, found = _read(lambda connection: admin.list_audit(connection, limit, before))
    click.echo(_listed(found) if as_json else deeds_text(found))
    return exits.SUCCESS


def _read(look: Callable[["Connection"], list[Any]]) -> tuple["Database", list[Any]]:
    from mayfly.bootstrap import open_database

    database = open_database(load_settings())
    return database, database.read(look)


def _listed(found: list[Any]) -> str:
    return json.dumps([each.facts() for each in found], indent=2)


COMMANDS = (status, top, jobs, show, dead, cycles, runners, audit)
