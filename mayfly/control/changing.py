"""How a command changes jobs: count them, ask before more than one, do it in slices, and show how far it is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

import click

from mayfly import exits
from mayfly.control.listing import counted
from mayfly.control.parameters import ask
from mayfly.engine import Database
from mayfly.jobs import operate
from mayfly.jobs.operate.slices import ROWS_PER_SLICE, nobody
from mayfly.jobs.which import Which
from mayfly.schema import JOBS


class Change(NamedTuple):
    """A verb in the words of a command."""

    verb: operate.Verb
    done: str  # "cancelled"
    none: str  # what it is said of when there was none: "unfinished job"
    until: datetime | None = None


def change_jobs(
    database: Database,
    change: Change,
    which: Which,
    yes: bool,
    dry_run: bool,
    act: Callable[[operate.Tell], operate.Done],
) -> int:
    number = operate.count_found(database, JOBS, change.verb, which, change.until)
    if dry_run:
        click.echo(f"{counted(number)} would be {change.done}; nothing was changed.")
        return exits.SUCCESS
    if number > 1 and not yes:
        ask(f"{change.verb.name.capitalize()} {counted(number)}?")
    with _progress(change.done, number) as tell:
        done = act(tell)
    click.echo(_told(change, done))
    return exits.SUCCESS


def _told(change: Change, done: operate.Done) -> str:
    if done == operate.Done():
        return f"No {change.none} was found; nothing was changed."
    running = f" {done.told} run and were told to end." if done.told else ""
    held = f" {done.held} stay as they are: another job holds their unique key by now." if done.held else ""
    return f"{done.changed} jobs {change.done}.{running}{held}"


@contextmanager
def _progress(done: str, number: int) -> Iterator[operate.Tell]:
    """A bar where somebody watches, and where it takes more than a moment."""
    if number <= ROWS_PER_SLICE or not sys.stderr.isatty():
        yield nobody
        return
    from rich.console import Console  # only here: nothing else of this command draws
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        # Beyond what was counted nobody knows how many there are.
        task = bar.add_task(f"Jobs {done}", total=number if number <= operate.MOST_COUNTED else None)
        yield lambda jobs: bar.advance(task, jobs)
