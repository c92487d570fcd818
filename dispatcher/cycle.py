"""One cycle: the host lock, the first connection, the idle check, and a full cycle if there is anything to do.

Most cycles end after the idle check, so this module imports little. Modules that only a cycle with work needs are
imported with `dispatcher.full_cycle`.
"""

import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

from dispatcher.context import CycleContext, HostLock, take_lock
from dispatcher.idle import reasons
from dispatcher.summary import CycleSummary, cycle_row, failure_text, summary_lines, summary_text
from mayfly import log_messages
from mayfly.clock import host_now
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import MayflyError, UnknownName
from mayfly.fleet.cycles import clear_unrecorded, close_cycle, note_unrecorded, open_cycle
from mayfly.fleet.plan_lock import number_idle_cycle
from mayfly.log import LOG_NAME, Log, open_log
from mayfly.process import exits
from mayfly.process.state_dir import lock_path, open_state_dir
from mayfly.queue.count import find_lanes
from mayfly.schema import create_embedded
from mayfly.schema.tables import require_version
from mayfly.settings import Settings

if TYPE_CHECKING:
    from dispatcher.notify import Notifier


def run_cycle(
    settings: Settings, warnings: Sequence[str], started: float, only_lanes: frozenset[str] = frozenset()
) -> int:
    """Run one cycle; returns its exit code. On a terminal it shows the log; under cron only a failed cycle prints."""
    echo = sys.stderr if sys.stderr is not None and sys.stderr.isatty() and settings.log_to != "stdout" else None
    log = open_log(settings, "DISPATCHER", echo)
    log.write(log_messages.cycle_started(host_now(), settings.host_name))
    for warning in warnings:
        log.write(log_messages.setting_warning(warning))
    directory = open_state_dir(settings)
    lock = take_lock(lock_path(directory))
    if lock is None:
        from dispatcher.linger import take_over  # here: usually the lock is free

        lock = take_over(lock_path(directory), log)
    if lock is None:
        log.write(log_messages.cycle_skipped())
        return exits.SUCCESS
    notifier = _notifier(settings, log, lock)
    try:
        with closing(lock):
            database = Database(settings.database_url.get_secret_value())
            with closing(CycleContext(settings, database, log, directory, started, only_lanes)) as context:
                summary = run_locked(context, lock)
    except Exception as error:
        log.write(log_messages.cycle_failed(describe(error)))
        if not isinstance(error, UnknownName):  # a misspelled --lane is not a problem of this host
            note_unrecorded(directory, host_now(), describe(error))
        if notifier is not None:
            notifier.end(exits.ERROR, describe(error))
        raise
    if notifier is not None:
        notifier.end(summary.exit_code, summary_text(summary, settings.host_name), summary)
    log_name = str(settings.log_dir / LOG_NAME) if settings.log_to == "file" else f"the log ({settings.log_to})"
    text = failure_text(summary, settings.host_name, log_name)
    if text and echo is None:  # otherwise the terminal has shown the log already
        exits.print_error(text)
    return summary.exit_code


def run_locked(context: CycleContext, lock: HostLock) -> CycleSummary:
    context.database.set_deadline(context.started + context.settings.dispatch_timeout)
    create_embedded(context.settings.database_url.get_secret_value())
    verify_database(context)
    now = context.database.clock.now()
    is_busy = context.database.read(
        lambda connection: any(reasons(connection, context.settings, context.directory, now))
    )
    idle = None if is_busy else _record_idle(context, now)
    if idle is not None:
        return idle
    from dispatcher.full_cycle import FullCycle  # here: its imports take longer than an idle cycle

    return FullCycle(context, lock).run()


def verify_database(context: CycleContext) -> None:
    """On the first connection: check the version of the server and of the tables, and the lanes."""

    def verify(connection: Connection) -> str:
        connection.dialect.require_skip_locked(connection.raw)
        require_version(connection)
        refuse_unknown_lanes(context, connection)
        return str(connection.dialect.server(connection.raw))

    context.log.write(log_messages.database_verified(context.database.read(verify)))
    if context.database.clock.is_skewed:
        context.log.write(log_messages.clock_skewed(context.database.clock.offset))


def refuse_unknown_lanes(context: CycleContext, connection: Connection) -> None:
    """With a misspelled --lane, every cycle would do nothing."""
    if not context.only_lanes:
        return
    known = {*find_lanes(connection), *context.settings.lanes, *context.settings.lanes_of_sources}
    for lane in sorted(context.only_lanes - known):
        raise UnknownName("lane", lane, "among the jobs or the settings", known)


def _record_idle(context: CycleContext, now: datetime) -> CycleSummary | None:
    """The end of most cycles: a row and a summary. Writes nothing and returns None if another host plans."""
    database = context.database

    def record(connection: Connection) -> CycleSummary | None:
        cycle_id = number_idle_cycle(connection, now)
        if cycle_id is None:
            return None
        summary = CycleSummary(cycle_id, context.duration_ms)
        open_cycle(connection, cycle_id, context.settings.host_name, now)
        close_cycle(connection, cycle_id, cycle_row(summary), database.clock.now())
        return summary

    summary = database.run(record)
    if summary is not None:
        clear_unrecorded(context.directory)
        context.log.write(log_messages.pending_jobs(summary.pending_text))
        context.log.write(log_messages.nothing_pending())
        log_summary(context, summary)
    return summary


def log_summary(context: CycleContext, summary: CycleSummary) -> None:
    for line in summary_lines(summary):
        context.log.write(log_messages.summary(line))


def _notifier(settings: Settings, log: Log, lock: HostLock) -> "Notifier | None":
    if not settings.is_watched:
        return None
    from dispatcher.notify import Notifier  # here: most installations do not need it

    return Notifier(settings, log, release_lock=lock.close)


def describe(error: Exception) -> str:
    """The text of a MayflyError is enough; other errors also need their location."""
    if isinstance(error, MayflyError):
        return str(error)
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f" (in {code.co_name}, {code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{place}"
