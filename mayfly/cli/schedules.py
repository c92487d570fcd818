"""`mayfly schedules`: look at them, pause and resume them, run one now, bring in those from Python."""

import json

import click

from mayfly.admin.audit import TERMINAL, this_user
from mayfly.cli.options import end_of_pause, pause_options
from mayfly.process import exits
from mayfly.settings import Settings, load_settings


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def schedules(context: click.Context, as_json: bool) -> int | None:
    """List the schedules of this host, each with its last run and its next five, in its zone and in UTC.

    Exit 1 if a line of a schedule file is refused.
    """
    return None if context.invoked_subcommand else show(load_settings(), as_json)


@schedules.command()
@click.argument("name")
@pause_options
def pause(name: str, reason: str | None, until: str | None) -> int:
    """Let NAME fire nothing, on all hosts. What is due meanwhile is not made up for."""
    from mayfly.admin import schedules as actions
    from mayfly.bootstrap import open_database  # the database and cronsim, only where they are needed

    settings = load_settings()
    entry = actions.find_schedule(settings, name)
    database = open_database(settings)
    end = end_of_pause(until, database.clock.now())
    actions.pause_schedule(database, entry, this_user(TERMINAL), end, reason)
    click.echo(f"Paused {name}{f' until {until}' if until else ''}.")
    return exits.SUCCESS


@schedules.command()
@click.argument("name")
def resume(name: str) -> int:
    """Let NAME fire again, from its next due time on."""
    from mayfly.admin import schedules as actions
    from mayfly.bootstrap import open_database

    settings = load_settings()
    if actions.resume_schedule(open_database(settings), name, this_user(TERMINAL)):
        click.echo(f"Resumed {name}.")
    else:
        actions.find_schedule(settings, name)  # a misspelled name is told; one that was not paused is no error
        click.echo(f"{name} was not paused.")
    return exits.SUCCESS


@schedules.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Check everything, enqueue nothing.")
def run_now(name: str, dry_run: bool) -> int:
    """Enqueue a job of NAME at once, paused or not; its due times stay as they are. Prints the job's id."""
    from mayfly.admin import schedules as actions
    from mayfly.bootstrap import open_database

    settings = load_settings()
    entry = actions.find_schedule(settings, name)
    database = open_database(settings)
    if dry_run:
        actions.job_of_now(settings, entry, database.clock.now())
        click.echo("The job is fine; nothing was enqueued.")
        return exits.SUCCESS
    click.echo(actions.run_schedule(database, settings, entry, this_user(TERMINAL)))
    return exits.SUCCESS


@schedules.command()
@click.option("--dry-run", is_flag=True, help="Print the file, write nothing.")
def sync(dry_run: bool) -> int:
    """Write what schedule() declares in the modules of HANDLERS to a schedule file. Part of every deploy."""
    from mayfly.bootstrap import load_registry
    from mayfly.schedules import declare

    settings = load_settings()
    for module, reason in load_registry(settings).failures.items():
        raise click.ClickException(f"{module} cannot be imported: {reason}. Nothing was written.")
    if dry_run:
        click.echo(declare.declared_text(), nl=False)
        return exits.SUCCESS
    declare.sync(settings.home)
    number = declare.declared_text().count("\n") - 1
    click.echo(f"{max(0, number)} schedules from Python, in {settings.home / declare.SYNCED}.")
    return exits.SUCCESS


def show(settings: Settings, as_json: bool) -> int:
    from mayfly import bootstrap
    from mayfly.admin import schedules as views
    from mayfly.admin.schedules import load_schedules
    from mayfly.clock import host_now
    from mayfly.schedules.fire import load_known

    found = load_schedules(settings)
    known, now = {}, host_now()
    if bootstrap.missing_embedded(settings.database_url.get_secret_value()) is None:
        database = bootstrap.open_database(settings)
        known, now = database.read(load_known), database.clock.now()
    shown = views.schedule_view(found.entries, known, now)
    if as_json:
        problems = list(map(str, found.problems))
        click.echo(json.dumps({"schedules": list(map(views.facts, shown)), "problems": problems}, indent=2))
    else:
        click.echo("\n\n".join(map(views.schedules_text, shown)) or "There are no schedules. See docs/schedules.md.")
    for problem in found.problems:
        click.echo(str(problem), err=True)
    return exits.ERROR if found.problems else exits.SUCCESS
