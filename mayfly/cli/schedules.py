"""`mayfly schedules`: list them, pause and resume them, run one now, write those declared in Python."""

import click

from mayfly.admin.audit import TERMINAL, this_user
from mayfly.admin.schedules import (
    facts,
    find_schedule,
    job_of_now,
    load_schedules,
    pause_schedule,
    resume_schedule,
    run_schedule,
    schedule_view,
)
from mayfly.bootstrap import load_registry, missing_embedded, open_database
from mayfly.cli.options import future_time, json_option, open_installation, pause_options, print_json
from mayfly.cli.text import schedule_text
from mayfly.clock import host_now
from mayfly.format import plural
from mayfly.process import exits
from mayfly.schedules import declare
from mayfly.schedules.fire import load_known
from mayfly.settings import load_settings


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def schedules(context: click.Context, as_json: bool) -> int | None:
    """List the schedules of this host with their last and next runs.

    Times are in the schedule's zone and in UTC. Exit code 1 if a line of a schedule file is invalid.
    """
    return None if context.invoked_subcommand else _list(as_json)


def _list(as_json: bool) -> int:
    settings = load_settings()
    found = load_schedules(settings)
    known, now = {}, host_now()
    if missing_embedded(settings.database_url.get_secret_value()) is None:
        database = open_database(settings)
        known, now = database.read(load_known), database.clock.now()
    views = schedule_view(found.entries, known, now)
    if as_json:
        print_json({"schedules": list(map(facts, views)), "problems": list(map(str, found.problems))})
    else:
        click.echo("\n\n".join(map(schedule_text, views)) or "There are no schedules. See docs/schedules.md.")
    for problem in found.problems:
        click.echo(str(problem), err=True)
    return exits.ERROR if found.problems else exits.SUCCESS


@schedules.command()
@click.argument("name")
@pause_options
def pause(name: str, reason: str | None, until: str | None) -> None:
    """Pause a schedule on all hosts; missed runs are skipped."""
    settings = load_settings()
    entry = find_schedule(settings, name)
    database = open_database(settings)
    end = future_time(until, database.clock.now())
    pause_schedule(database, entry, this_user(TERMINAL), end, reason)
    click.echo(f"Paused {name}{f' until {until}' if until else ''}.")


@schedules.command()
@click.argument("name")
def resume(name: str) -> None:
    """Resume a schedule from its next due time on."""
    settings, database = open_installation()
    if resume_schedule(database, name, this_user(TERMINAL)):
        click.echo(f"Resumed {name}.")
    else:
        find_schedule(settings, name)  # an unknown name is an error; one that was not paused is none
        click.echo(f"{name} was not paused.")


@schedules.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Check everything, enqueue nothing.")
def run_now(name: str, dry_run: bool) -> None:
    """Enqueue a job of a schedule now and print its id.

    Also if it is paused; its due times do not change.
    """
    settings = load_settings()
    entry = find_schedule(settings, name)
    database = open_database(settings)
    if dry_run:
        job_of_now(settings, entry, database.clock.now())
        click.echo("The job is valid; nothing was enqueued.")
    else:
        click.echo(run_schedule(database, settings, entry, this_user(TERMINAL)))


@schedules.command()
@click.option("--dry-run", is_flag=True, help="Print the file, write nothing.")
def sync(dry_run: bool) -> None:
    """Write schedules declared in Python to a file, at each deploy.

    Those are the schedule() calls in the modules of HANDLERS.
    """
    settings = load_settings()
    for module, reason in load_registry(settings).failures.items():
        raise click.ClickException(f"{module} cannot be imported: {reason}. Nothing was written.")
    text = declare.declared_text()
    if dry_run:
        return click.echo(text, nl=False)
    declare.sync(settings.home)
    number = max(0, text.count("\n") - 1)
    return click.echo(f"{plural(number, 'schedule')} from Python, in {settings.home / declare.SYNCED}.")
