"""What is read from the command line, or asked of whoever sits there."""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mayfly.format import parse_duration
from mayfly.queue.failure import storable
from mayfly.schema.tables import NAME_LENGTH

if TYPE_CHECKING:
    from mayfly.admin.filters import JobFilter
    from mayfly.db.database import Database


Command = TypeVar("Command", bound=Callable[..., Any])


def name_given(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    if not 1 <= len(given) <= NAME_LENGTH:
        raise click.BadParameter(f"must have 1 to {NAME_LENGTH} characters")
    return storable(given)


def duration(_context: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    try:
        return parse_duration(given).total_seconds()
    except ValueError:
        raise click.BadParameter(f"{given!r} is no time; write 90s, 5m, 2h or 1d") from None


def ask(question: str) -> None:
    """Go on only if somebody says yes."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody is here to answer: say so with --yes.")
    click.confirm(question, abort=True)


def jobs_options(statuses: Sequence[str]) -> Callable[[Command], Command]:
    """Which jobs are meant, and how sure one is: what every command that changes jobs has."""
    options = (
        click.argument("ids", nargs=-1, type=int, metavar="[ID]..."),
        click.option("--group", "group_key", metavar="KEY", help="Those with this group_key."),
        click.option("--lane", metavar="NAME", help="Those of this lane."),
        click.option("--type", "type_name", metavar="NAME", help="Those of this type."),
        click.option("--status", type=click.Choice(tuple(statuses)), help="Only those that are so."),
        click.option("--error", metavar="FINGERPRINT", help="Those whose last error has it; see `mayfly dead`."),
        click.option(
            "--older-than", callback=duration, metavar="TIME", help="Enqueued so long ago: 90s, 5m, 2h, 1d."
        ),
        click.option("--reason", help="Why; kept with the jobs or in the audit."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Count them, change nothing."),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def jobs_meant(
    database: "Database",
    ids: tuple[int, ...],
    group_key: str | None,
    lane: str | None,
    type_name: str | None,
    status: str | None,
    error: str | None,
    older_than: int | None,
) -> "JobFilter":
    from mayfly.admin.filters import JobFilter
    from mayfly.client import created_before

    before = None if older_than is None else created_before(database, older_than)
    return JobFilter(ids or None, group_key, lane, type_name, status, before, error=error)


def pause_options(command: Command) -> Command:
    """--reason and --until, as whatever can be paused has them."""
    reason = click.option("--reason", help="Why; shown wherever the pause is.")
    until = click.option("--until", metavar="TIME", help="When it ends by itself, e.g. 2026-05-04T12:00+02:00.")
    return reason(until(command))


def end_of_pause(given: str | None, now: datetime) -> datetime | None:
    at = time_with_zone(given, "--until")
    if at is not None and at <= now:
        raise click.BadParameter(f"{given} is in the past", param_hint="--until")
    return at


def time_with_zone(given: str | None, option: str) -> datetime | None:
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        at = datetime.min  # noqa: DTZ901 - has no zone either
    if at.tzinfo is None:
        raise click.BadParameter(f"{given!r} is no time with a zone; write 2026-05-04T12:00+02:00", param_hint=option)
    return at
