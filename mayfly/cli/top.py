"""`mayfly status`, once or again and again."""

import json
import os
import selectors
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from mayfly import admin
from mayfly.cli.text import cycles_text, hosts_text, lanes_text, runners_text, status_text
from mayfly.clock import pause
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.format import has_colour, moment
from mayfly.process import exits
from mayfly.settings import Settings

CLEAR = "\x1b[H\x1b[2J"


def status_now(database: Database, settings: Settings, as_json: bool) -> int:
    now = database.clock.now()
    found = database.read(lambda connection: admin.read_status(connection, settings, now))
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


RUNNERS_SHOWN = 20
CYCLES_SHOWN = 10
END_OF_FILE = "\x04"
STYLES = {0: "green", 1: "yellow", 2: "red"}


def show(database: Database, settings: Settings, interval: float) -> None:
    """Until somebody presses q, or Ctrl-C."""
    with (
        suppress(KeyboardInterrupt),
        _keys() as pressed,
        Live(console=Console(), screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(_screen(database, settings), refresh=True)
            if pressed(interval) in ("q", "Q", END_OF_FILE, ""):
                return


def _screen(database: Database, settings: Settings) -> Group:
    try:
        return _drawn(database, settings)
    except MayflyError as error:  # the database may come back
        return Group(_panel("mayfly", str(error), "red"))


def _drawn(database: Database, settings: Settings) -> Group:
    now = database.clock.now()
    found = database.read(lambda connection: admin.read_status(connection, settings, now))
    live = database.read(lambda connection: admin.list_runners(connection, RUNNERS_SHOWN, live_only=True))
    last = database.read(lambda connection: admin.list_cycles(connection, CYCLES_SHOWN))
    style = STYLES[found.exit_code]
    verdict = "\n".join(found.complaints()) or "All is well."
    return Group(
        _panel(f"mayfly, {moment(now)}, {database.name}", verdict, style),
        _panel("lanes", lanes_text(found.lanes, now), style),
        _panel("hosts", hosts_text(found), style),
        _panel("runners", runners_text(live, now) if live else "Nobody runs.", style),
        _panel("cycles", cycles_text(last), style),
        Text("q ends", style="dim"),
    )


def _panel(title: str, text: str, style: str) -> Panel:
    return Panel(
        Text(text, no_wrap=True, overflow="ellipsis"), title=Text(title), title_align="left", border_style=style
    )


@contextmanager
def _keys() -> Iterator["_Pressed"]:
    """Keys one by one, without an echo; the terminal is left as it was."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
            yield _Pressed(selector)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class _Pressed:
    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector

    def __call__(self, seconds: float) -> str | None:
        """The next key within this time; the empty text where the terminal has gone."""
        return os.read(sys.stdin.fileno(), 1).decode("latin-1") if self._selector.select(seconds) else None
