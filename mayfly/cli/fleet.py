"""Commands about the whole installation: status, top, cycles, runners, audit, metrics; interrupt and prune."""

import os
import selectors
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from mayfly.admin.actions import MAX_MATCHING_COUNTED, count_old, prune_all
from mayfly.admin.audit import TERMINAL, Actor, AuditEntry, list_audit, this_user
from mayfly.admin.fleet import list_cycles, list_runners
from mayfly.admin.health import read_status
from mayfly.bootstrap import open_database
from mayfly.cli.options import JOB_ID, ask, json_option, limit_option, open_installation, print_json, print_list
from mayfly.cli.text import audit_text, cycles_text, hosts_text, lanes_text, runners_text, status_text
from mayfly.clock import monotonic
from mayfly.clock import pause as sleep
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.fleet.dispatchers import Dispatcher, all_here
from mayfly.format import has_colour, moment, plural
from mayfly.monitoring.metrics import render_metrics
from mayfly.process import exits
from mayfly.process.state_dir import state_dir
from mayfly.queue.prune import keep_from
from mayfly.settings import Settings, load_settings

if TYPE_CHECKING:
    from rich.console import Group
    from rich.panel import Panel

SECONDS = click.FloatRange(0.2, 3600)
CLEAR_SCREEN = "\x1b[H\x1b[2J"
END_OF_FILE = "\x04"
RUNNERS_SHOWN = 20
CYCLES_SHOWN = 10
STYLES = {0: "green", 1: "yellow", 2: "red"}  # by exit code


@click.command()
@click.option("--watch", type=SECONDS, is_flag=False, flag_value=2.0, metavar="[SECONDS]",
              help="Repeat every 2 seconds, or as many as given, until Ctrl-C.")  # fmt: skip
@json_option
def status(watch: float | None, as_json: bool) -> int:
    """Show the state of every lane and host, and all problems.

    Exit code 0: no problem; 1: something is degraded or paused; 2: no cycle has run recently.
    """
    settings, database = open_installation()
    if watch is not None:
        return _watch_status(database, settings, watch, as_json)
    return _print_status(database, settings, as_json)


def _print_status(database: Database, settings: Settings, as_json: bool) -> int:
    now = database.clock.now()
    found = database.read(lambda connection: read_status(connection, settings, now))
    if as_json:
        print_json(found.facts())
    else:
        click.echo(status_text(found, has_colour(sys.stdout)))
    return found.exit_code


def _watch_status(database: Database, settings: Settings, seconds: float, as_json: bool) -> int:
    """Until Ctrl-C; returns the last exit code. The database may go away and come back."""
    code = exits.SUCCESS
    try:
        while True:
            if sys.stdout.isatty():
                click.echo(CLEAR_SCREEN, nl=False)
            try:
                code = _print_status(database, settings, as_json)
            except MayflyError as error:
                code = exits.ERROR
                click.echo(str(error), err=True)
            sleep(seconds)
    except KeyboardInterrupt:
        return code


@click.command()
@click.option("--before", type=JOB_ID, metavar="CYCLE", help="Only cycles before this one.")
@limit_option(20)
@json_option
def cycles(before: int | None, limit: int, as_json: bool) -> None:
    """List the last cycles: when, where, how long, which result."""
    _settings, database = open_installation()
    print_list(database.read(lambda connection: list_cycles(connection, limit, before)), as_json, cycles_text)


@click.command()
@click.option("--live", is_flag=True, help="Only live runners.")
@limit_option(50)
@json_option
def runners(live: bool, limit: int, as_json: bool) -> None:
    """List live runners, then the last that ended, and how."""
    _settings, database = open_installation()
    found = database.read(lambda connection: list_runners(connection, limit, live))
    print_list(found, as_json, lambda found: runners_text(found, database.clock.now()))


@click.command()
@click.option("--before", type=JOB_ID, metavar="ID", help="Only entries before this one.")
@limit_option(50)
@json_option
def audit(before: int | None, limit: int, as_json: bool) -> None:
    """List manual actions: when, by whom, how, on which jobs, why."""
    _settings, database = open_installation()
    print_list(database.read(lambda connection: list_audit(connection, limit, before)), as_json, audit_text)


@click.command()
def metrics() -> None:
    """Print the metrics in the text format of Prometheus.

    METRICS_TEXTFILE writes the same to a file in each cycle.
    """
    settings, database = open_installation()
    click.echo(render_metrics(database, settings), nl=False)


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Count old rows, delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
def prune(yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete rows that are older than the KEEP_… settings.

    Each cycle deletes a part of them by itself.
    """
    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run.")
    settings, database = open_installation()
    keep = keep_from(settings)
    old = database.read(lambda connection: count_old(connection, keep, database.clock.now()))
    if as_json:
        return print_json({table: min(rows, MAX_MATCHING_COUNTED) for table, rows in old.items()})
    text = ", ".join(f"{_row_count(rows)} of {table}" for table, rows in old.items())
    if not old or dry_run:
        return click.echo(f"Old rows: {text or 'none'}.")
    if not yes:
        ask(f"Delete {text}?")
    return click.echo(f"{plural(prune_all(database, keep, this_user(TERMINAL)), 'row')} deleted.")


def _row_count(number: int) -> str:
    most = MAX_MATCHING_COUNTED
    return f"{most:,}+" if number > most else f"{number:,}"


# --- interrupt ----------------------------------------------------------------------------------------------


@click.command()
@click.option("--timeout", type=click.FloatRange(0), default=60.0, show_default=True,
              help="Seconds to wait for their end.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List the dispatchers, end none.")
def interrupt(timeout: float, dry_run: bool) -> int:
    """End the dispatchers of this host early, as before a deploy.

    They start nothing more. A running job may finish for up to 30 seconds; then it is released without using an
    attempt. Exit code 1 if a dispatcher is still alive after the timeout.
    """
    code = exits.SUCCESS
    for sentence, is_ok in _end_dispatchers(load_settings(), timeout, dry_run, this_user(TERMINAL)):
        click.echo(sentence)
        code = code if is_ok else exits.ERROR
    return code


def _end_dispatchers(settings: Settings, timeout: float, dry_run: bool, actor: Actor) -> Iterator[tuple[str, bool]]:
    """Sentences, each with whether it reports success."""
    found = all_here(state_dir(settings))
    if not found:
        yield "No dispatcher of this host runs.", True
    deadline = monotonic() + timeout
    for each in found:
        yield f"Dispatcher {each.process.pid} {_activity(each)}.", True
    if found and not dry_run:
        yield from _end(found, deadline, timeout)
        yield from _record_interrupt(settings, actor)


def _activity(dispatcher: Dispatcher) -> str:
    if dispatcher.is_leaving:
        return "has handed over and waits for its last runners"
    return "lingers" if dispatcher.lingers else "is running"


def _end(found: Sequence[Dispatcher], deadline: float, timeout: float) -> Iterator[tuple[str, bool]]:
    """All are signalled before the first is waited for."""
    for each in found:
        each.process.send_signal(signal.SIGTERM)
    for each in found:
        if each.process.has_ended_within(max(0.0, deadline - monotonic())):
            yield f"Dispatcher {each.process.pid} has ended.", True
        else:
            yield f"Dispatcher {each.process.pid} is still alive after {timeout:g} s: its jobs take longer.", False


def _record_interrupt(settings: Settings, actor: Actor) -> Iterator[tuple[str, bool]]:
    """In the audit, if the database is available: dispatchers can be ended without it."""
    try:
        database = open_database(settings)
        entry = AuditEntry(actor, "interrupt", f"host {settings.host_name}", database.clock.now())
        database.run(entry.note)
    except MayflyError as error:
        yield f"Not recorded in the audit: {error}", True


# --- top ----------------------------------------------------------------------------------------------------


@click.command()
@click.option("--interval", type=SECONDS, default=1.0, show_default=True, metavar="SECONDS",
              help="Time between two updates.")  # fmt: skip
def top(interval: float) -> None:
    """Watch lanes, runners and cycles on the full screen; q quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; `mayfly status` prints the same figures once.")
    # rich takes as long to import as all the rest of a command.
    from rich.console import Console
    from rich.live import Live

    settings, database = open_installation()
    with (
        suppress(KeyboardInterrupt),
        _keyboard() as next_key,
        Live(console=Console(), screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(_screen(database, settings), refresh=True)
            if next_key(interval) in ("q", "Q", END_OF_FILE, ""):
                break


def _screen(database: Database, settings: Settings) -> "Panel | Group":
    try:
        return _panels(database, settings)
    except MayflyError as error:  # the database may come back
        return _panel("mayfly", str(error), "red")


def _panels(database: Database, settings: Settings) -> "Group":
    from rich.console import Group  # as above
    from rich.text import Text

    now = database.clock.now()
    found = database.read(lambda connection: read_status(connection, settings, now))
    live = database.read(lambda connection: list_runners(connection, RUNNERS_SHOWN, live_only=True))
    last = database.read(lambda connection: list_cycles(connection, CYCLES_SHOWN))
    style = STYLES[found.exit_code]
    return Group(
        _panel(f"mayfly, {moment(now)}, {database.name}", found.text, style),
        _panel("lanes", lanes_text(found.snapshot.lanes, now), style),
        _panel("hosts", hosts_text(found.snapshot.hosts), style),
        _panel("runners", runners_text(live, now) if live else "No runners.", style),
        _panel("cycles", cycles_text(last), style),
        Text("q quits", style="dim"),
    )


def _panel(title: str, text: str, style: str) -> "Panel":
    from rich.panel import Panel  # as above
    from rich.text import Text

    content = Text(text, no_wrap=True, overflow="ellipsis")
    return Panel(content, title=Text(title), title_align="left", border_style=style)


@contextmanager
def _keyboard() -> Iterator[Callable[[float], str | None]]:
    """Single keys without echo; afterwards the terminal is as before.

    The function returns the next key within some seconds, None if there is none, and "" if the terminal is gone.
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
