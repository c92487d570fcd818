"""Commands about jobs: list and explain them; cancel, retry, discard and delay them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from mayfly.admin.actions import (
    CANCEL,
    DELAY,
    DISCARD,
    MAX_MATCHING_COUNTED,
    RETRY,
    ROWS_PER_SLICE,
    BulkResult,
    OnProgress,
    Verb,
    act,
    count_matching,
    no_progress,
)
from mayfly.admin.audit import TERMINAL, this_user
from mayfly.admin.job import diagnose, read_job
from mayfly.admin.jobs import list_dead, list_jobs
from mayfly.admin.why import explain
from mayfly.bootstrap import load_registry
from mayfly.cli.options import (
    JOB_ID,
    Choice,
    ask,
    duration,
    filter_options,
    future_time,
    job_filter,
    jobs_options,
    json_option,
    limit_option,
    open_installation,
    print_json,
)
from mayfly.cli.text import counted_jobs, dead_text, explained_facts, explained_text, job_text, jobs_text
from mayfly.db.database import Database
from mayfly.format import has_colour, plural
from mayfly.queue.options import timedelta_of
from mayfly.schema.tables import STATUSES

# --- see ----------------------------------------------------------------------------------------------------


@click.command()
@filter_options
@click.option("--status", type=Choice(STATUSES), help="Jobs with this status.")
@click.option("--younger-than", callback=duration, metavar="TIME", help="Enqueued since: 90s, 5m, 2h, 1d ago.")
@click.option("--text", help="Jobs with this text in payload, error or keys; searches the newest 10,000.")
@click.option("--after", metavar="NEXT", help="Continue where the previous page ended.")
@limit_option(50)
@json_option
def jobs(text: str | None, after: str | None, limit: int, as_json: bool, **fields: Any) -> None:
    """List jobs matching all given filters, the newest first."""
    _settings, database = open_installation()
    wanted = job_filter(database, **fields)
    page = database.read(lambda connection: list_jobs(connection, wanted, text, limit, after))
    if as_json:
        return print_json(page.facts())
    click.echo(jobs_text(page.jobs, database.clock.now()) if page.jobs else "No job was found.")
    if page.next is not None:
        more = "The search stopped after 10,000 rows; there may be more" if page.is_cut else "There are more"
        click.echo(f"{more}: --after {page.next}", err=True)
    return None


@click.command()
@click.argument("job_id", type=JOB_ID, metavar="ID")
@json_option
def show(job_id: int, as_json: bool) -> None:
    """Show a job: its row, why it is so, its timeline and attempts."""
    settings, database = open_installation()
    registry, now = load_registry(settings), database.clock.now()
    view = database.read(lambda connection: read_job(connection, job_id, settings, registry, now))
    if as_json:
        print_json(view.facts())
    else:
        click.echo(job_text(view, has_colour(sys.stdout)))


@click.command()
@click.argument("job_id", type=JOB_ID, metavar="ID")
@json_option
def why(job_id: int, as_json: bool) -> None:
    """Explain why a job is not running, or how it ended."""
    settings, database = open_installation()
    registry, now = load_registry(settings), database.clock.now()
    diagnosis = database.read(lambda connection: diagnose(connection, job_id, settings, registry, now))
    reasons = explain(diagnosis)
    if as_json:
        print_json(explained_facts(diagnosis.row, reasons))
    else:
        click.echo(explained_text(diagnosis.row, reasons))


@click.command()
@click.option("--lane", metavar="NAME", help="Jobs of this lane.")
@json_option
def dead(lane: str | None, as_json: bool) -> None:
    """Group the newest 5,000 dead jobs by type and error."""
    _settings, database = open_installation()
    now = database.clock.now()
    found = database.read(lambda connection: list_dead(connection, lane, now))
    if as_json:
        return print_json(found.facts())
    click.echo(dead_text(found, now))
    if found.is_cut:
        click.echo(f"There are more: these are the newest {found.looked_at:,}.", err=True)
    return None


# --- act ----------------------------------------------------------------------------------------------------


@click.command()
@jobs_options(("pending", "processing"))
def cancel(**options: Any) -> None:
    """Cancel unfinished jobs matching all given filters.

    Pending jobs end at once. Running jobs are asked to stop, and end when their handlers check.
    """
    _settings, database = open_installation()
    _change_jobs(database, CANCEL, "unfinished job", **options)


@click.command()
@jobs_options(("dead", "cancelled", "pending"))
def retry(**options: Any) -> None:
    """Run dead or cancelled jobs again, or waiting ones at once.

    The same job, never a copy, with all its attempts. A filter without --status means dead jobs.
    """
    _settings, database = open_installation()
    _change_jobs(database, RETRY, "job to retry", **options)


@click.command()
@jobs_options(("dead",))
def discard(**options: Any) -> None:
    """Discard dead jobs: mark them cancelled, with user and reason."""
    _settings, database = open_installation()
    _change_jobs(database, DISCARD, "dead job", **options)


@click.command()
@jobs_options(("pending",))
@click.option("--by", callback=duration, metavar="TIME", help="From now: 90s, 5m, 2h, 1d.")
@click.option("--until", metavar="TIME", help="Until this time, e.g. 2026-05-04T12:00+02:00.")
def delay(by: float | None, until: str | None, **options: Any) -> None:
    """Delay pending jobs; one that is due later does not change."""
    if (by is None) == (until is None):
        raise click.UsageError("Give either --by or --until.")
    _settings, database = open_installation()
    now = database.clock.now()
    end = future_time(until, now) if by is None else now + timedelta_of("by", by)
    assert end is not None
    _change_jobs(database, DELAY, "pending job that is due before", until=end, **options)


def _change_jobs(
    database: Database,
    verb: Verb,
    noun: str,  # for "No unfinished job was found"
    *,
    yes: bool,
    dry_run: bool,
    reason: str | None,
    until: datetime | None = None,
    **fields: Any,
) -> None:
    """Count, ask if there are several, act, and print the result."""
    wanted = job_filter(database, **fields)
    number = count_matching(database, verb, wanted, until)
    if dry_run:
        return click.echo(f"{counted_jobs(number)} would be {verb.past_tense}; nothing was changed.")
    if number > 1 and not yes:
        ask(f"{verb.name.capitalize()} {counted_jobs(number)}?")
    with _progress(verb.past_tense, number) as on_progress:
        done = act(database, verb, wanted, this_user(TERMINAL), reason, until, on_progress)
    return click.echo(_result_text(verb, noun, done))


def _result_text(verb: Verb, noun: str, done: BulkResult) -> str:
    if done == BulkResult():
        return f"No {noun} was found; nothing was changed."
    running = f" {plural(done.requested, 'running job')} asked to stop." if done.requested else ""
    held = f" {plural(done.held, 'job')} unchanged: another job holds the unique key." if done.held else ""
    return f"{plural(done.changed, 'job')} {verb.past_tense}.{running}{held}"


@contextmanager
def _progress(past: str, number: int) -> Iterator[OnProgress]:
    """A progress bar on a terminal, for more than one slice."""
    if number <= ROWS_PER_SLICE or not sys.stderr.isatty():
        yield no_progress
        return
    # rich takes as long to import as all the rest of a command.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    total = number if number <= MAX_MATCHING_COUNTED else None  # beyond it the total is unknown
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"Jobs {past}", total=total)
        yield lambda jobs: bar.advance(task, jobs)
