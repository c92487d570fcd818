"""Commands for the whole installation: status, hosts, cycles, runners, audit, metrics; interrupt and prune."""

import signal
import sys
from collections.abc import Sequence
from functools import cached_property, partial

import click

from mayfly.admin.actions import count_old, prune_all
from mayfly.admin.auth import TERMINAL, AuditEntry, list_audit, this_user
from mayfly.admin.fleet import forget_host, list_cycles, list_hosts, list_runners, read_runner
from mayfly.admin.health import read_status
from mayfly.cli.options import (
    JOB_ID,
    SECONDS,
    ask,
    json_option,
    limit_option,
    open_installation,
    print_json,
    print_list,
)
from mayfly.cli.text import audit_text, cycles_text, hosts_text, runner_text, runners_text, status_text
from mayfly.clock import monotonic
from mayfly.clock import pause as sleep
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.fleet.cycles import Dispatcher, all_here
from mayfly.fleet.launchers import cancel_command, run
from mayfly.fleet.submitted import LiveSubmitted, live_of_host, request_stop
from mayfly.format import has_colour, plural
from mayfly.process import exits
from mayfly.process.state_dir import state_dir
from mayfly.schema import open_database
from mayfly.settings import Settings, load_settings

POLL_SECONDS = 0.25
CLEAR_SCREEN = "\x1b[H\x1b[2J"


@click.command()
@click.option("--watch", type=SECONDS, is_flag=False, flag_value=2.0, metavar="[SECONDS]",
              help="Repeat every SECONDS (default: 2) until Ctrl-C.")  # fmt: skip
@json_option
def status(watch: float | None, as_json: bool) -> int:
    """Show the state of every lane and host, problems and warnings.

    Exit code 0: no problem, perhaps warnings; 1: something is degraded; 2: no cycle has run recently.
    """
    settings, database = open_installation()
    if watch is None:
        return _print_status(database, settings, as_json)
    code = exits.SUCCESS
    try:
        while True:
            if sys.stdout.isatty():
                click.echo(CLEAR_SCREEN, nl=False)
            try:
                code = _print_status(database, settings, as_json)
            except MayflyError as error:  # the database may be available again
                code = exits.ERROR
                click.echo(str(error), err=True)
            sleep(watch)
    except KeyboardInterrupt:
        return code


def _print_status(database: Database, settings: Settings, as_json: bool) -> int:
    now = database.clock.now()
    found = database.read(lambda connection: read_status(connection, settings, now))
    if as_json:
        print_json(found.facts())
    else:
        click.echo(status_text(found, has_colour(sys.stdout)))
    return found.exit_code


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def hosts(context: click.Context, as_json: bool) -> None:
    """List hosts with their last cycle."""
    if context.invoked_subcommand:
        return
    _settings, database = open_installation()
    now = database.clock.now()
    print_list(database.read(lambda connection: list_hosts(connection, now)), as_json, hosts_text)


@hosts.command("forget")
@click.argument("name")
def forget(name: str) -> None:
    """Forget a removed host; after a silent day all are.

    It disappears from status, alerts and metrics until it starts a cycle again. Its cycles stay in the lists.
    """
    _settings, database = open_installation()
    forget_host(database, name, this_user(TERMINAL))
    click.echo(f"Host {name} is forgotten until it starts a cycle again.")


@click.command()
@click.option("--before", type=JOB_ID, metavar="CYCLE", help="Only cycles before this one.")
@limit_option(20)
@json_option
def cycles(before: int | None, limit: int, as_json: bool) -> None:
    """List recent cycles: start, host, duration, result."""
    _settings, database = open_installation()
    print_list(database.read(lambda connection: list_cycles(connection, limit, before)), as_json, cycles_text)


@click.command()
@click.argument("worker", required=False)
@click.option("--live", is_flag=True, help="Only live runners.")
@limit_option(50)
@json_option
def runners(worker: str | None, live: bool, limit: int, as_json: bool) -> None:
    """List live runners, then recently ended ones with their result.

    With the id of a runner: all that is known about it, with the output of one that a launcher has started and that
    has failed.
    """
    settings, database = open_installation()
    if worker is not None:
        detail = database.read(lambda connection: read_runner(connection, worker, settings.redact))
        return print_json(detail.facts()) if as_json else click.echo(runner_text(detail))
    found = database.read(lambda connection: list_runners(connection, limit, live))
    return print_list(found, as_json, lambda found: runners_text(found, database.clock.now()))


@click.command()
@click.option("--before", type=JOB_ID, metavar="ID", help="Only entries before this one.")
@limit_option(50)
@json_option
def audit(before: int | None, limit: int, as_json: bool) -> None:
    """List manual actions: time, user, interface, jobs, reason."""
    _settings, database = open_installation()
    print_list(database.read(lambda connection: list_audit(connection, limit, before)), as_json, audit_text)


@click.command()
def metrics() -> None:
    """Print the metrics in the Prometheus text format.

    With METRICS_TEXTFILE each cycle writes them to a file.
    """
    from mayfly.monitoring.metrics import render_metrics  # prometheus_client is an extra

    settings, database = open_installation()
    click.echo(render_metrics(database, settings), nl=False)


@click.command()
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option("--dry-run", is_flag=True, help="Count old rows; delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
def prune(yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete rows that are older than the KEEP_… settings.

    Cycles delete them too, a limited number each.
    """
    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run.")
    settings, database = open_installation()
    old = database.read(lambda connection: count_old(connection, settings, database.clock.now()))
    if as_json:
        return print_json({table: rows.number for table, rows in old.items()})
    text = ", ".join(f"{rows} in {table}" for table, rows in old.items())
    if not old or dry_run:
        return click.echo(f"Old rows: {text or 'none'}.")
    if not yes:
        ask(f"Old rows will be deleted: {text}. Continue?")
    return click.echo(f"{plural(prune_all(database, settings, this_user(TERMINAL)), 'row')} deleted.")


# --- interrupt ----------------------------------------------------------------------------------------------


@click.command()
@click.option("--timeout", type=click.FloatRange(0), default=60.0, show_default=True,
              help="Seconds to wait until they have stopped.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List the dispatchers; stop none.")
def interrupt(timeout: float, dry_run: bool) -> int:
    """Stop the dispatchers of this host early, e.g. before a deploy.

    Also the runners that launchers have started for them. They start no more jobs. A running job has up to 30 seconds
    to finish; then it is released without using an attempt. Exit code 1 if one is still running after the timeout.
    """
    settings = load_settings()
    found = all_here(state_dir(settings))
    if not found:
        click.echo("No dispatcher is running on this host.")
    for each in found:
        click.echo(f"Dispatcher {each.process.pid} {_activity(each)}.")
    deadline = monotonic() + timeout
    code = exits.SUCCESS if dry_run else _stop_dispatchers(found, timeout)
    submitted = SubmittedRunners(settings)  # after the dispatchers: they submit no more, and need no database to stop
    submitted.show()
    if dry_run or not (found or submitted.live):
        return code
    code = max(code, submitted.stop(deadline))
    _record_interrupt(settings)
    return code


def _stop_dispatchers(found: Sequence[Dispatcher], timeout: float) -> int:
    for each in found:  # signal all of them before waiting for the first
        each.process.send_signal(signal.SIGTERM)
    deadline, code = monotonic() + timeout, exits.SUCCESS
    for each in found:
        if each.process.has_ended_within(max(0.0, deadline - monotonic())):
            click.echo(f"Dispatcher {each.process.pid} has stopped.")
        else:
            click.echo(f"Dispatcher {each.process.pid} is still running after {timeout:g} s: use a longer --timeout.")
            code = exits.ERROR
    return code


class SubmittedRunners:
    """The runners of launchers that this host's cycles have planned, on whatever host they run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.live = self._read_live() if settings.launchers else []

    def show(self) -> None:
        for each in self.live:
            state = "is running" if each.has_started else "waits"
            click.echo(f"Runner {each.worker_id} of the launcher {each.launcher} {state}.")

    def stop(self, deadline: float) -> int:
        """Those that have started stop by themselves; the others are cancelled, at the latest by the next cycle."""
        if not self._settings.launchers:
            return exits.SUCCESS
        now = self._database.clock.now()
        self.live = list(self._database.run(partial(request_stop, host=self._settings.host_name, now=now)))
        for name, launcher in self._settings.launchers.items():
            waiting = [
                each for each in self.live if each.launcher == name and each.external_id and not each.has_started
            ]
            if waiting:
                worker_ids = [each.worker_id for each in waiting]
                run(cancel_command(launcher, worker_ids, [str(each.external_id) for each in waiting]))
        left = self.live
        while left and monotonic() < deadline:
            left = self._read_live()
            if left:
                sleep(POLL_SECONDS)
        for each in left:
            click.echo(f"Runner {each.worker_id} is still running: it ends by itself, or use a longer --timeout.")
        if self.live and not left:
            click.echo(f"{plural(len(self.live), 'runner')} of launchers stopped.")
        return exits.ERROR if left else exits.SUCCESS

    @cached_property
    def _database(self) -> Database:
        return open_database(self._settings)

    def _read_live(self) -> list[LiveSubmitted]:
        return self._database.read(partial(live_of_host, host=self._settings.host_name))


def _activity(dispatcher: Dispatcher) -> str:
    if dispatcher.is_leaving:
        return "has handed over and waits for its last runners"
    return "lingers" if dispatcher.lingers else "is running"


def _record_interrupt(settings: Settings) -> None:
    """Write an audit entry if the database is available: stopping dispatchers does not need it."""
    try:
        database = open_database(settings)
        entry = AuditEntry(this_user(TERMINAL), "interrupt", f"host {settings.host_name}", database.clock.now())
        database.run(entry.note)
    except MayflyError as error:
        click.echo(f"Not recorded in the audit: {error}")
