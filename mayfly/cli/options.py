"""Options and arguments shared by several commands, JSON output, and confirmation of bulk actions."""

import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

from mayfly.admin.filters import MAX_ID, JobFilter, parse_field
from mayfly.admin.jobs import facts_of
from mayfly.client import created_before
from mayfly.db.database import Database
from mayfly.format import did_you_mean, parse_duration, parse_time
from mayfly.schema import open_database
from mayfly.settings import Settings, load_settings

Command = TypeVar("Command", bound=Callable[..., Any])
JOB_ID = click.IntRange(1, MAX_ID)
SECONDS = click.FloatRange(0.2, 3600)  # between two updates of a screen

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def duration(given: str) -> float:
    """A click type: seconds."""
    try:
        return parse_duration(given).total_seconds()
    except ValueError:
        raise click.BadParameter(f"{given!r} is not a duration; write 90s, 5m, 2h or 1d") from None


def time(given: str) -> datetime:
    """A click type: with its zone."""
    try:
        return parse_time(given)
    except ValueError as error:
        raise click.BadParameter(f"{given!r} {error}") from None


class Choice(click.Choice[str]):
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
    """Print views of the admin package as a JSON list or as a table."""
    if as_json:
        print_json([facts_of(each) for each in found])
    else:
        click.echo(text(found))


def ask(question: str) -> None:
    """Aborts the command unless the answer is yes."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} No terminal to ask on; use --yes.")
    click.confirm(question, abort=True)


def filter_options(command: Command) -> Command:
    """Filters of all commands that list or change jobs."""
    options = (
        click.option("--lane", metavar="NAME", help="Jobs of this lane."),
        click.option("--type", "type_name", metavar="NAME", help="Jobs of this type."),
        click.option("--group", "group_key", metavar="KEY", help="Jobs with this group_key."),
        click.option(
            "--error", metavar="FINGERPRINT", help="Jobs whose last error has this fingerprint; see `mayfly dead`."
        ),
        click.option("--older-than", type=duration, help="Enqueued more than this long ago: 90s, 5m, 2h, 1d."),
        click.option("--text", help="Text in payload, error or keys."),
        click.option("--payload", multiple=True, metavar="FIELD=VALUE", help="Payload field, e.g. order.id=7."),
        click.option("--source", metavar="NAME", help="Jobs of rows of this source."),
        click.option("--row", metavar="KEY", help="Job of the row with this primary key; needs --source."),
    )
    return with_options(command, options)


def jobs_options(statuses: Sequence[str]) -> Callable[[Command], Command]:
    options = (
        click.argument("ids", nargs=-1, type=int, metavar="[ID]..."),
        filter_options,
        click.option("--status", type=Choice(statuses), help="Jobs with this status."),
        click.option("--reason", help="Reason, kept with the jobs or in the audit."),
        click.option("--yes", is_flag=True, help="Skip the confirmation."),
        click.option("--dry-run", is_flag=True, help="Count the jobs; change nothing."),
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
    payload: tuple[str, ...] = (),
    **fields: Any,
) -> JobFilter:
    if fields.get("row") is not None and fields.get("source") is None:
        raise click.UsageError("--row needs --source: tables have equal keys.")
    return JobFilter(
        ids=ids or None,
        payload=tuple(map(parse_field, payload)) or None,
        type=type_name,
        created_before=None if older_than is None else created_before(database, older_than),
        created_after=None if younger_than is None else created_before(database, younger_than),
        **fields,
    )


def pause_options(command: Command) -> Command:
    reason = click.option("--reason", help="Reason, shown with the pause.")
    until = click.option("--until", type=time, help="End of the pause, e.g. 2026-05-04T12:00+02:00.")
    return with_options(command, (reason, until))
