"""Who is told of each cycle: a dead man's switch, those who want alerts, Prometheus. None of them can harm it."""

from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import partial

from dispatcher.errand import Errand
from dispatcher.summary import Summary, figures_of
from mayfly.clock import host_now
from mayfly.engine import Database
from mayfly.errors import TracingMissing
from mayfly.logs import Log
from mayfly.settings import Settings


class Watchers:
    """Of one cycle."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._started: Errand | None = None

    def begin(self, let_go: Callable[[], None]) -> None:
        """Beside the cycle, which does not wait for it; `let_go` is of what may not outlive the cycle there."""
        url = self._settings.heartbeat_url
        if url is not None:
            self._started = self._errand("the heartbeat's start", lambda: _beat_start(url.get_secret_value()), let_go)

    def end(self, exit_code: int, text: str, cycle: Summary | None = None) -> None:
        """When all is written and nothing is held any more. All at once: together they have as long as one."""
        errands = [self._errand(name, work) for name, work in self._works(exit_code, text, cycle)]
        for each in (*errands, *([self._started] if self._started else [])):
            each.wait()

    def _works(self, exit_code: int, text: str, cycle: Summary | None) -> list[tuple[str, Callable[[], None]]]:
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

    def _errand(self, name: str, work: Callable[[], None], let_go: Callable[[], None] | None = None) -> Errand:
        return Errand(name, work, self._log, let_go)


# Imported where it is done, in a process of its own: neither the cycle nor its runners carry it along.


def _beat_start(url: str) -> None:
    from mayfly.alerts.heartbeat import tell_start

    tell_start(url)


def _beat_end(url: str, exit_code: int, text: str, started: Errand | None) -> None:
    """Not before the start was told: a start that comes last would be one that never ends."""
    from mayfly.alerts.heartbeat import tell_end

    if started is not None:
        started.await_end()
    tell_end(url, exit_code, text)


def _alerts(settings: Settings, log: Log) -> None:
    from mayfly.alerts.tell import tell_alerts

    with closing(_database(settings)) as database:
        tell_alerts(settings, database, log)


def _metrics(settings: Settings) -> None:
    from mayfly.metrics import render
    from mayfly.metrics.textfile import write_textfile

    with closing(_database(settings)) as database:
        text = render(database, settings)
    if settings.metrics_textfile is not None:
        write_textfile(settings.metrics_textfile, text)


def _database(settings: Settings) -> Database:
    return Database(settings.database_url.get_secret_value())


def _traces(settings: Settings, cycle: Summary, ended_at: datetime) -> None:
    try:
        from mayfly.tracing import export_cycle
    except ModuleNotFoundError as error:
        raise TracingMissing from error
    facts = figures_of(cycle, settings.host_name)
    export_cycle(settings, cycle.cycle_id, ended_at, cycle.duration_ms / 1000, facts)
