"""How a runner exited, and the clean-up: settle or release its jobs, close its row, remove its status page."""

import random
import re
import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from traceback import FrameSummary

from dispatcher.context import CycleContext
from dispatcher.summary import Ending, RunnerEnd
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.fleet.cycles import cycles_still_supervised
from mayfly.fleet.runners import (
    Assignment,
    Death,
    EndedRunner,
    LiveRunner,
    close_runners,
    is_external,
    live_runners,
    lost_among,
)
from mayfly.job import Job
from mayfly.monitoring.hooks import announcer, announcing
from mayfly.process import exits, timing
from mayfly.process.state_dir import page_path, pages_in
from mayfly.process.status_page import RunnerStatus, RunningJob, read_status_page
from mayfly.queue import policy
from mayfly.queue.count import busy_lanes
from mayfly.queue.outcome import RELEASED, Outcome, Settler, stack_text
from mayfly.queue.policy import Backoff, Interruption, RetryContext
from mayfly.queue.rescue import (
    Judge,
    close_lost,
    dead_runners,
    expired_jobs,
    held_jobs,
    jobs_held_by,
    rescue_jobs,
    rescue_messages,
    rescue_runner,
)
from mayfly.stats.histograms import Tally
from mayfly.stats.totals import count_unseen

# --- how a runner exited; pure ---

DUMP_BEGINS = "Timeout ("  # of faulthandler.dump_traceback_later: the innermost call of each thread comes first
DUMPED_FRAME = re.compile(r' +File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)')
HANDLER_CALLER = "/runner/invoke.py"
DISAPPEARED = "the runner disappeared (its dispatcher or host died)"
LONG_RUNNER_GONE = "the runner died while no dispatcher was supervising it"


class KilledFor(StrEnum):
    """Why the dispatcher or a lease keeper killed a runner."""

    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True)
class Exit:
    """How a runner exited, according to the kernel and its status page."""

    code: int  # the exit code, or the negative signal number
    status: RunnerStatus
    ended: float  # monotonic
    peak_memory: int = 0  # bytes; 0: unknown
    killed_for: KilledFor | None = None
    output_end: str = ""  # the last kilobytes that it printed
    cause: str | None = None  # by its engine or its lease keeper

    @property
    def signal(self) -> int | None:
        return -self.code if self.code < 0 else None

    @cached_property
    def ending(self) -> Ending:
        """Not from the exit code alone: after os._exit(0) in a handler it would mean success."""
        if self.killed_for is KilledFor.TIME:
            return Ending.TIMEOUT
        if self.killed_for is KilledFor.MEMORY:
            return Ending.CRASH
        if self.status.running:
            # faulthandler exits with 1, as other errors do; the deadline on the status page distinguishes them.
            is_timeout = self.code == exits.ERROR and 0 < self.status.hard_deadline <= self.ended
            return Ending.TIMEOUT if is_timeout else Ending.CRASH
        if self.code < 0:
            return Ending.CRASH
        return {exits.SUCCESS: Ending.OK, exits.TIMEOUT: Ending.TIMEOUT}.get(self.code, Ending.ERROR)

    @property
    def breaks_lane(self) -> bool:
        """An error or a crash that no job caused: the next runner of the lane would end the same way."""
        status = self.status
        ran_nothing = not (status.running or status.done or status.failed)
        return self.ending is Ending.ERROR or (self.ending is Ending.CRASH and ran_nothing)

    @property
    def reason(self) -> str:
        peak = f", peak memory {self.peak_memory >> 20} MB" if self.peak_memory else ""
        if self.killed_for is KilledFor.MEMORY:
            return f"its memory grew above WORKER_MEMORY and the runner was killed{peak}"
        if self.signal is not None:
            name = {each.value: each.name for each in signal.Signals}.get(self.signal, "unknown")
            return _explained(f"the runner was killed by signal {self.signal} ({name}){peak}", self.cause)
        return _explained(f"the runner exited with code {self.code} in the middle of the job{peak}", self.cause)


def _explained(reason: str, cause: str | None) -> str:
    return f"{reason}: {cause}" if cause else reason


@dataclass(frozen=True)
class ExitedRunner:
    """A runner that exited or failed to start."""

    assignment: Assignment  # with its last lane
    exit: Exit
    lived_ms: int
    cpu_ms: int
    first_lane: str

    def as_row(self) -> EndedRunner:
        status, exit_ = self.exit.status, self.exit
        return EndedRunner(
            ending=exit_.ending,
            exit_code=exit_.code if exit_.code >= 0 else None,
            signal=exit_.signal,
            jobs_done=status.done,
            jobs_failed=status.failed,
            average_ms=status.average_ms,
            peak_memory=exit_.peak_memory,
            cpu_ms=self.cpu_ms,
            uptime_ms=self.lived_ms,
        )


def dumped_stack(output: str) -> str:
    """The calls inside the handler, from what faulthandler printed when it ended the runner; "" if it did not.

    Only of a plain function, which the main thread runs: it is below the call in runner/invoke.py.
    """
    frames: list[FrameSummary] = []
    for line in output.rpartition(DUMP_BEGINS)[2].splitlines() if DUMP_BEGINS in output else ():
        if (found := DUMPED_FRAME.fullmatch(line)) is None:
            frames = []  # another thread
        elif found["file"].endswith(HANDLER_CALLER):
            return stack_text(reversed(frames))
        else:
            frames.append(FrameSummary(found["file"], int(found["line"]), found["name"]))
    return ""


def judge(job: Job, exit_: Exit, window_seconds: float, retry: RetryContext) -> tuple[Outcome, int | None]:
    """The outcome of a job that the runner held, and its duration. Jobs that were not running are released."""
    running = exit_.status.running_job(job.id)
    if running is None:
        return RELEASED, None
    ran = max(0.0, exit_.ended - running.started)
    if exit_.ending is Ending.TIMEOUT:
        interruption = Interruption(ran, window_seconds, running.timeout, dumped_stack(exit_.output_end))
        return policy.after_interruption(job, interruption, retry), round(ran * 1000)
    suspects = len(exit_.status.running)
    return policy.after_crash_among(suspects, job, exit_.reason, retry), round(ran * 1000)


def judge_lost(
    job: Job,
    held: int,
    status: RunnerStatus | None,
    retry: RetryContext,
    crash: str | None = None,
    cause: str | None = None,
) -> tuple[Outcome, int | None]:
    """For a runner whose exit no dispatcher observed; its status page, if it exists, has the running jobs.

    The runner died with its dispatcher or host, which the job did not cause, unless `crash` has another reason.
    """
    reason = _explained(DISAPPEARED, cause)
    if status is not None and status.running_job(job.id) is None:
        return RELEASED, None
    if crash is not None:
        suspects = held if status is None else len(status.running)
        return policy.after_crash_among(suspects, job, crash, retry), None
    if status is None and held > 1:  # most of them had not started
        return policy.after_crash_among(held, job, reason, retry), None
    return policy.after_lost_runner(job, reason, retry), None


def exit_of(death: Death, now: datetime, cause: str | None = None) -> Exit:
    """How a submitted runner exited, as its lease keeper has noted it. Keepers of other hosts have other clocks."""
    ended = monotonic()
    running = tuple(
        RunningJob(job_id, ended - (now - started).total_seconds(), None) for job_id, started in death.running.items()
    )
    killed_for = KilledFor.TIME if death.ending == Ending.TIMEOUT else None
    code = -death.signal if death.signal is not None else death.exit_code or exits.SUCCESS
    return Exit(code, RunnerStatus(running=running), ended, killed_for=killed_for, cause=cause)


# --- the clean-up ---


@dataclass
class RunnerResults:
    """How the runners of this cycle have ended so far."""

    ends: list[RunnerEnd] = field(default_factory=list)
    broken_lanes: set[str] = field(default_factory=set)  # a runner failed there: this cycle starts no other one
    sliced: dict[str, int] = field(default_factory=dict)  # by lane: jobs that continue in the next cycle
    repeats: int = 0  # transactions that runners have repeated

    def add(self, ended: ExitedRunner) -> None:
        lane, exit_ = ended.assignment.lane, ended.exit
        self.ends.append(RunnerEnd(lane, exit_.ending, ended.lived_ms, ended.first_lane))
        self.sliced[lane] = max(self.sliced.get(lane, 0), exit_.status.sliced)
        self.repeats += exit_.status.repeats
        if exit_.breaks_lane:
            self.broken_lanes.add(lane)


@dataclass
class Rescuer:
    """Settles the jobs of dead runners. Their outcomes are counted under a totals_key of this dispatcher."""

    context: CycleContext
    cycle_id: int
    results: RunnerResults = field(default_factory=RunnerResults)
    unsettled: list[ExitedRunner] = field(default_factory=list)
    tally: Tally = field(default_factory=dict)
    rescued: int = 0

    def end_overdue(self) -> None:
        """Kill runners of long lanes whose own guard has failed: they outlive their dispatcher."""
        context = self.context
        if not any(context.settings.lane(each).is_long for each in context.settings.lanes):
            return
        for runner in context.database.run(live_runners):
            is_long = context.settings.lane(runner.lane).is_long
            if not is_long or runner.host != context.host or not runner.has_started:
                continue
            status = read_status_page(page_path(context.directory, runner.worker_id))
            if status is not None and 0 < status.hard_deadline < monotonic() - timing().overdue_seconds:
                context.log.write(log_messages.worker_overdue(runner.worker_id))
                runner.process.end()

    def rescue_lost(self) -> None:
        """Rescue jobs of runners of earlier cycles or other hosts whose exit no dispatcher observed."""
        directory, host = self.context.directory, self.context.host
        # Both are read before the rows: the row of a runner is written before its page.
        pages = pages_in(directory)
        still_supervised = cycles_still_supervised(directory)
        for runner in dead_runners(self.context.database, host):
            is_here = runner.host == host and runner.launcher is None
            if is_here and runner.cycle_id in still_supervised:
                continue  # its dispatcher has handed over to this one, and settles its jobs itself
            if is_here and runner.has_started:
                runner.process.end_group()  # its dispatcher was killed before it could do this
            self._rescue_lost(runner, read_status_page(page_path(directory, runner.worker_id)) if is_here else None)
        self._rescue_expired()
        if pages:  # including pages of runners that another host has rescued: only this host can remove them
            live = {page_path(directory, each.worker_id) for each in self.context.database.run(live_runners)}
            for page in set(pages) - live:
                self._remove_page(page, read_status_page(page))

    def _remove_page(self, page: Path, status: RunnerStatus | None) -> None:
        if status is not None and status.may_be_uncounted:
            self.context.database.run(lambda connection: count_unseen(connection, page.stem, status))
        page.unlink(missing_ok=True)

    def note_exit(self, ended: ExitedRunner) -> None:
        """A runner of this cycle has exited. `settle_ended` settles its jobs."""
        self.context.log.write(_exit_message(ended))
        self.results.add(ended)
        self.unsettled.append(ended)

    def settle_ended(self) -> None:
        """Settle the jobs of exited runners. If the database fails, the next call tries again."""
        if not self.unsettled:
            return
        lanes = {each.assignment.worker_id: each.assignment.lane for each in self.unsettled}
        held = self.context.database.read(lambda connection: jobs_held_by(connection, lanes))
        for ended in self.unsettled:
            worker_id = ended.assignment.worker_id
            if jobs := held.get(worker_id):
                self._rescue(worker_id, ended.assignment.lane, partial(self._judge_ended, ended), jobs)
            # Only after its jobs are settled: if the database fails, the next cycle reads the running jobs from it.
            self._remove_page(page_path(self.context.directory, worker_id), ended.exit.status)
        self._close_ended()
        self.unsettled.clear()

    def _judge_ended(self, ended: ExitedRunner, job: Job, _held: int) -> tuple[Outcome, int | None]:
        return judge(job, ended.exit, ended.assignment.window_seconds, self._retry_context())

    def _rescue_lost(self, runner: LiveRunner, status: RunnerStatus | None) -> None:
        rescued = self._rescue(
            runner.worker_id, runner.lane, lambda job, held: self._judge_lost(runner, job, held, status)
        )
        close_lost(self.context.database, runner.worker_id, status, runner.death)
        self.context.log.write(log_messages.runner_lost(runner.worker_id, runner.lane, rescued))

    def _judge_lost(
        self, runner: LiveRunner, job: Job, held: int, status: RunnerStatus | None
    ) -> tuple[Outcome, int | None]:
        """A runner of a long lane may exit without a dispatcher. If its last deadline has passed, it timed out."""
        lane = self.context.settings.lane(runner.lane)
        now = self.context.database.clock.now()
        exit_ = None if runner.death is None else exit_of(runner.death, now, runner.cause)
        if status is not None and status.too_large:
            exit_ = Exit(-signal.SIGKILL, status, monotonic(), status.too_large, KilledFor.MEMORY)
        elif status is not None and lane.is_long and 0 < status.hard_deadline <= monotonic():
            exit_ = Exit(exits.ERROR, status, ended=status.hard_deadline, killed_for=KilledFor.TIME)
        if exit_ is not None:
            return judge(job, exit_, lane.worker_timeout, self._retry_context())
        # A runner of a long lane outlives its dispatcher: if its host still runs, only a crash can have ended it.
        is_ours = runner.host == self.context.host and runner.launcher is None
        crash = LONG_RUNNER_GONE if lane.is_long and is_ours else None
        return judge_lost(job, held, status, self._retry_context(), crash, runner.cause)

    def _rescue_expired(self) -> None:
        """Jobs with an expired lease and no runner row (external workers), as a last resort."""
        database = self.context.database
        now = database.clock.now()
        expired = database.read(lambda connection: expired_jobs(connection, busy_lanes(connection), now))
        for (lane, worker_id), jobs in expired.items():
            judge = self._judge_external if is_external(worker_id) else self._judge_unknown
            rescued = self._rescue(worker_id, lane, judge, jobs, expired_at=now)
            self.context.log.write(log_messages.runner_lost(worker_id, lane, rescued))

    def _judge_external(self, job: Job, held: int) -> tuple[Outcome, int | None]:
        return policy.after_expired_lease(held, job, self.context.database.clock.now()), None

    def _judge_unknown(self, job: Job, held: int) -> tuple[Outcome, int | None]:
        return judge_lost(job, held, None, self._retry_context())

    def _rescue(
        self,
        worker_id: str,
        lane: str,
        judge: Judge,
        jobs: Sequence[Job] | None = None,
        expired_at: datetime | None = None,
    ) -> int:
        """Settle these jobs of a dead runner, or all that it holds; returns their number."""
        context, settler = self.context, self._settler(worker_id, expired_at)
        if context.settings.hooks_on_dead:  # called before a dead job is written, as in a runner
            judge = announcing(judge, announcer(context.settings, context.database))
        if jobs is None:
            rescued = rescue_runner(context.database, settler, lane, judge, self.tally)
        else:
            rescued = rescue_jobs(context.database, settler, jobs, judge, self.tally)
        self.tally = rescued.tally
        self.rescued += len(rescued.settlements)
        for message in rescue_messages(rescued):
            context.log.write(message)
        return len(rescued.settlements)

    def release_dropped(self, worker_id: str, lane: str, dropped: Collection[tuple[int, int]]) -> int:
        """Release jobs that a live runner has dropped, given by id and fencing token; returns their number.

        A job that is not held by this claim is not changed: the same runner may have claimed it again.
        """
        database = self.context.database
        held = database.run(lambda connection: held_jobs(connection, lane, worker_id))
        jobs = [job for job in held if (job.id, job.claims) in dropped]
        settled = rescue_jobs(database, self._settler(worker_id), jobs, lambda *_: (RELEASED, None), self.tally)
        self.tally = settled.tally
        return len(settled.settlements)

    def _settler(self, worker_id: str, expired_at: datetime | None = None) -> Settler:
        key, sources = f"dispatcher-{self.cycle_id}", self.context.sources
        return Settler(worker_id, self.cycle_id, key, expired_at=expired_at, sources=sources)

    def _close_ended(self) -> None:
        database = self.context.database
        rows = {each.assignment.worker_id: each.as_row() for each in self.unsettled}
        now = database.clock.now()
        closed = database.once(lambda connection: close_runners(connection, rows, now))
        if closed < len(rows):
            for worker_id in database.read(lambda connection: lost_among(connection, rows)):
                self.context.log.write(log_messages.worker_lost_lease(worker_id))

    def _retry_context(self) -> RetryContext:
        """With the default backoff: the dispatcher never imports handlers, so it does not know their own."""
        settings = self.context.settings
        backoff = Backoff(settings.backoff_base, settings.backoff_cap)
        return RetryContext(self.context.database.clock.now(), backoff, random.random())  # noqa: S311 - jitter


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
