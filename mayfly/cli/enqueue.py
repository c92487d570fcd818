"""`mayfly enqueue`: one job from an argument, or many from the lines of a file, with a progress bar."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import click

from mayfly.client import current_app, enqueue, enqueue_many, validate_job
from mayfly.errors import BadLine, EnqueueError
from mayfly.process import exits

Options = dict[str, Any]  # the arguments of enqueue() besides the payload


def known_options(type_name: str, **options: Any) -> Options:
    """What was given, and a word of warning about a type that nobody here handles."""
    registry = current_app().registry
    if registry.get(type_name) is None:
        hint = registry.did_you_mean(type_name)
        click.echo(f"warning: no handler for type {type_name!r} is known here.{hint}", err=True)
    return {"type": type_name, **{name: value for name, value in options.items() if value is not None}}


def enqueue_line(payload: str, options: Options, dry_run: bool) -> int:
    new = {**options, "payload": _object(payload)}
    if dry_run:
        validate_job(None, **new)
        click.echo("The job is fine; nothing was enqueued.")
    else:
        click.echo(enqueue(**new))
    return exits.SUCCESS


def enqueue_lines(file: TextIO, options: Options, dry_run: bool) -> int:
    """Each thousand is committed by itself: what came before a bad line stays enqueued, and the sentence says so."""
    lines = _JobLines(file, options)
    try:
        if dry_run:
            checked = [validate_job(None, **each).type for each in lines]
            click.echo(f"{len(checked)} jobs are fine; nothing was enqueued.")
        else:
            click.echo(f"{enqueue_many(lines)} jobs enqueued.")
    except EnqueueError as error:
        raise BadLine(lines.number, str(error)) from error
    return exits.SUCCESS


class _JobLines:
    """Jobs, one a line, with a progress bar; `number` is the line that is being read."""

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
    """A bar on stderr where that is a terminal: to the end of a file, or a mere count for a pipe."""
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
            f'{text.strip()[:60]!r} is no JSON: {error}. Write an object such as {{"seconds": 1}}.'
        ) from error
