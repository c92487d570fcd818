"""`mayfly schedules`: look at them, pause and resume them, run one now, bring in those from Python."""

import json
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from mayfly import exits
from mayfly.actor import TERMINAL, this_user
from mayfly.errors import ScheduleUnfinished, UnknownSchedule
from mayfly.operators import end_of_pause, pause_options
from mayfly.settings import Settings, load_settings

if TYPE_CHECKING:
    from mayfly.connection import Connection
    from mayfly.schedules.entry import Entry
    from mayfly.schedules.files import Schedules


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
    from mayfly.jobs.audit import Deed  # the database and cronsim, only where they are needed
    from mayfly.opening import open_database
    from mayfly.schedules import store

    settings = load_settings()
    entry = _entry(settings, name)
    database = open_database(settings)
    now = database.clock.now()
    end = end_of_pause(until, now)
    actor = this_user(TERMINAL)

    def work(connection: "Connection") -> None:
        store.pause(connection, entry, now, end, actor.name, reason)
        Deed(actor, "pause schedule", name, now, reason).note(connection)

    database.run(work)
    click.echo(f"Paused {name}{f' until {until}' if until else ''}.")
    return exits.SUCCESS


@schedules.command()
@click.argument("name")
def resume(name: str) -> int:
    """Let NAME fire again, from its next due time on."""
    from mayfly.jobs.audit import Deed
    from mayfly.opening import open_database
    from mayfly.schedules import store

    settings = load_settings()
    database = open_database(settings)
    now = database.clock.now()

    def work(connection: "Connection") -> bool:
        was_paused = store.resume(connection, name, now)
        if was_paused:
            Deed(this_user(TERMINAL), "resume schedule", name, now).note(connection)
        return was_paused

    if database.run(work):
        click.echo(f"Resumed {name}.")
    else:
        _entry(settings, name)  # a misspelled name is told; one that was not paused is no error
        click.echo(f"{name} was not paused.")
    return exits.SUCCESS


@schedules.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Check everything, enqueue nothing.")
def run_now(name: str, dry_run: bool) -> int:
    """Enqueue a job of NAME at once, paused or not; its due times stay as they are. Prints the job's id."""
    from mayfly.jobs.audit import Deed
    from mayfly.jobs.enqueue import Door, insert_job, insert_jobs
    from mayfly.opening import open_database
    from mayfly.schedules.fire import new_job
    from mayfly.schema import JOBS

    settings = load_settings()
    entry = _entry(settings, name)
    database = open_database(settings)
    at_once = replace(entry, jitter=0)
    now = database.clock.now()
    new = new_job(Door(settings.payload_limit, settings.max_attempts), at_once, now)
    if dry_run:
        click.echo("The job is fine; nothing was enqueued.")
        return exits.SUCCESS

    def work(connection: "Connection") -> int:
        inserted = insert_jobs(connection, JOBS, [new])
        Deed(this_user(TERMINAL), "run schedule", name, now).add(connection, inserted)
        return inserted

    if not database.run(work) and entry.overlap == "skip":
        raise ScheduleUnfinished(name)
    click.echo(database.run(lambda connection: insert_job(connection, JOBS, new)))  # finds it by its key
    return exits.SUCCESS


@schedules.command()
@click.option("--dry-run", is_flag=True, help="Print the file, write nothing.")
def sync(dry_run: bool) -> int:
    """Write what schedule() declares in the modules of HANDLERS to a schedule file. Part of every deploy."""
    from mayfly.opening import load_registry
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
    from mayfly import opening
    from mayfly.clock import host_now
    from mayfly.schedules import listing
    from mayfly.schedules.store import load_known

    found = _read(settings)
    known, now = {}, host_now()
    if opening.missing_embedded(settings.database_url.get_secret_value()) is None:
        database = opening.open_database(settings)
        known, now = database.read(load_known), database.clock.now()
    shown = listing.listed(found.entries, known, now)
    if as_json:
        problems = list(map(str, found.problems))
        click.echo(json.dumps({"schedules": list(map(listing.facts, shown)), "problems": problems}, indent=2))
    else:
        click.echo("\n\n".join(map(listing.text, shown)) or "There are no schedules. See docs/schedules.md.")
    for problem in found.problems:
        click.echo(str(problem), err=True)
    return exits.ERROR if found.problems else exits.SUCCESS


def _entry(settings: Settings, name: str) -> "Entry":
    found = _read(settings)
    entry = found.get(name)
    if entry is None:
        raise UnknownSchedule(name, next(iter(get_close_matches(name, [each.name for each in found.entries])), None))
    return entry


def _read(settings: Settings) -> "Schedules":
    from mayfly.schedules.files import read_schedules
    from mayfly.schedules.wake import schedule_files

    return read_schedules(schedule_files(settings), settings.home, settings.payload_limit)
