"""The command `mayfly`: each verb is the library call of the same name."""

import json
import sys
from typing import Any

import click

from mayfly import __version__
from mayfly.cli import jobs as control
from mayfly.cli import lanes, views
from mayfly.cli import maintenance as upkeep
from mayfly.cli.batches import batches
from mayfly.cli.limits import limits
from mayfly.cli.metrics import metrics
from mayfly.cli.options import time_with_zone
from mayfly.cli.schedules import schedules
from mayfly.cli.tokens import password, token
from mayfly.format import has_colour
from mayfly.process import command_line, exits
from mayfly.settings import Settings, load, load_settings


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mayfly")
def mayfly() -> None:
    """Background jobs that live for less than a minute.

    Cron runs `python -m dispatcher` every minute; this command is for the people around it.
    """


@mayfly.command()
@click.argument("type_name", metavar="TYPE")
@click.argument("payload", metavar="[JSON|-]", default="{}")
@click.option("--lane", help="Where it waits; the handler's own lane by default.")
@click.option("--run-at", metavar="TIME", help="Not before this time, e.g. 2026-05-04T12:00+02:00.")
@click.option("--delay", type=float, metavar="SECONDS", help="Not before this many seconds from now.")
@click.option("--priority", type=click.IntRange(0, 2), help="0 high, 1 normal, 2 low.")
@click.option("--unique-key", help="At most one job holds this key.")
@click.option("--unique", metavar="HOW LONG", help="'until done' (the default), 'while pending', 'for 1h'.")
@click.option("--on-conflict", type=click.Choice(["keep", "replace", "error"]), help="If the key is held; keep.")
@click.option("--expires-at", metavar="TIME", help="Not started by then: cancelled.")
@click.option("--expires-in", type=float, metavar="SECONDS", help="Not started within this time: cancelled.")
@click.option("--group-key", help="A name for this job and others, to handle them together.")
@click.option("--max-attempts", type=int, help="Tries before it is dead.")
@click.option("--dry-run", is_flag=True, help="Check everything, enqueue nothing.")
def enqueue(
    type_name: str, payload: str, run_at: str | None, expires_at: str | None, dry_run: bool, **options: Any
) -> int:
    """Enqueue a job of TYPE with the given JSON object, or with each line of standard input (-).

    Prints the new job's id, or, for -, how many were enqueued.
    """
    from mayfly.cli.enqueue import enqueue_line, enqueue_lines, known_options  # the database, only where it is needed

    times = {
        "run_at": time_with_zone(run_at, "--run-at"),
        "expires_at": time_with_zone(expires_at, "--expires-at"),
    }
    given = known_options(type_name, **times, **options)
    if payload == "-":
        return enqueue_lines(sys.stdin, given, dry_run)
    return enqueue_line(payload, given, dry_run)


@mayfly.command()
@click.option("--sql", is_flag=True, help="Print the statements for an empty database instead of running them.")
@click.option("--app", is_flag=True, help="The tables that handlers bring along, instead of Mayfly's own.")
def migrate(sql: bool, app: bool) -> int:
    """Create or update Mayfly's tables. Safe to repeat, and from several hosts at once."""
    from mayfly.schema import migrations  # Alembic, imported nowhere else

    settings = load_settings()
    url = settings.database_url.get_secret_value()
    if app:
        return _migrate_app(settings, url, sql)
    if sql:
        migrations.migration_sql(url)
        return exits.SUCCESS
    click.echo(_migrated("the schema", *migrations.migrate(url)))
    return exits.SUCCESS


def _migrate_app(settings: Settings, url: str, sql: bool) -> int:
    from mayfly.bootstrap import add_home_to_path
    from mayfly.schema.migrations.apps import app_migration_sql, app_tables, migrate_app  # as above

    add_home_to_path(settings)
    found = list(app_tables(settings.handlers))
    if not found:
        click.echo(f"No package in HANDLERS ({', '.join(settings.handlers)}) brings tables.", err=True)
    for tables in found:
        if sql:
            app_migration_sql(url, tables)
        else:
            click.echo(_migrated(f"the tables of {tables.package}", *migrate_app(url, tables)))
    return exits.SUCCESS


def _migrated(what: str, before: str | None, after: str | None) -> str:
    if before == after:
        return f"{what[0].upper()}{what[1:]} {'is' if what == 'the schema' else 'are'} up to date (version {after})."
    return f"Migrated {what} from {'nothing' if before is None else before} to version {after}."


@mayfly.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(as_json: bool) -> int:
    """Show every setting, its value and where it came from. Secrets are masked."""
    from mayfly.bootstrap import load_registry
    from mayfly.registry import required_names  # the handlers, whose integrations have settings too
    from mayfly.settings.loading import integration_origins

    loaded = load()
    registry = load_registry(loaded.settings)
    origins = [*loaded.origins, *integration_origins(required_names(registry.handlers.values()))]
    if as_json:
        facts = [{"name": each.name, "value": each.value, "source": each.source} for each in origins]
        click.echo(json.dumps(facts, indent=2))
        return exits.SUCCESS
    width = max(len(each.name) for each in origins)
    value_width = min(48, max(len(each.value) for each in origins))
    for each in origins:
        click.echo(f"{each.name.ljust(width)}  {each.value.ljust(value_width)}  {each.source}")
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return exits.SUCCESS


@mayfly.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Check everything that a working installation needs; exit 1 on a problem."""
    from mayfly.cli.doctor import render_checks, run_checks

    findings = run_checks()
    if as_json:
        click.echo(json.dumps([each.facts() for each in findings], indent=2))
    else:
        click.echo(render_checks(findings, colour=has_colour(sys.stdout)))
    return exits.ERROR if any(each.is_problem for each in findings) else exits.SUCCESS


@mayfly.command()
@click.option("--lane", "lanes", multiple=True, metavar="NAME", help="Serve only this lane; may be repeated.")
def dev(lanes: tuple[str, ...]) -> int:
    """Run a cycle now and every minute, with the log on the terminal, until Ctrl-C. For development."""
    from mayfly.cli.dev import run_cycles

    load_settings()  # a wrong setting is said once, not every minute
    return run_cycles(lanes)


COMMANDS = (*views.COMMANDS, *control.COMMANDS, *lanes.COMMANDS, *upkeep.COMMANDS)

for command in (batches, schedules, limits, metrics, password, token, *COMMANDS):
    mayfly.add_command(command)


def main() -> None:
    command_line.run_command(mayfly, "mayfly")
