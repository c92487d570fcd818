"""What is left of dead runners: their jobs are settled or given back, their rows closed, their pages removed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import SIGKILL

from dispatcher.context import CycleContext
from dispatcher.exits import (
    DISAPPEARED,
    OUTSIDE_LATE,
    Ending,
    Exit,
    KilledFor,
    ending_of,
    judge,
    judge_lost,
    reason_of,
)
from dispatcher.spawn import EndedChild
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.fleet.dispatchers import cycles_seen_to
from mayfly.fleet.runners import EndedRunner, LiveRunner, close_runner, is_outside, live_runners, was_lost
from mayfly.job import Job
from mayfly.process import exits
from mayfly.process.state_dir import page_path, pages_in
from mayfly.process.status_page import RunnerStatus, read_status_page
from mayfly.process.timing import timing
from mayfly.queue.batches import complete_all
from mayfly.queue.count import find_lanes
from mayfly.queue.outcome import Outcome, OutcomeKind, Settler
from mayfly.queue.rescue import Judge, Rescued, close_lost, dead_runners, expired_jobs, rescue_jobs, rescue_runner
from mayfly.queue.settle import followup_events
from mayfly.stats.histograms import Tally


@dataclass
class Rescuer:
    """Cleans up after runners of one cycle. Its totals are counted under its own name."""

    world: CycleContext
    cycle_id: int
    tally: Tally = field(default_factory=dict)
    rescued: int = 0

    def of_lost_runners(self) -> None:
        """Runners of earlier cycles or other hosts that ended unseen."""
        pages = pages_in(self.world.directory)  # before the rows: a runner's row is written before its page
        self._end_overdue()
        seen_to = cycles_seen_to(self.world.directory)  # before the rows, too
        for runner in dead_runners(self.world.database, self.world.place):
            path = page_path(self.world.directory, runner.worker_id)
            is_here = runner.place == self.world.place
            if is_here and runner.cycle_id in seen_to:
                continue  # its dispatcher has handed over to us, and is about to bury it
            if is_here and runner.has_started:
                runner.process.end_group()  # a killed dispatcher could not
            self._rescue_lost(runner, read_status_page(path) if is_here else None)
        self._rescue_expired()
        if pages:
            self._remove_unless_live(pages)

    def of_batches(self) -> None:
        """Whoever settled the last job of one may have died before he looked."""
        for each in complete_all(self.world.database):
            self.world.log.say(log_messages.batch_finished(*each))

    def _end_overdue(self) -> None:
        """Runners of long lanes whose own guards have failed: their page says by when they had to end."""
        if not any(self.world.settings.lane(each).is_long for each in self.world.settings.lanes):
            return
        for runner in self.world.database.run(live_runners):
            if runner.place != self.world.place or not runner.has_started or not self._is_long(runner):
                continue
            seen = read_status_page(page_path(self.world.directory, runner.worker_id))
            if seen is not None and 0 < seen.hard_deadline < monotonic() - timing().overdue_seconds:
                self.world.log.say(log_messages.worker_overdue(runner.worker_id))
                runner.process.end()

    def _is_long(self, runner: LiveRunner) -> bool:
        return self.world.settings.lane(runner.lane).is_long

    def of_ended(self, ended: EndedChild) -> None:
        """A runner of ours that has just ended."""
        assignment, exit_ = ended.assignment, ended.exit
        rescued = rescue_runner(
            self.world.database,
            self._settler(assignment.worker_id),
            assignment.lane,
            self._aloud(lambda job, _held: judge(job, exit_, assignment.window_seconds, self.world.chances())),
            self.tally,
        )
        self._note(rescued)
        # Not before its jobs are settled: where the database is gone, the next cycle reads who was running.
        page_path(self.world.directory, assignment.worker_id).unlink(missing_ok=True)
        self._close(ended)

    def _rescue_lost(self, runner: LiveRunner, seen: RunnerStatus | None) -> None:
        rescued = rescue_runner(
            self.world.database,
            self._settler(runner.worker_id),
            runner.lane,
            self._aloud(lambda job, held: self._judge_lost(runner, job, held, seen)),
            self.tally,
        )
        self._note(rescued)
        close_lost(self.world.database, runner.worker_id, seen)
        self.world.log.say(log_messages.runner_lost(runner.worker_id, runner.lane, len(rescued.settlements)))

    def _judge_lost(
        self, runner: LiveRunner, job: Job, held: int, seen: RunnerStatus | None
    ) -> tuple[Outcome, int | None]:
        """Nobody sees a runner of a long lane end. One whose last deadline is over has run into it."""
        if seen is not None and seen.too_large:
            exit_ = Exit(-SIGKILL, seen, monotonic(), peak_memory=seen.too_large, killed_for=KilledFor.MEMORY)
            return judge(job, exit_, self.world.settings.lane(runner.lane).worker_timeout, self.world.chances())
        if seen is not None and self._is_long(runner) and 0 < seen.hard_deadline <= monotonic():
            exit_ = Exit(exits.ERROR, seen, ended=seen.hard_deadline, killed_for=KilledFor.TIME)
            return judge(job, exit_, self.world.settings.lane(runner.lane).worker_timeout, self.world.chances())
        return judge_lost(job, held, seen, self.world.chances())

    def _rescue_expired(self) -> None:
        """Leases that ran out without a runner's row to tell of it: of outside workers, who have none, and the net
        below the net. Those that the same owner holds for longer stay his."""
        database = self.world.database
        now = database.clock.now()
        lanes = database.read(lambda connection: find_lanes(connection))
        expired = database.read(lambda connection: expired_jobs(connection, lanes, now))
        for (lane, worker_id), jobs in expired.items():
            reason = OUTSIDE_LATE if is_outside(worker_id) else DISAPPEARED
            rescued = rescue_jobs(
                database,
                self._settler(worker_id),
                lane,
                jobs,
                self._aloud(partial(self._judge_expired, reason=reason)),
                self.tally,
            )
            self._note(rescued)
            self.world.log.say(log_messages.runner_lost(worker_id, lane, len(rescued.settlements)))

    def _judge_expired(self, job: Job, held: int, reason: str) -> tuple[Outcome, int | None]:
        return judge_lost(job, held, None, self.world.chances(), reason)

    def _remove_unless_live(self, pages: Sequence[Path]) -> None:
        """Also of runners that another host has rescued: it could not reach their pages."""
        live = self.world.database.run(live_runners)
        kept = {page_path(self.world.directory, each.worker_id) for each in live}
        for page in pages:
            if page not in kept:
                page.unlink(missing_ok=True)

    def _note(self, rescued: Rescued) -> None:
        self.tally = rescued.tally
        self.rescued += len(rescued.settlements)
        for each in rescued.settlements:
            if each.outcome.kind is not OutcomeKind.RELEASED:
                self.world.log.say(_told(each.job, each.outcome))
        for event in followup_events(rescued.settled) if rescued.settled else ():
            self.world.log.say(event)

    def _close(self, ended: EndedChild) -> None:
        seen, exit_ = ended.exit.seen, ended.exit
        jobs = seen.done + seen.failed
        row = EndedRunner(
            ending=ending_of(exit_),
            exit_code=exit_.code if exit_.code >= 0 else None,
            signal=exit_.signal,
            jobs_done=seen.done,
            jobs_failed=seen.failed,
            average_ms=seen.busy_ms / jobs if jobs else None,
            peak_memory=exit_.peak_memory,
            cpu_ms=ended.cpu_ms,
        )
        database, worker_id = self.world.database, ended.assignment.worker_id
        now = database.clock.now()
        closed = database.run(lambda connection: close_runner(connection, worker_id, row, now))
        if not closed and database.run(lambda connection: was_lost(connection, worker_id)):
            self.world.log.say(log_messages.worker_lost_lease(worker_id))

    def _aloud(self, judge: Judge) -> Judge:
        """With HOOKS_ON_DEAD, deaths are announced before they are written, as in a runner."""
        if not self.world.settings.hooks_on_dead:
            return judge
        from mayfly.monitoring.on_dead import announcer, announcing  # most installations do without

        return announcing(judge, announcer(self.world.settings, self.world.database))

    def _settler(self, worker_id: str) -> Settler:
        return Settler(worker_id, self.cycle_id, counted_as=f"dispatcher-{self.cycle_id}")


def tell_ending(world: CycleContext, ended: EndedChild) -> None:
    worker_id, exit_ = ended.assignment.worker_id, ended.exit
    match ending_of(exit_):
        case Ending.OK:
            world.log.say(log_messages.worker_completed(worker_id, ended.lived_ms))
        case Ending.TIMEOUT:
            world.log.say(log_messages.worker_timed_out(worker_id, ended.lived_ms))
        case Ending.CRASH:
            world.log.say(log_messages.worker_crashed(worker_id, reason_of(exit_), ended.lived_ms))
        case Ending.ERROR:
            world.log.say(log_messages.worker_failed(worker_id, exit_.code, ended.lived_ms))


def _told(job: Job, outcome: Outcome) -> log_messages.LogMessage:
    reason = (outcome.error or "").partition("\n")[0]
    return log_messages.job_rescued(job.id, job.type, outcome.kind.value, reason)
