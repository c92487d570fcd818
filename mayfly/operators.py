"""What commands of operators ask for in the same words: until when, and why."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


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
