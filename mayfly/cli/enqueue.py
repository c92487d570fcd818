"""`mayfly enqueue`: one job from an argument, or one per line of standard input, with a progress bar."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import click

from mayfly import client
from mayfly.cli.options import Choice, time_with_zone
from mayfly.client import current_app, enqueue_many, validate_job
from mayfly.errors import BadLine, EnqueueError
from mayfly.format import plural

Options = dict[str, Any]  # the arguments of enqueue() besides the payload


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.argument("payload", metavar="[JSON|-]", default="{}")
@click.option("--lane", help="The lane; the handler's own lane by default.")
@click.option("--run-at", metavar="TIME", help="Not before this time, e.g. 2026-05-04T12:00+02:00.")
@click.option("--delay", type=float, metavar="SECONDS", help="Not before this many seconds from now.")
@click.option("--priority", type=click.IntRange(0, 2), help="0 high, 1 normal, 2 low.")
@click.option("--unique-key", help="At most one job holds this key.")
@click.option("--unique", metavar="HOW LONG", help="'until done' (the default), 'while pending', 'for 1h'.")
@click.option("--on-conflict", type=Choice(["keep", "replace", "error"]), help="If the key is held; keep.")
@click.option("--expires-at", metavar="TIME", help="Cancelled if not started by then.")
@click.option("--expires-in", type=float, metavar="SECONDS", help="Cancelled if not started within this time.")
@click.option("--group-key", help="A name for this job and others, to handle them together.")
@click.option("--max-attempts", type=int, help="Attempts before it is dead.")
@click.option("--dry-run", is_flag=True, help="Check everything, enqueue nothing.")
def enqueue(
    type_name: str, payload: str, run_at: str | None, expires_at: str | None, dry_run: bool, **options: Any
) -> None:
    """Enqueue a job with a JSON payload, or one per input line (-).

    Prints the id of the new job, or, for -, how many were enqueued.
    """
    times = {
        "run_at": time_with_zone(run_at, "--run-at"),
        "expires_at": time_with_zone(expires_at, "--expires-at"),
    }
    given = _options(type_name, **times, **options)
    if payload == "-":
        _enqueue_lines(sys.stdin, given, dry_run)
    else:
        _enqueue_one(payload, given, dry_run)


def _options(type_name: str, **options: Any) -> Options:
    """The given ones, after a warning about a type without a handler."""
    registry = current_app().registry
    if registry.get(type_name) is None:
        hint = registry.did_you_mean(type_name)
        click.echo(f"warning: no handler for type {type_name!r} is known here.{hint}", err=True)
    return {"type": type_name, **{name: value for name, value in options.items() if value is not None}}


def _enqueue_one(payload: str, options: Options, dry_run: bool) -> None:
    new = {**options, "payload": _object(payload)}
    if dry_run:
        validate_job(None, **new)
        click.echo("The job is valid; nothing was enqueued.")
    else:
        click.echo(client.enqueue(**new))


def _enqueue_lines(file: TextIO, options: Options, dry_run: bool) -> None:
    """A transaction per thousand: jobs before a bad line stay enqueued, and the error says so."""
    lines = _JobLines(file, options)
    try:
        if dry_run:
            checked = [validate_job(None, **each).type for each in lines]
            click.echo(f"{plural(len(checked), 'job')} valid; nothing was enqueued.")
        else:
            number = enqueue_many(lines)
            click.echo(f"{number} {'job' if number == 1 else 'jobs'} enqueued.")  # without separators, for scripts
    except EnqueueError as error:
        raise BadLine(lines.number, str(error)) from error


class _JobLines:
    """One job per line, with a progress bar; `number` is the current line."""

    def __init__(self, file: TextIO, options: Options) -> None:
        self._file = file
        self._options = options
        self.number = 0

    def __iter__(self) -> Iterator[Options]:
        for line in _with_progress(self._file):
            self.number += 1
            if line.strip():
                yield {**self._options, "payload": _object(line)}


def _with_progress(file: TextIO) -> Iterator[str]:
    """A bar on stderr if that is a terminal: in bytes of a file, or a line count for a pipe."""
    facts = os.fstat(file.fileno())
    hidden = not sys.stderr.isatty()
    if not stat.S_ISREG(facts.st_mode):
        with click.progressbar(
            file, label="Enqueueing", show_pos=True, file=sys.stderr, update_min_steps=500, hidden=hidden
        ) as lines:
            yield from lines
        return
    with click.progressbar(range(facts.st_size), label="Enqueueing", file=sys.stderr, hidden=hidden) as bar:
        for line in file:
            bar.update(len(line.encode()))
            yield line


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise EnqueueError(
            f'{text.strip()[:60]!r} is not JSON: {error}. Write an object such as {{"seconds": 1}}.'
        ) from error
