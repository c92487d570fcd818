"""The optional steps of a cycle: schedules, pauses, batches, long lanes, totals, pruning.

The cycle calls each of them at named points and does not know what they do. Lingering is one more, in linger.py.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.clock import host_now, monotonic
from mayfly.db.connection import Connection
from mayfly.fleet.runners import LiveRunner, live_runners
from mayfly.process.state_dir import page_path
from mayfly.process.status_page import read_status_page
from mayfly.process.timing import timing
from mayfly.queue.batches import complete_all, completed_since
from mayfly.queue.options import JobValidator
from mayfly.queue.prune import keep_from, prune
from mayfly.schedules.next_due import are_settled, clear_next_due, file_signatures, schedule_files, write_next_due
from mayfly.stats.history import count_cycles
from mayfly.stats.totals import add_up_strays, add_up_totals

if TYPE_CHECKING:
    from dispatcher.cycle import Cycle


class CycleStep:
    """A part of a cycle that overrides the points at which it has something to do."""

    def __init__(self, cycle: "Cycle") -> None:
        self.cycle = cycle
        self.context = cycle.context

    def before_rescue(self) -> None:
        """The planning lock is held; dead runners have not been searched yet."""

    def before_plan(self) -> None:
        """The planning lock is held; jobs that become pending here are counted."""

    def after_spawn(self) -> None:
        """The first runners have been started."""

    def on_tick(self) -> None:
        """After each round of supervising."""

    def finish(self) -> None:
        """All runners have exited; the summary is not written yet."""

    def summary_lines(self) -> list[str]:
        return []


class ScheduleStep(CycleStep):
    """Fire due schedules, and note for idle cycles when the next one is due."""

    fired = 0
    skipped = 0

    def before_plan(self) -> None:
        """An installation without schedule files pays for one directory listing."""
        settings, log = self.context.settings, self.context.log
        files = schedule_files(settings)
        if not files:
            return
        signatures, settled = file_signatures(files), are_settled(files, host_now())
        from mayfly.schedules.files import read_schedules  # here: most installations do without cronsim
        from mayfly.schedules.fire import Fired, fire_due

        schedules = read_schedules(files, settings.home, settings.payload_limit)
        validator = JobValidator.from_settings(settings, self.context.database.clock.now)
        fired = fire_due(self.context.database, schedules.entries, validator) if schedules.entries else Fired()
        if fired.jobs:
            log.say(log_messages.schedules_fired([entry.name for entry, _ in fired.jobs]))
        for each in fired.skipped:
            log.say(log_messages.schedule_skipped(each.entry.name, each.first, each.last, each.because))
        for problem in schedules.problems:
            log.say(log_messages.schedule_refused(str(problem)))
        self._note_next(signatures, fired.next_at, is_certain=settled and not schedules.problems)
        self.fired, self.skipped = len(fired.jobs), len(fired.skipped)
        self.cycle.problems += map(str, schedules.problems)

    def summary_lines(self) -> list[str]:
        has_figures = self.fired or self.skipped
        return [f"Schedules fired: {self.fired}, left out: {self.skipped}"] if has_figures else []

    def _note_next(self, signatures: str, next_at: datetime | None, is_certain: bool) -> None:
        """If the note cannot be written, the next cycle reads the schedule files again, and nothing else happens."""
        with suppress(OSError):
            if is_certain:
                write_next_due(self.context.directory, signatures, next_at)
            else:
                clear_next_due(self.context.directory)


class PausedLanes(CycleStep):
    def summary_lines(self) -> list[str]:
        paused = self.cycle.planned.plan.paused
        return [f"Paused lanes: {', '.join(paused)}"] if paused else []


class BatchStep(CycleStep):
    """Complete batches whose last runner died after it settled their last job."""

    completed = 0

    def before_plan(self) -> None:
        for each in complete_all(self.context.database):
            self.context.log.say(log_messages.batch_finished(*each))

    def finish(self) -> None:
        """Count the batches completed since the cycle began, by any process."""
        database = self.context.database
        began_at = database.clock.now() - timedelta(seconds=monotonic() - self.context.started)
        self.completed = database.read(lambda connection: completed_since(connection, began_at))

    def summary_lines(self) -> list[str]:
        return [f"Batches completed: {self.completed}"] if self.completed else []


class LongLanes(CycleStep):
    """Runners of long lanes outlive their dispatcher: a later cycle ends those that are overdue."""

    def before_rescue(self) -> None:
        """Their own guards have failed: the deadline on their status page has passed."""
        settings = self.context.settings
        if not any(settings.lane(each).is_long for each in settings.lanes):
            return
        for runner in self.context.database.run(live_runners):
            if self._is_overdue(runner):
                self.context.log.say(log_messages.worker_overdue(runner.worker_id))
                runner.process.end()

    def summary_lines(self) -> list[str]:
        left = len(self.cycle.supervisor.left_running)
        return [f"Left running: {left}"] if left else []

    def _is_overdue(self, runner: LiveRunner) -> bool:
        is_ours = runner.host == self.context.host and runner.has_started
        if not is_ours or not self.context.settings.lane(runner.lane).is_long:
            return False
        status = read_status_page(page_path(self.context.directory, runner.worker_id))
        return status is not None and 0 < status.hard_deadline < monotonic() - timing().overdue_seconds


class Prune(CycleStep):
    """Delete old rows. Counters that only grow are updated from them before."""

    def finish(self) -> None:
        self.context.database.run(self._carry_over)
        self.cycle.pruned = self._prune()

    def _carry_over(self, connection: Connection) -> None:
        now = self.context.database.clock.now()
        add_up_strays(connection, now)
        count_cycles(connection, now, self.context.settings.keep_cycles_days)

    def _prune(self) -> int:
        """By the database's clock as it is now; not if it was just set, because it may be wrong."""
        database, log = self.context.database, self.context.log
        if step := database.clock.wall_clock_step():
            log.say(log_messages.wall_clock_set(step))
        if step := database.refresh_clock():
            log.say(log_messages.prune_skipped(step))
            return 0
        pruned = prune(database, keep_from(self.context.settings))
        if pruned:
            log.say(log_messages.pruned(pruned))
        return pruned


class Totals(CycleStep):
    """Add up what the cycle's runners have counted."""

    def finish(self) -> None:
        cycle_id = self.cycle.planned.cycle_id
        self.cycle.tally = self.context.database.run(lambda connection: add_up_totals(connection, cycle_id))
