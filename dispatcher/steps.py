"""The optional steps of a cycle: schedules, unstarted jobs, figures of runners, batches; and pruning. See also
dispatcher/linger.py and dispatcher/launch.py.

The cycle calls each of them at named points and does not depend on what they do, except for lingering, launchers
and unstarted jobs.
"""

from contextlib import suppress
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from dispatcher.assign import count_work, has_window, make_plan
from dispatcher.context import CycleContext
from dispatcher.spawn import RunnerProcess
from mayfly import log_messages
from mayfly.clock import host_now, monotonic
from mayfly.db.connection import Connection
from mayfly.errors import MayflyError
from mayfly.fleet.runners import FiguresWriter
from mayfly.process import timing
from mayfly.process.fork import RECLAIM
from mayfly.process.status_page import RunningJob
from mayfly.queue.batches import complete_all, completed_since
from mayfly.queue.options import JobValidator
from mayfly.queue.prune import prune
from mayfly.queue.rescue import held_jobs
from mayfly.schedules.next_due import are_settled, clear_next_due, file_signatures, schedule_files, write_next_due
from mayfly.stats.history import count_cycles
from mayfly.stats.totals import add_up_strays

if TYPE_CHECKING:
    from dispatcher.full_cycle import FullCycle

MAX_CHECK_SECONDS = 1.0  # for the statements that check runners with slow jobs


class CycleStep:
    """A part of a cycle; overrides the methods that it needs."""

    def __init__(self, cycle: "FullCycle") -> None:
        self.cycle = cycle
        self.context = cycle.context

    def before_plan(self) -> None:
        """The planning lock is held; jobs that become due here are counted."""

    def after_spawn(self) -> None:
        """The first runners have been started."""

    def on_tick(self) -> None:
        """Called after each round of supervision."""

    def finish(self) -> None:
        """All runners have exited; the summary is not written yet."""

    def summary_lines(self) -> list[str]:
        return []


class ScheduleStep(CycleStep):
    """Fire due schedules, and record for idle cycles when the next one is due."""

    fired = 0
    skipped = 0

    def before_plan(self) -> None:
        """Without schedule files this costs one directory listing."""
        settings, database, log = self.context.settings, self.context.database, self.context.log
        paths = schedule_files(settings)
        if not paths:
            return
        signatures, settled = file_signatures(paths), are_settled(paths, host_now())
        from mayfly.schedules import files, fire  # here: most installations do not need cronsim

        schedules = files.read_schedules(paths, settings.home, settings.payload_limit)
        validator = JobValidator.from_settings(settings, database.clock.now)
        fired = fire.fire_due(database, schedules.entries, validator) if schedules.entries else fire.Fired()
        if fired.jobs:
            log.write(log_messages.schedules_fired([entry.name for entry, _ in fired.jobs]))
        for each in fired.skipped:
            log.write(log_messages.schedule_skipped(each.entry.name, each.first, each.last, each.because))
        for problem in schedules.problems:
            log.write(log_messages.schedule_refused(str(problem)))
        with suppress(OSError):  # without this file, the next cycle reads the schedules again
            if settled and not schedules.problems:
                write_next_due(self.context.directory, signatures, fired.next_at)
            else:
                clear_next_due(self.context.directory)
        self.fired, self.skipped = len(fired.jobs), len(fired.skipped)
        self.cycle.problems += map(str, schedules.problems)

    def summary_lines(self) -> list[str]:
        has_figures = self.fired or self.skipped
        return [f"Schedules fired: {self.fired}, skipped: {self.skipped}"] if has_figures else []


class FiguresStep(CycleStep):
    """Write what the runners do into their rows. A cycle of less than two seconds writes nothing."""

    def __init__(self, cycle: "FullCycle") -> None:
        super().__init__(cycle)
        self._writer = FiguresWriter(self.context.database, self.context.log)

    def on_tick(self) -> None:
        if monotonic() >= self._writer.due_at and (runners := self.cycle.supervisor.observed):
            self._writer.write(runners)


class ReclaimStep(CycleStep):
    """Release jobs that wait behind a slow one of the same claim, if another runner could run them.

    On a signal their runner drops them and acknowledges that; without an acknowledgement nothing is released.
    """

    def __init__(self, cycle: "FullCycle") -> None:
        super().__init__(cycle)
        self._released = 0
        self._checks: dict[str, tuple[RunningJob, float]] = {}  # by worker_id: a slow job, and when to check again

    def release_dropped(self) -> bool:
        """Whether any runner has dropped jobs."""
        found = self.cycle.supervisor.dropped_jobs()
        for runner, dropped in found:
            worker_id = runner.assignment.worker_id
            released = self.cycle.rescuer.release_dropped(worker_id, runner.lane, frozenset(dropped))
            runner.released += len(dropped)
            self._released += released
            self.context.log.write(log_messages.unstarted_released(runner.assignment.worker_id, released))
        return bool(found)

    def on_tick(self) -> None:
        """Each check is short, and skipped if the database fails: the jobs are not in danger where they are."""
        supervisor, now = self.cycle.supervisor, monotonic()
        if self.cycle.has_failed or not (supervisor.may_spawn or supervisor.has_handed_over):
            return
        due = [each for each in supervisor.slow_runners() if self._is_due(*each, now)]
        if due:
            with suppress(MayflyError), self.context.database.bounded(MAX_CHECK_SECONDS):
                for runner, job in due:
                    self._check(runner, job)

    def _is_due(self, runner: RunnerProcess, job: RunningJob, now: float) -> bool:
        known, check_at = self._checks.get(runner.assignment.worker_id, (None, 0.0))
        return known != job or now >= check_at

    def _check(self, runner: RunnerProcess, job: RunningJob) -> None:
        """Request the unstarted jobs of this runner, once while it runs this job."""
        worker_id, lane = runner.assignment.worker_id, runner.lane
        self._checks[worker_id] = job, monotonic() + timing().slow_job_seconds
        held = self.context.database.read(lambda connection: held_jobs(connection, lane, worker_id))
        status = runner.page.read()
        unstarted = sum(status.running_job(each.id) is None for each in held)
        if unstarted and not self._has_room(lane, unstarted):
            return
        self._checks[worker_id] = job, inf
        if unstarted:
            seconds = monotonic() - job.started
            self.context.log.write(log_messages.unstarted_requested(worker_id, lane, job.job_id, seconds, unstarted))
            runner.send_signal(RECLAIM)

    def _has_room(self, lane: str, jobs: int) -> bool:
        """Whether another runner could run them: an idle one, or one more by the rules of every plan."""
        if self.cycle.supervisor.has_handed_over:
            return True  # the next dispatcher plans, and this runner will not start them
        if self.cycle.supervisor.idle_by_lane()[lane]:
            return True
        counted = count_work(self.context).plus({lane: jobs})
        plan = make_plan(self.context, counted, self.cycle.conditions())
        return has_window(self.context) and any(each.planned for each in plan.lanes if each.count.lane.name == lane)

    def summary_lines(self) -> list[str]:
        return [f"Unstarted jobs released: {self._released}"] if self._released else []


class SourceStep(CycleStep):
    """Report sources that cannot be used. Their rows are counted with the jobs of their lanes."""

    def finish(self) -> None:
        self.cycle.problems += self.context.source_problems.values()


class BatchStep(CycleStep):
    """Complete batches whose last job was settled by a runner that died before its check."""

    completed = 0

    def before_plan(self) -> None:
        for each in complete_all(self.context.database):
            self.context.log.write(log_messages.batch_finished(*each))

    def finish(self) -> None:
        """Count the batches completed since the cycle began, by any process."""
        database = self.context.database
        began_at = database.clock.now() - timedelta(seconds=monotonic() - self.context.started)
        self.completed = database.read(lambda connection: completed_since(connection, began_at))

    def summary_lines(self) -> list[str]:
        return [f"Batches completed: {self.completed}"] if self.completed else []


def prune_old_rows(context: CycleContext) -> int:
    """Delete old rows; returns their number. They are added to the long-term counters before."""
    database, settings = context.database, context.settings

    def carry_over(connection: Connection) -> None:
        now = database.clock.now()
        add_up_strays(connection, now)
        count_cycles(connection, now)

    database.run(carry_over)
    if step := database.clock.wall_clock_step():
        context.log.write(log_messages.wall_clock_set(step))
    if step := database.refresh_clock():  # do not prune by a clock that was just set: it may be wrong
        context.log.write(log_messages.prune_skipped(step))
        return 0
    pruned = prune(database, settings)
    if pruned:
        context.log.write(log_messages.pruned(pruned))
    return pruned
