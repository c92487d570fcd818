"""`mayfly status`, once or again and again."""

import json
import sys

import click

from mayfly import exits
from mayfly.clock import pause
from mayfly.engine import Database
from mayfly.errors import MayflyError
from mayfly.jobs import browse
from mayfly.schema import JOBS
from mayfly.settings import Settings
from mayfly.terminal import has_colour
from mayfly.views.text import status_text

CLEAR = "\x1b[H\x1b[2J"


def status_now(database: Database, settings: Settings, as_json: bool) -> int:
    now = database.clock.now()
    found = database.read(lambda connection: browse.read_status(connection, JOBS, settings, now))
    click.echo(json.dumps(found.facts(), indent=2) if as_json else status_text(found, has_colour(sys.stdout)))
    return found.exit_code


def watch_status(database: Database, settings: Settings, seconds: float, as_json: bool) -> int:
    """Until Ctrl-C; the exit code is that of the last look. A database that is away may come back."""
    code = exits.SUCCESS
    try:
        while True:
            if sys.stdout.isatty():
                click.echo(CLEAR, nl=False)
            try:
                code = status_now(database, settings, as_json)
            except MayflyError as error:
                code = exits.ERROR
                click.echo(str(error), err=True)
            pause(seconds)
    except KeyboardInterrupt:
        return code
