"""Clean up after dead runners: settle or release their jobs, close their rows, remove their status pages."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import SIGKILL

from dispatcher.context import CycleContext
from dispatcher.exits import LONG_RUNNER_GONE, OUTSIDE_LATE, Exit, KilledFor, judge, judge_lost
from dispatcher.spawn import ExitedRunner
from dispatcher.summary import Ending, RunnerEnd
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.fleet.dispatchers import cycles_still_supervised
from mayfly.fleet.runners import EndedRunner, LiveRunner, close_runner, is_outside, live_runners, was_lost
from mayfly.job import Job
from mayfly.process import exits
from mayfly.process.state_dir import page_path, pages_in
from mayfly.process.status_page import RunnerStatus, read_status_page
from mayfly.queue.count import find_lanes
from mayfly.queue.outcome import Outcome, OutcomeKind, Settler
from mayfly.queue.policy import Backoff, RetryContext
from mayfly.queue.rescue import Judge, Rescued, close_lost, dead_runners, expired_jobs, rescue_jobs, rescue_runner
from mayfly.stats.histograms import Tally


@dataclass
class RunnerResults:
    """How the runners of this cycle have ended so far."""

    ends: list[RunnerEnd] = field(default_factory=list)
    broken_lanes: set[str] = field(default_factory=set)  # a runner could not work there: no other one in this cycle
    sliced: dict[str, int] = field(default_factory=dict)  # by lane: jobs that go on in the next cycle
    repeats: int = 0  # transactions that runners had to run again

    def add(self, ended: ExitedRunner) -> None:
        lane, exit_ = ended.assignment.lane, ended.exit
        self.ends.append(RunnerEnd(lane, exit_.ending, ended.lived_ms))
        self.sliced[lane] = max(self.sliced.get(lane, 0), exit_.status.sliced)
        self.repeats += exit_.status.repeats
        if exit_.breaks_lane:
            self.broken_lanes.add(lane)


@dataclass
class Rescuer:
    """Its outcomes are counted under a name of its own, as a runner's are."""

    context: CycleContext
    cycle_id: int
    results: RunnerResults = field(default_factory=RunnerResults)
    unsettled: list[ExitedRunner] = field(default_factory=list)
    tally: Tally = field(default_factory=dict)
    rescued: int = 0

    def rescue_lost(self) -> None:
        """Runners of earlier cycles or other hosts whose exit no dispatcher saw."""
        directory, host = self.context.directory, self.context.host
        # Both are read before the rows: a runner's row is written before its page.
        pages = pages_in(directory)
        still_supervised = cycles_still_supervised(directory)
        for runner in dead_runners(self.context.database, host):
            is_here = runner.host == host
            if is_here and runner.cycle_id in still_supervised:
                continue  # its dispatcher has handed over to us, and is about to settle its jobs
            if is_here and runner.has_started:
                runner.process.end_group()  # its dispatcher was killed before it could
            self._rescue(runner, read_status_page(page_path(directory, runner.worker_id)) if is_here else None)
        self._rescue_expired()
        if pages:
            self._remove_unless_live(pages)

    def note_exit(self, ended: ExitedRunner) -> None:
        """A runner of this cycle has exited. Its jobs are settled by `settle_ended`."""
        self.context.log.say(_exit_message(ended))
        self.results.add(ended)
        self.unsettled.append(ended)

    def settle_ended(self) -> None:
        """Settle the jobs of exited runners; what cannot be written now is tried again at the next call."""
        while self.unsettled:
            self._settle(self.unsettled[0])
            del self.unsettled[0]

    def _settle(self, ended: ExitedRunner) -> None:
        assignment, exit_ = ended.assignment, ended.exit
        rescued = rescue_runner(
            self.context.database,
            self._settler(assignment.worker_id),
            assignment.lane,
            self._with_death_hooks(
                lambda job, _held: judge(job, exit_, assignment.window_seconds, self._retry_context())
            ),
            self.tally,
        )
        self._note(rescued)
        # Not before its jobs are settled: if the database is gone, the next cycle reads the running jobs from it.
        page_path(self.context.directory, assignment.worker_id).unlink(missing_ok=True)
        self._close(ended)

    def _rescue(self, runner: LiveRunner, status: RunnerStatus | None) -> None:
        rescued = rescue_runner(
            self.context.database,
            self._settler(runner.worker_id),
            runner.lane,
            self._with_death_hooks(lambda job, held: self._judge_lost(runner, job, held, status)),
            self.tally,
        )
        self._note(rescued)
        close_lost(self.context.database, runner.worker_id, status)
        self.context.log.say(log_messages.runner_lost(runner.worker_id, runner.lane, len(rescued.settlements)))

    def _judge_lost(
        self, runner: LiveRunner, job: Job, held: int, status: RunnerStatus | None
    ) -> tuple[Outcome, int | None]:
        """A runner of a long lane may exit unseen. If its last deadline has passed, it timed out."""
        lane = self.context.settings.lane(runner.lane)
        if status is not None and status.too_large:
            exit_ = Exit(-SIGKILL, status, monotonic(), peak_memory=status.too_large, killed_for=KilledFor.MEMORY)
            return judge(job, exit_, lane.worker_timeout, self._retry_context())
        if status is not None and lane.is_long and 0 < status.hard_deadline <= monotonic():
            exit_ = Exit(exits.ERROR, status, ended=status.hard_deadline, killed_for=KilledFor.TIME)
            return judge(job, exit_, lane.worker_timeout, self._retry_context())
        # A runner of a long lane outlives its dispatcher: on a host that still runs, only a crash can have ended it.
        crash = LONG_RUNNER_GONE if lane.is_long and runner.host == self.context.host else None
        return judge_lost(job, held, status, self._retry_context(), crash)

    def _rescue_expired(self) -> None:
        """Jobs with an expired lease and no runner row (external workers), as a last resort."""
        database = self.context.database
        now = database.clock.now()
        lanes = database.read(find_lanes)
        expired = database.read(lambda connection: expired_jobs(connection, lanes, now))
        for (lane, worker_id), jobs in expired.items():
            crash = OUTSIDE_LATE if is_outside(worker_id) else None
            rescued = rescue_jobs(
                database,
                self._settler(worker_id),
                lane,
                jobs,
                self._with_death_hooks(partial(self._judge_expired, crash=crash)),
                self.tally,
            )
            self._note(rescued)
            self.context.log.say(log_messages.runner_lost(worker_id, lane, len(rescued.settlements)))

    def _judge_expired(self, job: Job, held: int, crash: str | None) -> tuple[Outcome, int | None]:
        return judge_lost(job, held, None, self._retry_context(), crash)

    def _remove_unless_live(self, pages: Sequence[Path]) -> None:
        """Includes pages of runners that another host has rescued: it could not reach them."""
        live = self.context.database.run(live_runners)
        kept = {page_path(self.context.directory, each.worker_id) for each in live}
        for page in pages:
            if page not in kept:
                page.unlink(missing_ok=True)

    def _note(self, rescued: Rescued) -> None:
        self.tally = rescued.tally
        self.rescued += len(rescued.settlements)
        for each in rescued.settlements:
            if each.outcome.kind is not OutcomeKind.RELEASED:
                self.context.log.say(_settled_message(each.job, each.outcome))
        for event in rescued.settled.events if rescued.settled else ():
            self.context.log.say(event)

    def _close(self, ended: ExitedRunner) -> None:
        status, exit_ = ended.exit.status, ended.exit
        jobs = status.done + status.failed
        row = EndedRunner(
            ending=exit_.ending,
            exit_code=exit_.code if exit_.code >= 0 else None,
            signal=exit_.signal,
            jobs_done=status.done,
            jobs_failed=status.failed,
            average_ms=status.busy_ms / jobs if jobs else None,
            peak_memory=exit_.peak_memory,
            cpu_ms=ended.cpu_ms,
        )
        database, worker_id = self.context.database, ended.assignment.worker_id
        now = database.clock.now()
        closed = database.run(lambda connection: close_runner(connection, worker_id, row, now))
        if not closed and database.run(lambda connection: was_lost(connection, worker_id)):
            self.context.log.say(log_messages.worker_lost_lease(worker_id))

    def _retry_context(self) -> RetryContext:
        """With the default backoff: a handler's own is unknown here, because handlers are never imported."""
        settings = self.context.settings
        backoff = Backoff(settings.backoff_base, settings.backoff_cap)
        return RetryContext(self.context.database.clock.now(), backoff, random.random())  # noqa: S311 - jitter

    def _with_death_hooks(self, judge: Judge) -> Judge:
        """With HOOKS_ON_DEAD, the hooks run before a dead job is written, as in a runner."""
        if not self.context.settings.hooks_on_dead:
            return judge
        from mayfly.monitoring.hooks import announcer, announcing  # here: most installations do without

        return announcing(judge, announcer(self.context.settings, self.context.database))

    def _settler(self, worker_id: str) -> Settler:
        return Settler(worker_id, self.cycle_id, totals_key=f"dispatcher-{self.cycle_id}")


def _exit_message(ended: ExitedRunner) -> log_messages.LogMessage:
    worker_id, exit_ = ended.assignment.worker_id, ended.exit
    match exit_.ending:
        case Ending.OK:
            return log_messages.worker_completed(worker_id, ended.lived_ms)
        case Ending.TIMEOUT:
            return log_messages.worker_timed_out(worker_id, ended.lived_ms)
        case Ending.CRASH:
            return log_messages.worker_crashed(worker_id, exit_.reason, ended.lived_ms)
        case Ending.ERROR:
            return log_messages.worker_failed(worker_id, exit_.code, ended.lived_ms)


def _settled_message(job: Job, outcome: Outcome) -> log_messages.LogMessage:
    reason = (outcome.error or "").partition("\n")[0]
    return log_messages.job_rescued(job.id, job.type, outcome.kind.value, reason)
