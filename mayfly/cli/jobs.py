"""What the commands of control say: how many jobs there are, and why one does not go on."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import click

from mayfly import admin
from mayfly.admin import MAX_MATCHING_COUNTED
from mayfly.admin.audit import TERMINAL, this_user
from mayfly.admin.bulk import ROWS_PER_SLICE, no_progress
from mayfly.admin.filters import JobFilter
from mayfly.admin.why import JobRow, Reason
from mayfly.cli.options import ask, duration, end_of_pause, jobs_meant, jobs_options
from mayfly.db.database import Database
from mayfly.process import exits
from mayfly.queue.options import timedelta_of
from mayfly.settings import load_settings


def counted(number: int) -> str:
    return f"{MAX_MATCHING_COUNTED:,}+ jobs" if number > MAX_MATCHING_COUNTED else f"{number:,} jobs"


def explained(row: JobRow, reasons: Sequence[Reason]) -> str:
    told = (f"  {each.text}" for each in reasons)
    return "\n".join([f"Job {row.id} ({row.type}, lane {row.lane}) is {row.status}.", *told])


def explained_facts(row: JobRow, reasons: Sequence[Reason]) -> dict[str, Any]:
    told = [{"why": each.name, "text": each.text} for each in reasons]
    return {"id": row.id, "type": row.type, "lane": row.lane, "status": row.status, "reasons": told}


class Change(NamedTuple):
    """A verb in the words of a command."""

    verb: admin.Verb
    done: str  # "cancelled"
    none: str  # what it is said of when there was none: "unfinished job"
    until: datetime | None = None


def change_jobs(
    database: Database,
    change: Change,
    which: JobFilter,
    yes: bool,
    dry_run: bool,
    act: Callable[[admin.OnProgress], admin.BulkResult],
) -> int:
    number = admin.count_matching(database, change.verb, which, change.until)
    if dry_run:
        click.echo(f"{counted(number)} would be {change.done}; nothing was changed.")
        return exits.SUCCESS
    if number > 1 and not yes:
        ask(f"{change.verb.name.capitalize()} {counted(number)}?")
    with _progress(change.done, number) as tell:
        done = act(tell)
    click.echo(_result_text(change, done))
    return exits.SUCCESS


def _result_text(change: Change, done: admin.BulkResult) -> str:
    if done == admin.BulkResult():
        return f"No {change.none} was found; nothing was changed."
    running = f" {done.told} run and were told to end." if done.told else ""
    held = f" {done.held} stay as they are: another job holds their unique key by now." if done.held else ""
    return f"{done.changed} jobs {change.done}.{running}{held}"


@contextmanager
def _progress(done: str, number: int) -> Iterator[admin.OnProgress]:
    """A bar where somebody watches, and where it takes more than a moment."""
    if number <= ROWS_PER_SLICE or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console  # only here: nothing else of this command draws
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        # Beyond what was counted nobody knows how many there are.
        task = bar.add_task(f"Jobs {done}", total=number if number <= admin.MAX_MATCHING_COUNTED else None)
        yield lambda jobs: bar.advance(task, jobs)


@click.command()
@jobs_options(("pending", "processing"))
def cancel(yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Cancel the unfinished jobs that have all of what is named.

    Those that wait end at once. Those that run are told, and end when their handlers look.
    """
    from mayfly import admin
    from mayfly.bootstrap import open_database

    database = open_database(load_settings())
    which = jobs_meant(database, **named)

    def act(tell: admin.OnProgress) -> admin.BulkResult:
        ended, told = admin.cancel(database, which, this_user(TERMINAL), reason, tell)
        return admin.BulkResult(ended, told)

    return change_jobs(database, Change(admin.CANCEL, "cancelled", "unfinished job"), which, yes, dry_run, act)


@click.command()
@jobs_options(("dead", "cancelled", "pending"))
def retry(yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Run jobs again that are dead or cancelled, with all their tries, or at once what waits for a later try.

    The same job, never a copy. A filter without --status means those that are dead.
    """
    from mayfly import admin
    from mayfly.bootstrap import open_database

    database = open_database(load_settings())
    which = jobs_meant(database, **named)

    def act(tell: admin.OnProgress) -> admin.BulkResult:
        return admin.retry(database, which, this_user(TERMINAL), reason, tell)

    change = Change(admin.RETRY, "due again", "job that could be tried again")
    return change_jobs(database, change, which, yes, dry_run, act)


@click.command()
@jobs_options(("dead",))
def discard(yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Let dead jobs leave the list: they end as cancelled, with who and why."""
    from mayfly import admin
    from mayfly.bootstrap import open_database

    database = open_database(load_settings())
    which = jobs_meant(database, **named)

    def act(tell: admin.OnProgress) -> admin.BulkResult:
        return admin.discard(database, which, this_user(TERMINAL), reason, tell)

    return change_jobs(database, Change(admin.DISCARD, "discarded", "dead job"), which, yes, dry_run, act)


@click.command()
@jobs_options(("pending",))
@click.option("--by", callback=duration, metavar="TIME", help="So long from now: 90s, 5m, 2h, 1d.")
@click.option("--until", metavar="TIME", help="Until then, e.g. 2026-05-04T12:00+02:00.")
def delay(by: int | None, until: str | None, yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Put off jobs that wait. One that is due later anyway stays where it is."""
    from mayfly import admin
    from mayfly.bootstrap import open_database

    if (by is None) == (until is None):
        raise click.UsageError("Say how long by --by, or until when by --until.")
    database = open_database(load_settings())
    now = database.clock.now()
    end = end_of_pause(until, now) if by is None else now + timedelta_of("by", by)
    assert end is not None
    which = jobs_meant(database, **named)

    def act(tell: admin.OnProgress) -> admin.BulkResult:
        return admin.delay(database, which, end, this_user(TERMINAL), reason, tell)

    change = Change(admin.DELAY, "delayed", "job that waits and is due before", end)
    return change_jobs(database, change, which, yes, dry_run, act)


@click.command()
@click.argument("job_id", type=click.IntRange(1, 2**63 - 1), metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(job_id: int, as_json: bool) -> int:
    """Say why the job ID is not running, or what became of it."""
    from mayfly.admin.why import diagnose, explain
    from mayfly.bootstrap import load_registry, open_database

    settings = load_settings()
    database, registry = open_database(settings), load_registry(settings)
    now = database.clock.now()
    known = database.read(lambda connection: diagnose(connection, job_id, settings, registry, now))
    reasons = explain(known)
    if as_json:
        click.echo(json.dumps(explained_facts(known.row, reasons), indent=2))
    else:
        click.echo(explained(known.row, reasons))
    return exits.SUCCESS


COMMANDS = (cancel, retry, discard, delay, why)
