"""The commands of those who end jobs, run them again or later, and ask why one does not go on."""

import json
from typing import Any

import click

from mayfly import exits
from mayfly.actor import TERMINAL, this_user
from mayfly.control.parameters import duration, jobs_meant, jobs_options
from mayfly.jobs.terms import span_of
from mayfly.operators import end_of_pause
from mayfly.settings import load_settings


@click.command()
@jobs_options(("pending", "processing"))
def cancel(yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Cancel the unfinished jobs that have all of what is named.

    Those that wait end at once. Those that run are told, and end when their handlers look.
    """
    from mayfly.control.changing import Change, change_jobs
    from mayfly.jobs import operate
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    database = open_database(load_settings())
    which = jobs_meant(database, **named)

    def act(tell: operate.Tell) -> operate.Done:
        ended, told = operate.cancel(database, JOBS, which, this_user(TERMINAL), reason, tell)
        return operate.Done(ended, told)

    return change_jobs(database, Change(operate.CANCEL, "cancelled", "unfinished job"), which, yes, dry_run, act)


@click.command()
@jobs_options(("dead", "cancelled", "pending"))
def retry(yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Run jobs again that are dead or cancelled, with all their tries, or at once what waits for a later try.

    The same job, never a copy. A filter without --status means those that are dead.
    """
    from mayfly.control.changing import Change, change_jobs
    from mayfly.jobs import operate
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    database = open_database(load_settings())
    which = jobs_meant(database, **named)

    def act(tell: operate.Tell) -> operate.Done:
        return operate.retry(database, JOBS, which, this_user(TERMINAL), reason, tell)

    change = Change(operate.RETRY, "due again", "job that could be tried again")
    return change_jobs(database, change, which, yes, dry_run, act)


@click.command()
@jobs_options(("dead",))
def discard(yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Let dead jobs leave the list: they end as cancelled, with who and why."""
    from mayfly.control.changing import Change, change_jobs
    from mayfly.jobs import operate
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    database = open_database(load_settings())
    which = jobs_meant(database, **named)

    def act(tell: operate.Tell) -> operate.Done:
        return operate.discard(database, JOBS, which, this_user(TERMINAL), reason, tell)

    return change_jobs(database, Change(operate.DISCARD, "discarded", "dead job"), which, yes, dry_run, act)


@click.command()
@jobs_options(("pending",))
@click.option("--by", callback=duration, metavar="TIME", help="So long from now: 90s, 5m, 2h, 1d.")
@click.option("--until", metavar="TIME", help="Until then, e.g. 2026-05-04T12:00+02:00.")
def delay(by: int | None, until: str | None, yes: bool, dry_run: bool, reason: str | None, **named: Any) -> int:
    """Put off jobs that wait. One that is due later anyway stays where it is."""
    from mayfly.control.changing import Change, change_jobs
    from mayfly.jobs import operate
    from mayfly.opening import open_database
    from mayfly.schema import JOBS

    if (by is None) == (until is None):
        raise click.UsageError("Say how long by --by, or until when by --until.")
    database = open_database(load_settings())
    now = database.clock.now()
    end = end_of_pause(until, now) if by is None else now + span_of("by", by)
    assert end is not None
    which = jobs_meant(database, **named)

    def act(tell: operate.Tell) -> operate.Done:
        return operate.delay(database, JOBS, which, end, this_user(TERMINAL), reason, tell)

    change = Change(operate.DELAY, "delayed", "job that waits and is due before", end)
    return change_jobs(database, change, which, yes, dry_run, act)


@click.command()
@click.argument("job_id", type=click.IntRange(1, 2**63 - 1), metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(job_id: int, as_json: bool) -> int:
    """Say why the job ID is not running, or what became of it."""
    from mayfly.control import listing
    from mayfly.jobs.circumstances import look_into
    from mayfly.jobs.why import explain
    from mayfly.opening import load_registry, open_database
    from mayfly.schema import JOBS

    settings = load_settings()
    database, registry = open_database(settings), load_registry(settings)
    now = database.clock.now()
    known = database.read(lambda connection: look_into(connection, JOBS, job_id, settings, registry, now))
    reasons = explain(known)
    if as_json:
        click.echo(json.dumps(listing.explained_facts(known.row, reasons), indent=2))
    else:
        click.echo(listing.explained(known.row, reasons))
    return exits.SUCCESS


COMMANDS = (cancel, retry, discard, delay, why)
