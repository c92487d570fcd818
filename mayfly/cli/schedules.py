"""`mayfly schedules`: list, pause, resume, run now, write those declared in Python, import a crontab."""

import pwd
import shutil
from datetime import datetime
from pathlib import Path
from typing import TextIO

import click

from mayfly.admin.auth import TERMINAL, this_user
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
from mayfly.cli import cron_file, crontab
from mayfly.cli.options import json_option, open_installation, pause_options, print_json
from mayfly.cli.text import paused_text, schedule_text
from mayfly.client import load_registry
from mayfly.clock import host_now
from mayfly.format import plural
from mayfly.process import exits
from mayfly.schedules import files
from mayfly.schedules.fire import load_known
from mayfly.schema import missing_embedded, open_database
from mayfly.settings import load_settings


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def schedules(context: click.Context, as_json: bool) -> int | None:
    """List the schedules of this host with their last and next runs.

    Times are in the time zone of the schedule and in UTC. Exit code 1 if a schedule file has an invalid line.
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
        click.echo("\n\n".join(map(schedule_text, views)) or "No schedules. See docs/how-to/schedule.md.")
    for problem in found.problems:
        click.echo(str(problem), err=True)
    return exits.ERROR if found.problems else exits.SUCCESS


@schedules.command()
@click.argument("name")
@pause_options
def pause(name: str, reason: str | None, until: datetime | None) -> None:
    """Pause a schedule on all hosts; missed runs are skipped."""
    settings = load_settings()
    entry = find_schedule(settings, name)
    database = open_database(settings)
    pause_schedule(database, entry, this_user(TERMINAL), until, reason)
    click.echo(paused_text(name, until))


@schedules.command()
@click.argument("name")
def resume(name: str) -> None:
    """Resume a schedule; it runs again at its next due time."""
    settings, database = open_installation()
    if resume_schedule(database, name, this_user(TERMINAL)):
        click.echo(f"Resumed {name}.")
    else:
        find_schedule(settings, name)  # raises for an unknown name
        click.echo(f"{name} was not paused.")


@schedules.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Validate; enqueue nothing.")
def run_now(name: str, dry_run: bool) -> None:
    """Enqueue a job of a schedule now and print its id.

    Works for a paused schedule too. Its due times do not change.
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
@click.option("--dry-run", is_flag=True, help="Print the file; write nothing.")
def sync(dry_run: bool) -> None:
    """Write the schedules declared in Python to a file.

    Run it at each deploy. It imports the modules of HANDLERS and collects their schedule() calls.
    """
    settings = load_settings()
    for module, reason in load_registry(settings).failures.items():
        raise click.ClickException(f"{module} cannot be imported: {reason}. Nothing was written; fix it and repeat.")
    text = files.declared_text()
    if dry_run:
        return click.echo(text, nl=False)
    files.sync(settings.home)
    number = max(0, text.count("\n") - 1)
    return click.echo(f"Wrote {plural(number, 'schedule')} to {settings.home / files.SYNCED}.")


@schedules.command("import")
@click.argument("file", metavar="CRONTAB", type=click.File(encoding="utf-8"))
@click.option("--system", is_flag=True, help="Each line has a user field, as in /etc/crontab and /etc/cron.d.")
def import_(file: TextIO, system: bool) -> int:
    """Print a crontab as lines of a schedule file, with run:.

    CRONTAB is a file, or - for standard input: `crontab -l | mayfly schedules import -`. Add the output to
    cron.d/schedule. Lines without an equivalent are comments there, with their reason on stderr and exit code 1.
    """
    account = pwd.getpwuid(load_settings().home.stat().st_uid)
    path = Path(file.name)
    is_system = system or path == Path("/etc/crontab") or path.parent == cron_file.DIRECTORY
    source = crontab.CrontabSource(
        account.pw_name, account.pw_dir, crontab.host_zone(), is_system, is_user=_is_user_and_no_program
    )
    found = crontab.translate(file.read(), source)
    click.echo(IMPORT_HEADING + found.text, nl=False)
    for line in (*found.notes, *found.refused):
        click.echo(line, err=True)
    return exits.ERROR if found.refused else exits.SUCCESS


IMPORT_HEADING = """\
# From a crontab, by `mayfly schedules import`. As under cron, a command that fails is not repeated: without
# max_attempts=1 it would be. A command ends at the latest with its runner, after WORKER_TIMEOUT: give one that takes
# longer a lane= whose timeout is longer, see docs/how-to/long-jobs.md#long-lanes. It starts in MAYFLY_HOME.
"""


def _is_user_and_no_program(word: str) -> bool:
    return cron_file.user_exists(word) and shutil.which(word) is None
