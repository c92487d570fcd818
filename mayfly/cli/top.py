"""`mayfly top`: lanes, runners and cycles in full screen. The only importer of rich, which is slow to import."""

import os
import selectors
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from mayfly.admin.fleet import list_cycles, list_runners
from mayfly.admin.health import Severity, read_status
from mayfly.cli.options import SECONDS, open_installation
from mayfly.cli.text import cycles_text, hosts_text, lanes_text, runners_text
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.format import moment
from mayfly.settings import Settings

END_OF_FILE = "\x04"
RUNNERS_SHOWN = 20
CYCLES_SHOWN = 10
STYLES = {None: "green", Severity.DOWN: "red"}  # by the worst problem; others are yellow


@click.command()
@click.option("--interval", type=SECONDS, default=1.0, show_default=True, metavar="SECONDS",
              help="Time between updates.")  # fmt: skip
def top(interval: float) -> None:
    """Watch lanes, runners and cycles in full screen; q quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; use `mayfly status` without one.")
    settings, database = open_installation()
    with suppress(KeyboardInterrupt), _keyboard() as next_key, Live(screen=True, auto_refresh=False) as live:
        key: str | None = None
        while key not in ("q", "Q", END_OF_FILE, ""):
            live.update(_screen(database, settings), refresh=True)
            key = next_key(interval)


def _screen(database: Database, settings: Settings) -> Group | Panel:
    try:
        now = database.clock.now()
        status = database.read(lambda connection: read_status(connection, settings, now))
        live = database.read(lambda connection: list_runners(connection, RUNNERS_SHOWN, live_only=True))
        last = database.read(lambda connection: list_cycles(connection, CYCLES_SHOWN))
    except MayflyError as error:  # the database may be available again
        return _panel("mayfly", str(error), "red")
    style = STYLES.get(status.worst, "yellow")
    return Group(
        _panel(f"mayfly, {moment(now)}, {database.name}", status.text, style),
        _panel("lanes", lanes_text(status.snapshot.lanes, now), style),
        _panel("hosts", hosts_text(status.snapshot.hosts), style),
        _panel("runners", runners_text(live, now) if live else "No runners.", style),
        _panel("cycles", cycles_text(last), style),
        Text("q quits", style="dim"),
    )


def _panel(title: str, text: str, style: str) -> Panel:
    content = Text(text, no_wrap=True, overflow="ellipsis")
    return Panel(content, title=Text(title), title_align="left", border_style=style)


@contextmanager
def _keyboard() -> Iterator[Callable[[float], str | None]]:
    """Read single keys without echo, and restore the terminal at the end.

    The function waits some seconds for a key. It returns None if there is none, and "" if the terminal is closed.
    """
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
            yield (
                lambda seconds: os.read(sys.stdin.fileno(), 1).decode("latin-1") if selector.select(seconds) else None
            )
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
