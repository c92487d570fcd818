"""What is read from the command line, or asked of whoever sits there."""

import sys

import click

from mayfly.schema import NAME_LENGTH
from mayfly.wording import storable


def name_given(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    if not 1 <= len(given) <= NAME_LENGTH:
        raise click.BadParameter(f"must have 1 to {NAME_LENGTH} characters")
    return storable(given)


def duration(_context: click.Context, _parameter: click.Parameter, given: str | None) -> int | None:
    from mayfly.schedules.entry import read_duration  # few commands have one

    if given is None:
        return None
    try:
        return read_duration(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no time; write 90s, 5m, 2h or 1d") from None


def ask(question: str) -> None:
    """Go on only if somebody says yes."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody is here to answer: say so with --yes.")
    click.confirm(question, abort=True)
