"""One cycle: lock, idle check, rescue, schedules, plan, spawn, supervise, finish.

Every minute imports this module, and most minutes end after the idle check. So its imports are light; what only a
cycle with work needs is imported by the methods that use it, below `_run_with_work`.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from dispatcher.context import LAST_STATEMENTS_SECONDS, CycleContext
from dispatcher.idle import anything_to_do
from dispatcher.lock import HostLock, take_lock
from dispatcher.summary import (
    CycleSummary,
    cycle_row,
    lane_figures,
    summary_lines,
    summary_text,
    trouble_paragraph,
)
from mayfly import log_messages
from mayfly.clock import host_now, monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import embedded_file
from mayfly.errors import MayflyError, UnknownName
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.fleet.plan_lock import number_idle_cycle, planning
from mayfly.log import LOG_NAME, Log, open_log
from mayfly.process import exits
from mayfly.process.state_dir import lock_path, open_state_dir
from mayfly.queue.count import find_lanes
from mayfly.schema.tables import require_version
from mayfly.settings import Settings

if TYPE_CHECKING:
    from dispatcher.assign import Planned
    from dispatcher.linger import Linger
    from dispatcher.notify import Notifier
    from dispatcher.rescue import Rescuer
    from dispatcher.steps import CycleStep
    from dispatcher.supervise import Supervisor
    from mayfly.stats.histograms import Tally


def run_cycle(
    settings: Settings, warnings: Sequence[str], started: float, only_lanes: frozenset[str] = frozenset()
) -> int:
    """Run one cycle; its exit code. On a terminal the log is shown; under cron only a failed cycle prints."""
    echo = sys.stderr if sys.stderr is not None and sys.stderr.isatty() and settings.log_to != "stdout" else None
    log = open_log(settings, "DISPATCHER", echo)
    log.say(log_messages.cycle_started(host_now(), settings.host_name))
    for warning in warnings:
        log.say(log_messages.setting_warning(warning))
    directory = open_state_dir(settings)
    lock = take_lock(lock_path(directory)) or _take_over(directory, log)
    if lock is None:
        log.say(log_messages.cycle_skipped())
        return exits.SUCCESS

    def run() -> CycleSummary:
        context = CycleContext(settings, Database(_url(settings)), log, directory, started, only_lanes)
        with closing(context):
            return Cycle(context, lock).run()

    summary = _run_notified(run, settings, log, lock)
    _print_trouble(summary, settings, echo)
    return summary.exit_code


class Cycle:
    """The state of one cycle, and its steps in their order."""

    supervisor: "Supervisor"
    rescuer: "Rescuer"
    linger: "Linger"
    planned: "Planned"
    steps: "list[CycleStep]"
    tally: "Tally"

    def __init__(self, context: CycleContext, lock: HostLock) -> None:
        self.context = context
        self.lock = lock
        self.problems: list[str] = []  # what went wrong besides runners
        self.has_failed = False  # an error of the cycle itself: nothing more is planned
        self.pruned = 0

    def run(self) -> CycleSummary:
        self._open_database()
        return self._run_idle() or self._run_with_work()

    # --- every minute ---

    def _open_database(self) -> None:
        """The first connection: is this a server for us, and are these our tables?"""
        context = self.context
        _create_missing(_url(context.settings))
        context.statements.set(context.started + context.settings.dispatch_timeout)
        server = context.database.read(self._verify)
        context.log.say(log_messages.database_verified(server))
        if context.database.clock.is_skewed:
            context.log.say(log_messages.clock_skewed(context.database.clock.offset))

    def _verify(self, connection: Connection) -> str:
        connection.dialect.require_skip_locked(connection.raw)
        require_version(connection)
        refuse_unknown_lanes(self.context.only_lanes, self.context.settings, connection)
        return str(connection.dialect.server(connection.raw))

    def _run_idle(self) -> CycleSummary | None:
        """The whole cycle of most minutes. None if there is anything to do; nothing was written then."""
        context, database = self.context, self.context.database
        now = database.clock.now()
        reason = database.read(lambda found: anything_to_do(found, context.settings, context.directory, now))
        if reason is not None:
            return None

        def record(connection: Connection) -> CycleSummary | None:
            cycle_id = number_idle_cycle(connection, now)
            if cycle_id is None:  # another host plans
                return None
            summary = CycleSummary(cycle_id, self._duration_ms)
            open_cycle(connection, cycle_id, context.settings.host_name, now)
            close_cycle(connection, cycle_id, cycle_row(summary), database.clock.now())
            return summary

        summary = database.run(record)
        if summary is not None:
            context.log.say(log_messages.pending_jobs(summary.pending))
            context.log.say(log_messages.nothing_pending())
            self._log_summary(summary)
        return summary

    @property
    def _duration_ms(self) -> int:
        return round((monotonic() - self.context.started) * 1000)

    def _log_summary(self, summary: CycleSummary) -> None:
        for line in summary_lines(summary):
            self.context.log.say(log_messages.summary_line(line))
        for figures in lane_figures(summary):
            self.context.log.say(log_messages.lane_summary(figures))

    # --- minutes with work ---

    def _run_with_work(self) -> CycleSummary:
        self._prepare()
        try:
            self._rescue_and_plan()
            with self._contained():
                self._spawn(self.planned)
                for step in self.steps:
                    step.after_spawn()
            while self.supervisor.alive or (self.supervisor.may_spawn and self.linger.goes_on):
                self.context.statements.set(self._statement_deadline())
                self._supervise()
        finally:
            self.supervisor.close()
        self.context.statements.set(self._statement_deadline(is_last=True))
        return self._finish()

    def _prepare(self) -> None:
        # Here, as in the methods below: an idle minute must not pay for these imports.
        from dispatcher.linger import Linger
        from dispatcher.steps import BatchStep, LongLanes, PausedLanes, Prune, ScheduleStep, Totals
        from dispatcher.supervise import Supervisor
        from mayfly.fleet.dispatchers import Dispatcher

        self.supervisor = Supervisor(self.context, self.lock.close)
        self.supervisor.install()
        lingers = self.context.settings.longest_linger > 0
        self.lock.sign(Dispatcher(self.context.process, lingers).as_text())
        self.linger = Linger(self)
        others = (BatchStep(self), LongLanes(self), Prune(self), Totals(self))
        self.steps = [ScheduleStep(self), PausedLanes(self), self.linger, *others]

    def _rescue_and_plan(self) -> None:
        """Jobs of dead runners and of due schedules are pending before anything is counted."""
        from dispatcher.assign import log_plan, plan_first
        from dispatcher.rescue import Rescuer

        context = self.context
        with planning(context.database, context.settings.host_name) as cycle_id:
            self.rescuer = Rescuer(context, cycle_id)
            for step in self.steps:
                step.before_rescue()
            self.rescuer.rescue_lost()
            for step in self.steps:
                step.before_plan()
            self.planned = plan_first(context, cycle_id)
        context.log.say(log_messages.pending_jobs(str(self.planned.counted)))
        log_plan(context, self.planned)
        if not self.planned.assignments and not self.planned.counted.pending:
            context.log.say(log_messages.nothing_pending())

    def _spawn(self, planned: "Planned") -> None:
        from dispatcher.assign import begin_with_interrupted

        if planned.assignments:
            self.context.log.say(log_messages.spawning(len(planned.assignments)))
        self.supervisor.start(begin_with_interrupted(self.context, planned))

    def _supervise(self) -> None:
        """Wait for an event. A slot that becomes free is planned for again, and so is work that was found."""
        ended = self.supervisor.wait(self.linger.seconds_to_poll)
        with self._contained():
            self.supervisor.start_rejected()
        for each in ended:
            self.rescuer.note_exit(each)
            self.linger.note_exit()
        with self._contained():
            self.rescuer.settle_ended()
            if self.supervisor.may_spawn and not self.has_failed and (ended or self.linger.finds_work()):
                self._plan_more(has_free_slot=bool(ended))
        for step in self.steps:
            step.on_tick()

    def _plan_more(self, has_free_slot: bool) -> None:
        from dispatcher.assign import log_plan, plan_more

        broken = self.rescuer.results.broken_lanes
        without = frozenset(broken) if has_free_slot else self.linger.lanes_to_skip(broken)
        sliced, idle = self.rescuer.results.sliced, self.linger.idle_runners()
        more = plan_more(self.context, self.planned.cycle_id, without, idle, sliced)
        if more is not None:
            log_plan(self.context, more, only_started=True)
            self._spawn(more)
            self.linger.note_plan()

    def _statement_deadline(self, is_last: bool = False) -> float:
        """Runners are killed in time whatever the database does; without runners, a lingering dispatcher polls on."""
        ends_at = self.supervisor.deadline
        if not self.supervisor.alive:
            ends_at = max(ends_at, self.context.lingers_until(self.context.settings.longest_linger))
        is_late = is_last or self.supervisor.guard_fired or monotonic() >= ends_at
        return ends_at + LAST_STATEMENTS_SECONDS if is_late else ends_at

    @contextmanager
    def _contained(self) -> Iterator[None]:
        """From the first runner on, no error ends the cycle: runners are supervised until they have exited."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - an error of ours, too, must not cost healthy runners their jobs
            self.has_failed = True
            self.linger.stop()
            self.problems.append(_describe(error))
            self.context.log.say(log_messages.cycle_failed(_describe(error)))

    def _finish(self) -> CycleSummary:
        """Let the steps finish, and write the summary; a database that is gone by now is one more problem."""
        self.tally = self.rescuer.tally
        with self._contained():
            self.rescuer.settle_ended()
            for step in self.steps:
                step.finish()
        summary = CycleSummary(
            cycle_id=self.planned.cycle_id,
            duration_ms=self._duration_ms,
            pending=str(self.planned.counted),
            planned=len(self.planned.assignments),
            ends=self.rescuer.results.ends,
            tally=self.tally,
            rescued=self.rescuer.rescued,
            repeated=self.context.database.repeats + self.rescuer.results.repeats,
            pruned=self.pruned,
            notes=tuple(line for step in self.steps for line in step.summary_lines()),
            problems=tuple(dict.fromkeys(self.problems)),
            guard_fired=self.supervisor.guard_fired,
        )
        self._log_summary(summary)
        self._record(summary)
        return summary

    def _record(self, summary: CycleSummary) -> None:
        database = self.context.database
        try:
            now = database.clock.now()
            database.run(lambda connection: close_cycle(connection, summary.cycle_id, cycle_row(summary), now))
        except MayflyError as error:
            self.context.log.say(log_messages.cycle_failed(str(error)))


def _run_notified(run: Callable[[], CycleSummary], settings: Settings, log: Log, lock: HostLock) -> CycleSummary:
    """With heartbeat, alerts, metrics and traces of the cycle, where they are configured."""
    notifiers = _notifiers(settings, log)
    for each in notifiers:
        each.begin(release_lock=lock.close)
    try:
        try:
            summary = run()
        finally:
            lock.close()
    except Exception as error:
        log.say(log_messages.cycle_failed(_describe(error)))
        for each in notifiers:
            each.end(exits.ERROR, _describe(error))
        raise
    for each in notifiers:
        each.end(summary.exit_code, summary_text(summary, settings.host_name), summary)
    return summary


def _notifiers(settings: Settings, log: Log) -> "list[Notifier]":
    if not settings.is_watched:
        return []
    from dispatcher.notify import Notifier  # here: most installations do without

    return [Notifier(settings, log)]


def _take_over(directory: Path, log: Log) -> HostLock | None:
    """The lock of a dispatcher that lingers."""
    from dispatcher.linger import take_over  # here: the lock is free in most minutes

    lock = take_over(lock_path(directory))
    if lock is not None:
        log.say(log_messages.took_over())
    return lock


def refuse_unknown_lanes(lanes: frozenset[str], settings: Settings, connection: Connection) -> None:
    """A misspelled --lane would be a cycle that does nothing, every minute."""
    if not lanes:
        return
    known = {*find_lanes(connection), *settings.lanes}
    for lane in sorted(lanes - known):
        raise UnknownName("lane", lane, "among the jobs or the settings", known)


def _print_trouble(summary: CycleSummary, settings: Settings, echo: TextIO | None) -> None:
    """On stderr, which cron mails; a terminal has shown the log already."""
    log_name = str(settings.log_dir / LOG_NAME) if settings.log_to == "file" else f"the log ({settings.log_to})"
    paragraph = trouble_paragraph(summary, settings.host_name, log_name)
    if paragraph and echo is None:
        exits.print_error(paragraph)


def _describe(error: Exception) -> str:
    """A MayflyError is complete in its sentence; of other errors, the place matters too."""
    if isinstance(error, MayflyError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return f"{type(error).__name__}: {error}"
    code = trace.tb_frame.f_code
    return f"{type(error).__name__}: {error} (in {code.co_name}, {code.co_filename}:{trace.tb_lineno})"


def _create_missing(url: str) -> None:
    path = embedded_file(url)
    if path is not None and not (path.exists() and path.stat().st_size):
        from mayfly.bootstrap import create_embedded  # here: only the first cycle of a new SQLite file needs it

        create_embedded(url)


def _url(settings: Settings) -> str:
    return settings.database_url.get_secret_value()
