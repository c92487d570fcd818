"""Options and arguments that several commands share, JSON output, and the question before a bulk action."""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

from mayfly.admin.filters import JobFilter
from mayfly.bootstrap import open_database
from mayfly.client import created_before
from mayfly.db.database import Database
from mayfly.format import did_you_mean, parse_duration
from mayfly.queue.failure import storable
from mayfly.schema.tables import NAME_LENGTH
from mayfly.settings import Settings, load_settings

Command = TypeVar("Command", bound=Callable[..., Any])
JOB_ID = click.IntRange(1, 2**63 - 1)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Choice(click.Choice[str]):
    """With a hint after a misspelled word."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return super().get_invalid_choice_message(value, ctx) + did_you_mean(str(value), self.choices)


def limit_option(default: int) -> Callable[[Command], Command]:
    limit = click.IntRange(1, 1000)
    return click.option("--limit", type=limit, default=default, show_default=True, help="Maximum number of rows.")


def open_installation() -> tuple[Settings, Database]:
    settings = load_settings()
    return settings, open_database(settings)


def print_json(facts: object) -> None:
    click.echo(json.dumps(facts, indent=2))


def print_list(found: Sequence[Any], as_json: bool, text: Callable[[Sequence[Any]], str]) -> None:
    """Views of the admin package, as a JSON list or as a table."""
    if as_json:
        print_json([each.facts() for each in found])
    else:
        click.echo(text(found))


def name_given(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    if not 1 <= len(given) <= NAME_LENGTH:
        raise click.BadParameter(f"must have 1 to {NAME_LENGTH} characters")
    return storable(given)


def duration(_context: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    """Seconds."""
    if given is None:
        return None
    try:
        return parse_duration(given).total_seconds()
    except ValueError:
        raise click.BadParameter(f"{given!r} is not a duration; write 90s, 5m, 2h or 1d") from None


def ask(question: str) -> None:
    """Returns only if the answer is yes."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} No terminal to ask on; use --yes.")
    click.confirm(question, abort=True)


def filter_options(command: Command) -> Command:
    """The filter of every command that lists or changes jobs."""
    options = (
        click.option("--lane", metavar="NAME", help="Jobs of this lane."),
        click.option("--type", "type_name", metavar="NAME", help="Jobs of this type."),
        click.option("--group", "group_key", metavar="KEY", help="Jobs with this group_key."),
        click.option(
            "--error", metavar="FINGERPRINT", help="Jobs whose last error has this fingerprint; see `mayfly dead`."
        ),
        click.option("--older-than", callback=duration, metavar="TIME", help="Enqueued before: 90s, 5m, 2h, 1d ago."),
    )
    return with_options(command, options)


def jobs_options(statuses: Sequence[str]) -> Callable[[Command], Command]:
    """Which jobs, and whether to ask: for every command that changes jobs."""
    options = (
        click.argument("ids", nargs=-1, type=int, metavar="[ID]..."),
        filter_options,
        click.option("--status", type=Choice(statuses), help="Jobs with this status."),
        click.option("--reason", help="Why; kept with the jobs or in the audit."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Count them, change nothing."),
    )
    return lambda command: with_options(command, options)


def with_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def job_filter(
    database: Database,
    type_name: str | None,
    older_than: int | None,
    younger_than: int | None = None,
    ids: tuple[int, ...] = (),
    **fields: Any,
) -> JobFilter:
    return JobFilter(
        ids=ids or None,
        type=type_name,
        created_before=None if older_than is None else created_before(database, older_than),
        created_after=None if younger_than is None else created_before(database, younger_than),
        **fields,
    )


def pause_options(command: Command) -> Command:
    reason = click.option("--reason", help="Why; shown wherever the pause is.")
    until = click.option("--until", metavar="TIME", help="End of the pause, e.g. 2026-05-04T12:00+02:00.")
    return with_options(command, (reason, until))


def future_time(given: str | None, now: datetime) -> datetime | None:
    """The value of --until."""
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
        at = datetime.min  # noqa: DTZ901 - without a zone it is refused below
    if at.tzinfo is None:
        raise click.BadParameter(
            f"{given!r} is not a time with a zone; write 2026-05-04T12:00+02:00", param_hint=option
        )
    return at
