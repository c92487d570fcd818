"""Heartbeat, alerts, metrics and traces of a cycle, each in a side process that the kernel ends in time.

Whatever such a process does, it cannot delay the cycle or harm its runners.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import partial

from dispatcher.summary import CycleSummary, figures_of
from mayfly import log_messages
from mayfly.clock import host_now, monotonic
from mayfly.db.database import Database
from mayfly.errors import ExtraMissing, MayflyError
from mayfly.log import Log
from mayfly.process import exits
from mayfly.process.fork import forget_signals, fork_into
from mayfly.process.timing import timing
from mayfly.settings import Settings

KILL_GRACE_SECONDS = 0.1  # for the kernel to end a process whose alarm has fired
_DONE = b"."


class SideProcess:
    """Starts when it is constructed. Not a child of the dispatcher: the supervisor would take it for a stray."""

    def __init__(
        self, name: str, work: Callable[[], None], log: Log, release_lock: Callable[[], None] | None = None
    ) -> None:
        self._name = name
        self._log = log
        self._done, done_write = os.pipe()
        self._until = monotonic() + timing().notify_seconds

        def run() -> int:
            forget_signals()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, timing().notify_seconds)  # ends the process, whatever it waits for
            os.close(self._done)
            if release_lock is not None:
                release_lock()
            try:
                work()
            except MayflyError as error:
                log.say(log_messages.side_process_failed(name, str(error)))
            os.write(done_write, _DONE)
            return exits.SUCCESS

        def fork_again() -> int:
            fork_into(run)
            return exits.SUCCESS

        os.waitpid(fork_into(fork_again), 0)
        os.close(done_write)

    def wait(self) -> None:
        """Wait until it has exited, which it does in time; log it if it was cut short."""
        if not self.wait_for_exit() or os.read(self._done, 1) != _DONE:
            self._log.say(log_messages.side_process_timed_out(self._name, timing().notify_seconds))
        os.close(self._done)

    def wait_for_exit(self) -> bool:
        """Whether it has exited in time; for side processes that must come after it."""
        left = max(0.0, self._until - monotonic()) + KILL_GRACE_SECONDS
        return bool(select.select([self._done], [], [], left)[0])


class Notifier:
    """The side processes of one cycle."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._start_beat: SideProcess | None = None

    def begin(self, release_lock: Callable[[], None]) -> None:
        """Send the heartbeat's start; the cycle does not wait for it. The side process must not hold the lock."""
        url = self._settings.heartbeat_url
        if url is not None:
            self._start_beat = SideProcess(
                "the heartbeat's start", lambda: _beat_start(url.get_secret_value()), self._log, release_lock
            )

    def end(self, exit_code: int, text: str, cycle: CycleSummary | None = None) -> None:
        """After everything is written and the lock released. All at once: together they take as long as one."""
        started = [SideProcess(name, work, self._log) for name, work in self._works(exit_code, text, cycle)]
        for each in (*started, *([self._start_beat] if self._start_beat else [])):
            each.wait()

    def _works(self, exit_code: int, text: str, cycle: CycleSummary | None) -> list[tuple[str, Callable[[], None]]]:
        settings, log, start_beat = self._settings, self._log, self._start_beat
        works: list[tuple[str, Callable[[], None]]] = []
        url = settings.heartbeat_url
        if url is not None:
            works.append(("the heartbeat", lambda: _beat_end(url.get_secret_value(), exit_code, text, start_beat)))
        if cycle is None:  # it failed: the database is not available
            return works
        if settings.has_alerts:
            works.append(("alerts", lambda: _alerts(settings, log)))
        if settings.metrics_textfile is not None:
            works.append(("metrics", lambda: _metrics(settings)))
        if settings.otlp_endpoint is not None:
            works.append(("traces", partial(_traces, settings, cycle, host_now())))
        return works


# Imported in the side process only: neither the cycle nor its runners pay for it.
def _beat_start(url: str) -> None:
    from mayfly.monitoring.channels import send_start

    send_start(url)


def _beat_end(url: str, exit_code: int, text: str, start_beat: SideProcess | None) -> None:
    """Not before the start was sent: to the receiver, a start that arrives last never ends."""
    from mayfly.monitoring.channels import send_end

    if start_beat is not None:
        start_beat.wait_for_exit()
    send_end(url, exit_code, text)


def _alerts(settings: Settings, log: Log) -> None:
    from mayfly.monitoring.alerts import send_alerts

    with closing(_database(settings)) as database:
        send_alerts(settings, database, log)


def _metrics(settings: Settings) -> None:
    from mayfly.monitoring.metrics import render_metrics, write_textfile

    with closing(_database(settings)) as database:
        text = render_metrics(database, settings)
    if settings.metrics_textfile is not None:
        write_textfile(settings.metrics_textfile, text)


def _database(settings: Settings) -> Database:
    return Database(settings.database_url.get_secret_value())


def _traces(settings: Settings, cycle: CycleSummary, ended_at: datetime) -> None:
    try:
        from mayfly.monitoring.tracing import export_cycle
    except ModuleNotFoundError as error:
        raise ExtraMissing("OTLP_ENDPOINT needs OpenTelemetry", "otel") from error
    facts = figures_of(cycle, settings.host_name)
    export_cycle(settings, cycle.cycle_id, ended_at, cycle.duration_ms / 1000, facts)
