"""Commands for jobs and batches: list, explain; cancel, retry, discard, delay; seal, abandon."""

import sys
from datetime import datetime
from itertools import repeat
from typing import Any

import click

from mayfly.admin import actions
from mayfly.admin.auth import TERMINAL, this_user
from mayfly.admin.filters import JobFilter
from mayfly.admin.job import JobView, list_batches, read_job
from mayfly.admin.jobs import facts_of, list_dead, list_jobs
from mayfly.cli.options import (
    JOB_ID,
    Choice,
    ask,
    duration,
    filter_options,
    job_filter,
    jobs_options,
    json_option,
    limit_option,
    open_installation,
    print_json,
    print_list,
    time,
)
from mayfly.cli.text import batches_text, dead_text, explained_text, job_text, jobs_text
from mayfly.client import load_registry
from mayfly.errors import UnknownName
from mayfly.format import has_colour, plural
from mayfly.queue.batches import is_being_filled, is_open
from mayfly.queue.options import timedelta_of
from mayfly.schema.tables import PENDING, STATUSES

# --- queries ------------------------------------------------------------------------------------------------


@click.command()
@filter_options
@click.option("--status", type=Choice(STATUSES), help="Jobs with this status.")
@click.option("--younger-than", type=duration, help="Enqueued less than this long ago: 90s, 5m, 2h, 1d.")
@click.option("--after", metavar="NEXT", help="Continue where the previous page ended.")
@limit_option(50)
@json_option
def jobs(after: str | None, limit: int, as_json: bool, **fields: Any) -> None:
    """List jobs matching all given filters, newest first.

    Text and payload fields are searched in 10,000 rows per page.
    """
    _settings, database = open_installation()
    wanted = job_filter(database, **fields)
    page = database.read(lambda connection: list_jobs(connection, wanted, limit, after))
    if as_json:
        return print_json(facts_of(page))
    click.echo(jobs_text(page.jobs, database.clock.now()) if page.jobs else "No matching jobs.")
    if page.next is not None:
        more = "The search stopped after 10,000 rows; continue with" if page.is_cut else "More jobs"
        click.echo(f"{more}: --after {page.next}", err=True)
    return None


@click.command()
@click.argument("job_id", type=JOB_ID, metavar="ID")
@json_option
def show(job_id: int, as_json: bool) -> None:
    """Show a job: columns, timeline, attempts, and why it waits."""
    view = _read_job(job_id)
    if as_json:
        print_json(view.facts())
    else:
        click.echo(job_text(view, has_colour(sys.stdout)))


@click.command()
@click.argument("job_id", type=JOB_ID, metavar="ID")
@json_option
def why(job_id: int, as_json: bool) -> None:
    """Explain why a job is not running, or how it ended."""
    view = _read_job(job_id)
    if as_json:
        facts = view.facts()
        print_json({name: facts[name] for name in ("id", "type", "lane", "status", "state", "reasons")})
    else:
        click.echo(explained_text(view))


def _read_job(job_id: int) -> JobView:
    settings, database = open_installation()
    registry, now = load_registry(settings), database.clock.now()
    return database.read(lambda connection: read_job(connection, job_id, settings, registry, now))


@click.command()
@click.option("--lane", metavar="NAME", help="Jobs of this lane.")
@json_option
def dead(lane: str | None, as_json: bool) -> None:
    """Group the newest 5,000 dead jobs by type and error."""
    _settings, database = open_installation()
    now = database.clock.now()
    found = database.read(lambda connection: list_dead(connection, lane, now))
    if as_json:
        return print_json(facts_of(found))
    click.echo(dead_text(found, now))
    if found.is_cut:
        click.echo(f"Only the newest {found.looked_at:,} dead jobs are grouped; there are more.", err=True)
    return None


# --- actions ------------------------------------------------------------------------------------------------

EFFECTS = {"cancel": "; running jobs are asked to stop", "discard": " (status cancelled)"}  # added to the question


@click.command()
@jobs_options(("pending", "processing"))
def cancel(**options: Any) -> None:
    """Cancel unfinished jobs matching all given filters.

    Pending jobs end at once. Running jobs are asked to stop: they end when their handlers check.
    """
    _change_jobs(actions.CANCEL, **options)


@click.command()
@jobs_options(("dead", "cancelled", "pending"))
def retry(**options: Any) -> None:
    """Retry dead or cancelled jobs; run waiting jobs now.

    The same row runs again, not a copy, with all its attempts. Filters without --status select dead jobs.
    """
    _change_jobs(actions.RETRY, **options)


@click.command()
@jobs_options(("dead",))
def discard(**options: Any) -> None:
    """Discard dead jobs: mark them cancelled, with user and reason."""
    _change_jobs(actions.DISCARD, **options)


@click.command()
@jobs_options(("pending",))
@click.option("--by", type=duration, help="How long from now: 90s, 5m, 2h, 1d.")
@click.option("--until", type=time, help="Until this time, e.g. 2026-05-04T12:00+02:00.")
def delay(by: float | None, until: datetime | None, **options: Any) -> None:
    """Delay pending jobs; jobs that are due later do not change."""
    if (by is None) == (until is None):
        raise click.UsageError("Give either --by or --until.")
    _change_jobs(actions.DELAY, by=by, until=until, **options)


def _change_jobs(
    verb: actions.Verb,
    *,
    yes: bool,
    dry_run: bool,
    reason: str | None,
    by: float | None = None,
    until: datetime | None = None,
    **fields: Any,
) -> None:
    """Count, ask for confirmation if there are several, act, and print the result."""
    settings, database = open_installation()
    end = until if by is None else database.clock.now() + timedelta_of("by", by)
    wanted = job_filter(database, **fields).without(settings.redact)  # the audit shows the filter
    found = actions.count_matching(database, verb, wanted, end)
    if dry_run:
        skipped = actions.skipped_text(actions.count_skipped(database, verb, wanted))
        return click.echo(f"{found.plural('job')} would be {verb.past_tense}; nothing was changed.{skipped}")
    if found.number > 1 and not yes:
        effect = f" until {end.isoformat(timespec='minutes')}" if end else EFFECTS.get(verb.name, "")
        ask(f"{found.plural('job')} will be {verb.past_tense}{effect}. Continue?")
    is_hidden = found.number <= actions.ROWS_PER_SLICE or not sys.stderr.isatty()
    total = None if found.is_more else found.number
    with click.progressbar(
        repeat(0), total, f"Jobs {verb.past_tense}", show_pos=True, file=sys.stderr, hidden=is_hidden
    ) as bar:
        sources = actions.open_sources(settings, database)
        done = actions.act(database, verb, wanted, this_user(TERMINAL), reason, end, bar.update, sources=sources)
    return click.echo(done.text(verb.past_tense))


# --- batches ------------------------------------------------------------------------------------------------


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def batches(context: click.Context, as_json: bool) -> None:
    """List open and recent batches with their jobs per status."""
    if context.invoked_subcommand:
        return
    _settings, database = open_installation()
    now = database.clock.now()
    print_list(database.read(lambda connection: list_batches(connection, now)), as_json, batches_text)


@batches.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Check whether it can be sealed; change nothing.")
def seal(name: str, dry_run: bool) -> None:
    """Seal the batch: no more jobs will be added.

    For a batch whose producer crashed before the end of its `with` block.
    """
    _settings, database = open_installation()
    if dry_run and database.read(lambda connection: is_being_filled(connection, name)):
        click.echo(f"The batch {name} would be sealed; nothing was changed.")
    elif not dry_run and actions.seal_batch(database, name, this_user(TERMINAL)):
        click.echo(f"Sealed the batch {name}.")
    else:
        raise UnknownName("batch", name, "to seal; `mayfly batches` lists all")


@batches.command()
@click.argument("name")
@click.option("--reason", help="Reason, kept with each job.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option("--dry-run", is_flag=True, help="Count its pending jobs; change nothing.")
def abandon(name: str, reason: str | None, yes: bool, dry_run: bool) -> None:
    """Abandon the batch: cancel its pending jobs, skip its callback.

    Running jobs finish.
    """
    settings, database = open_installation()
    if not database.read(lambda connection: is_open(connection, name)):
        raise UnknownName("batch", name, "to abandon; `mayfly batches` lists all")
    jobs = actions.count_matching(database, actions.CANCEL, JobFilter(group_key=name, status=PENDING)).plural("job")
    if dry_run:
        return click.echo(f"{jobs} would be cancelled; nothing was changed.")
    if not yes:
        ask(f"Batch {name} will be abandoned: {jobs} will be cancelled, its callback never runs. Continue?")
    because, sources = reason or "its producer is gone", actions.open_sources(settings, database)
    cancelled = actions.abandon_batch(database, name, because, this_user(TERMINAL), sources=sources)
    return click.echo(f"Abandoned the batch {name}. {plural(cancelled.changed, 'job')} cancelled.")
