"""Send the heartbeat, alerts, metrics and traces of a cycle, each in a side process that the kernel ends in time.

A side process cannot delay the cycle or affect its runners, even if it hangs or crashes.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path

from dispatcher.summary import CycleSummary, figures_of
from mayfly import log_messages
from mayfly.clock import host_now, monotonic
from mayfly.db.database import Database
from mayfly.errors import ExtraMissing, MayflyError
from mayfly.log import Log
from mayfly.process import exits, timing
from mayfly.process.fork import forget_signals, fork_into
from mayfly.settings import Settings

KILL_GRACE_SECONDS = 0.1  # for the kernel to end a process after its alarm
_DONE = b"."


class SideProcess:
    """Starts when it is constructed. Double fork: as a child of the dispatcher it would be killed as a stray."""

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
            signal.setitimer(signal.ITIMER_REAL, timing().notify_seconds)  # ends the process even if it hangs
            os.close(self._done)
            if release_lock is not None:
                release_lock()
            try:
                work()
            except MayflyError as error:
                log.write(log_messages.side_process_failed(name, str(error)))
            os.write(done_write, _DONE)
            return exits.SUCCESS

        def fork_again() -> int:
            fork_into(run)
            return exits.SUCCESS

        os.waitpid(fork_into(fork_again), 0)
        os.close(done_write)

    def wait(self) -> None:
        """Wait until it has exited, which takes at most notify_seconds; log a timeout."""
        if not self.wait_for_exit() or os.read(self._done, 1) != _DONE:
            self._log.write(log_messages.side_process_timed_out(self._name, timing().notify_seconds))
        os.close(self._done)

    def wait_for_exit(self) -> bool:
        """Returns whether it has exited in time; for side processes that must come after it."""
        left = max(0.0, self._until - monotonic()) + KILL_GRACE_SECONDS
        return bool(select.select([self._done], [], [], left)[0])


class Notifier:
    """The side processes of one cycle. Sends the start of the heartbeat at once; the cycle does not wait for it."""

    def __init__(self, settings: Settings, log: Log, release_lock: Callable[[], None]) -> None:
        self._settings = settings
        self._log = log
        self._start_beat: SideProcess | None = None
        if settings.heartbeat_url is not None:
            self._start_beat = SideProcess("the heartbeat's start", self._beat, log, release_lock)

    def end(self, exit_code: int, text: str, cycle: CycleSummary | None = None) -> None:
        """Called after everything is written and the lock is released. The side processes run concurrently."""
        settings = self._settings
        works: dict[str, Callable[[], None]] = {}
        if settings.heartbeat_url is not None:
            works["the heartbeat"] = partial(self._beat, (exit_code, text))
        if cycle is not None:  # None: the cycle failed, and the database may be unreachable
            if settings.has_alerts:
                works["alerts"] = self._alerts
            if settings.metrics_textfile is not None:
                works["metrics"] = partial(self._metrics, settings.metrics_textfile)
            if settings.otlp_endpoint is not None:
                works["traces"] = partial(self._traces, cycle, host_now())
        started = [SideProcess(name, work, self._log) for name, work in works.items()]
        for each in (*started, *([self._start_beat] if self._start_beat else [])):
            each.wait()

    # --- in the side process ---

    def _beat(self, end: tuple[int, str] | None = None) -> None:
        """Send the end only after the start: for a receiver that gets the start last, the cycle still runs."""
        from mayfly.monitoring import channels  # here and below: the cycle and its runners do not need it

        assert self._settings.heartbeat_url is not None
        url = self._settings.heartbeat_url.get_secret_value()
        if end is None:
            channels.send_start(url)
            return
        if self._start_beat is not None:
            self._start_beat.wait_for_exit()
        channels.send_end(url, *end)

    def _alerts(self) -> None:
        from mayfly.monitoring.alerts import send_alerts  # as above

        with closing(self._database()) as database:
            send_alerts(self._settings, database, self._log)

    def _metrics(self, path: Path) -> None:
        from mayfly.monitoring.metrics import render_metrics, write_textfile  # as above

        with closing(self._database()) as database:
            write_textfile(path, render_metrics(database, self._settings))

    def _traces(self, cycle: CycleSummary, ended_at: datetime) -> None:
        try:
            from mayfly.monitoring.tracing import export_cycle  # as above; and OpenTelemetry is optional
        except ModuleNotFoundError as error:
            raise ExtraMissing("OTLP_ENDPOINT needs OpenTelemetry", "otel") from error
        figures = figures_of(cycle, self._settings.host_name)
        export_cycle(self._settings, cycle.cycle_id, ended_at, cycle.duration_ms / 1000, figures)

    def _database(self) -> Database:
        return Database(self._settings.database_url.get_secret_value())
