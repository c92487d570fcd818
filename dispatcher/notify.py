"""Something done beside the cycle, in a process of its own that the kernel ends in time: it can harm nothing."""

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

LATE_SECONDS = 0.1  # that the kernel may need
_DONE = b"."


class SideProcess:
    """Begun when it is made. No child of ours: the supervisor takes those for strays of its runners."""

    def __init__(
        self, name: str, work: Callable[[], None], log: Log, let_go: Callable[[], None] | None = None
    ) -> None:
        self._name = name
        self._log = log
        self._end, writing = os.pipe()
        self._until = monotonic() + timing().notify_seconds

        def go() -> int:
            forget_signals()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, timing().notify_seconds)  # nothing can wait through its end
            os.close(self._end)
            if let_go is not None:
                let_go()
            try:
                work()
            except MayflyError as error:
                log.say(log_messages.side_process_failed(name, str(error)))
            os.write(writing, _DONE)
            return exits.SUCCESS

        def step_aside() -> int:
            fork_into(go)
            return exits.SUCCESS

        os.waitpid(fork_into(step_aside), 0)
        os.close(writing)

    def wait(self) -> None:
        """Until it is over, which it is in time; that it was cut short is told."""
        if not self.await_end() or os.read(self._end, 1) != _DONE:
            self._log.say(log_messages.side_process_timed_out(self._name, timing().notify_seconds))
        os.close(self._end)

    def await_end(self) -> bool:
        """Whether it is; for those who come after it."""
        left = max(0.0, self._until - monotonic()) + LATE_SECONDS
        return bool(select.select([self._end], [], [], left)[0])


class Notifier:
    """Of one cycle."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._started: SideProcess | None = None

    def begin(self, let_go: Callable[[], None]) -> None:
        """Beside the cycle, which does not wait for it; `let_go` is of what may not outlive the cycle there."""
        url = self._settings.heartbeat_url
        if url is not None:
            self._started = self._errand("the heartbeat's start", lambda: _beat_start(url.get_secret_value()), let_go)

    def end(self, exit_code: int, text: str, cycle: CycleSummary | None = None) -> None:
        """When all is written and nothing is held any more. All at once: together they have as long as one."""
        errands = [self._errand(name, work) for name, work in self._works(exit_code, text, cycle)]
        for each in (*errands, *([self._started] if self._started else [])):
            each.wait()

    def _works(self, exit_code: int, text: str, cycle: CycleSummary | None) -> list[tuple[str, Callable[[], None]]]:
        settings, log, started = self._settings, self._log, self._started
        works: list[tuple[str, Callable[[], None]]] = []
        url = settings.heartbeat_url
        if url is not None:
            works.append(("the heartbeat", lambda: _beat_end(url.get_secret_value(), exit_code, text, started)))
        if cycle is None:  # there was none: the database is away
            return works
        if settings.has_alerts:
            works.append(("alerts", lambda: _alerts(settings, log)))
        if settings.metrics_textfile is not None:
            works.append(("metrics", lambda: _metrics(settings)))
        if settings.otlp_endpoint is not None:
            works.append(("traces", partial(_traces, settings, cycle, host_now())))
        return works

    def _errand(self, name: str, work: Callable[[], None], let_go: Callable[[], None] | None = None) -> SideProcess:
        return SideProcess(name, work, self._log, let_go)


# Imported where it is done, in a process of its own: neither the cycle nor its runners carry it along.
def _beat_start(url: str) -> None:
    from mayfly.monitoring.channels import send_start

    send_start(url)


def _beat_end(url: str, exit_code: int, text: str, started: SideProcess | None) -> None:
    """Not before the start was told: a start that comes last would be one that never ends."""
    from mayfly.monitoring.channels import send_end

    if started is not None:
        started.await_end()
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
