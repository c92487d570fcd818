"""`mayfly enqueue`: one job from an argument, or one per line of standard input, with a progress bar."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import click

from mayfly import client
from mayfly.cli.options import Choice, time
from mayfly.client import enqueue_many, validate_job
from mayfly.errors import EnqueueError

Options = dict[str, Any]  # the arguments of enqueue() besides the payload


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.argument("payload", metavar="[JSON|-]", default="{}")
@click.option("--lane", help="Lane of the job (default: the handler's lane).")
@click.option("--run-at", type=time, help="Not before this time, e.g. 2026-05-04T12:00+02:00.")
@click.option("--delay", type=float, metavar="SECONDS", help="Not before this many seconds from now.")
@click.option("--priority", type=click.IntRange(0, 2), help="0 high, 1 normal, 2 low.")
@click.option("--unique-key", help="At most one job holds this key.")
@click.option("--unique", metavar="SCOPE", help="Hold the key 'until done' (default), 'while pending', 'for 1h'.")
@click.option("--on-conflict", type=Choice(["keep", "replace", "error"]), help="If the key is held (default: keep).")
@click.option("--expires-at", type=time, help="Cancel the job if it has not started by then.")
@click.option("--expires-in", type=float, metavar="SECONDS", help="Cancel the job if it has not started by then.")
@click.option("--group-key", help="Key of a group of jobs, e.g. to cancel them together.")
@click.option("--max-attempts", type=int, help="Maximum number of attempts.")
@click.option("--dry-run", is_flag=True, help="Validate; enqueue nothing.")
def enqueue(type_name: str, payload: str, dry_run: bool, **options: Any) -> None:
    """Enqueue a job with a JSON payload, or one per input line (-).

    Prints the id of the job; with -, the number of jobs.
    """
    given = {"type": type_name, **{name: value for name, value in options.items() if value is not None}}
    if payload == "-":
        _enqueue_lines(sys.stdin, given, dry_run)
    elif dry_run:
        validate_job(None, payload=_object(payload), **given)
        click.echo("The job is valid; nothing was enqueued.")
    else:
        click.echo(client.enqueue(payload=_object(payload), **given))


def _enqueue_lines(file: TextIO, options: Options, dry_run: bool) -> None:
    """One transaction per thousand jobs: those before an invalid line stay enqueued."""
    is_hidden = not sys.stderr.isatty()
    with click.progressbar(
        file, label="Enqueueing", show_pos=True, file=sys.stderr, update_min_steps=500, hidden=is_hidden
    ) as bar:
        lines = _JobLines(bar, options)
        try:
            if dry_run:
                number, done = sum(1 for each in lines if validate_job(None, **each)), "valid; nothing was enqueued"
            else:
                number, done = enqueue_many(lines), "enqueued"
        except EnqueueError as error:
            enqueued = "All full thousands of jobs before this line were enqueued."
            raise EnqueueError(f"Line {lines.number}: {error} {enqueued}") from error
    click.echo(f"{number} {'job' if number == 1 else 'jobs'} {done}.")  # without separators, for scripts


class _JobLines:
    """One job per line; `number` is the current line."""

    def __init__(self, lines: Iterable[str], options: Options) -> None:
        self._lines = lines
        self._options = options
        self.number = 0

    def __iter__(self) -> Iterator[Options]:
        for line in self._lines:
            self.number += 1
            if line.strip():
                yield {**self._options, "payload": _object(line)}


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise EnqueueError(
            f'{text.strip()[:60]!r} is not valid JSON: {error}. Write an object such as {{"seconds": 1}}.'
        ) from error
