"""Run jobs concurrently: start them in threads or on an event loop, interrupt late ones, settle finished ones."""

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Union

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.errors import Interrupted, LostLease, MayflyError
from mayfly.job import Job
from mayfly.process.status_page import StatusPage
from mayfly.queue.outcome import DONE, Outcome, OutcomeKind, Settlement
from mayfly.registry import Handler, Registry
from runner.batch import BatchReport, BatchRunner
from runner.claims import Claims
from runner.execution import Execution, Mailbox, ThreadExecutor
from runner.guard import Cause
from runner.invoke import NO_OBSERVERS, JobObservers, JobResult

if TYPE_CHECKING:
    from runner.asyncio_jobs import AsyncExecutor
    from runner.limits import LimitAdmission
    from runner.main import Runner

TICK_SECONDS = 0.25  # a stop signal is noticed after this at the latest
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 1.0  # before an empty lane is claimed again, while jobs run

Executor = Union[ThreadExecutor, "AsyncExecutor"]
OpenExecutor = Callable[[bool, Mailbox], Executor]  # True: the event loop, False: threads


def install(runner: "Runner") -> None:
    runtime = replace(runner.runtime, database=runner.app.concurrent_database)

    def open_executor(is_async: bool, mailbox: Mailbox) -> Executor:
        if not is_async:
            return ThreadExecutor(mailbox, lambda: replace(runtime), runner.buffer.settle_in_thread)
        from runner.asyncio_jobs import AsyncExecutor  # asyncio is slow to import

        return AsyncExecutor(mailbox, replace(runtime, is_on_loop=True))

    limit = runner.settings.lane(runner.assignment.lane).concurrency
    running = RunningJobs(runner.registry, runner.page, limit, open_executor, runner.invoker.observers)
    runner.executor = ConcurrentBatch(runner.batches, runner.claims, running, runner.limit_admission).run


def free_slots(handler: Handler, limit: int, running: Counter[str]) -> int:
    """How many more jobs of this handler may start; `running` counts jobs by type."""
    free = limit - running.total()
    return free if handler.threads is None else min(free, handler.threads - running[handler.type])


def claimable(handlers: Iterable[Handler], limit: int, running: Counter[str]) -> int:
    """How many jobs may be claimed so that all of them can start, if they have the types of the last claim."""
    return max(0, min((free_slots(each, limit, running) for each in handlers), default=0))


@dataclass(eq=False)
class RunningJobs:
    """The concurrent jobs of a runner that are running now."""

    registry: Registry
    page: StatusPage
    limit: int
    open_executor: OpenExecutor
    observers: JobObservers = NO_OBSERVERS
    _mailbox: Mailbox = field(default_factory=Mailbox)
    _executors: dict[bool, Executor] = field(default_factory=dict)
    _running: dict[int, Execution] = field(default_factory=dict)
    _of_type: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self._running)

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._running.values()))

    def __contains__(self, run: Execution) -> bool:
        return self._running.get(run.job.id) is run

    @property
    def is_suspect(self) -> bool:
        """A suspect runs alone: if the process dies, no other job can be the cause."""
        return any(run.job.suspect for run in islice(self._running.values(), 1))

    def claimable(self, types: Iterable[str]) -> int:
        """How many jobs may be claimed, if they have these types."""
        handlers = (self.registry.handlers[each] for each in types)
        return 0 if self.is_suspect else claimable(handlers, self.limit, self._of_type)

    def free_slots(self, job: Job) -> int:
        """How many jobs of its type could start now."""
        return free_slots(self.registry.handlers[job.type], self.limit, self._of_type)

    def start(self, job: Job) -> bool:
        """False without a free slot."""
        must_wait = self.is_suspect or (job.suspect and self._running)
        if must_wait or self.free_slots(job) < 1:
            return False
        handler = self.registry.handlers[job.type]
        run = Execution(job, handler, monotonic(), self.observers)
        self.page.start(job.id, run.started, handler.timeout)
        self._running[job.id] = run
        self._of_type[job.type] += 1
        if handler.is_async not in self._executors:
            self._executors[handler.is_async] = self.open_executor(handler.is_async, self._mailbox)
        self.executor_of(run).start(run)
        return True

    def await_ended(self, seconds: float) -> list[Execution]:
        """Runs that have ended, once there is one or the time is over."""
        # A run that was left behind may end later; it is settled already.
        return [run for run in self._mailbox.empty(seconds) if run in self]

    def remove(self, run: Execution, succeeded: bool) -> None:
        del self._running[run.job.id]
        self._of_type[run.job.type] -= 1
        self.page.finish(run.job.id, run.started + run.seconds, succeeded)

    def executor_of(self, run: Execution) -> Executor:
        return self._executors[run.handler.is_async]

    def due(self, ends_at: float) -> float:
        return min((run.due(ends_at) for run in self._running.values()), default=inf)

    @property
    def first_timeout_at(self) -> float:
        return min((run.timeout_at for run in self._running.values()), default=inf)


class ConcurrentBatch:
    """Runs the batches of a lane that has handlers with `async def` or `threads=`; plain jobs come last."""

    def __init__(
        self, batches: BatchRunner, claims: Claims, running: RunningJobs, limits: "LimitAdmission | None" = None
    ) -> None:
        self._batches, self._buffer, self._guard, self._log = batches, batches.buffer, batches.guard, batches.log
        self._checks = [step for step in batches.admission if step is not limits]
        self._limits = limits
        self._claims = claims
        self._running = running
        self._concurrent = batches.invoker.registry.concurrent
        self._unstarted = batches.unstarted
        self._claimed: list[Job] = []  # not yet started
        self._waiting: list[Job] = []  # not yet started: wait for a limit's slot that a running job may release soon
        self._plain: list[Job] = []  # not yet started: run after the concurrent jobs
        self._types: set[str] = set()  # of the last claim
        self._pause = 0.0
        self._claim_at = 0.0
        self._has_dropped = False
        self._report = BatchReport()

    def run(self, batch: Sequence[Job]) -> BatchReport:
        """Returns when no job is running and no more can be claimed."""
        if not any(job.type in self._concurrent for job in batch):
            return self._batches.run(batch)
        self._report = BatchReport()
        self._pause = self._claim_at = 0.0  # the lane is no longer empty
        self._has_dropped = self._unstarted.is_requested = False
        self._log.write(log_messages.processing(len(batch)))
        self._add(batch)
        try:
            self._work()
        except MayflyError:  # such as an unreachable database: running jobs are not the cause
            self._batches.invoker.page.clear_running()
            raise
        self._guard.reset_concurrent()
        if not self._plain:
            self._batches.log_completed(self._report)
            return self._report
        plain, self._plain = self._plain, []
        return self._batches.run(plain, self._report)

    def _work(self) -> None:
        while True:
            self._start_or_release()
            if self._claim_more():
                continue
            if not self._running and not self._waiting:
                return
            self._guard.arm_concurrent(self._running.first_timeout_at)
            self._settle(self._running.await_ended(self._seconds_to_wait()))
            self._interrupt_late()
            if self._unstarted.is_requested:
                self._drop_unstarted()

    # --- starting -----------------------------------------------------------------------------------------

    @property
    def _may_start(self) -> bool:
        return self._guard.may_start and not self._report.left_behind

    def _add(self, batch: Sequence[Job]) -> None:
        self._claimed += (job for job in batch if job.type in self._concurrent)
        self._plain += (job for job in batch if job.type not in self._concurrent)
        self._types = {job.type for job in self._claimed}

    def _start_or_release(self) -> None:
        if self._may_start:
            ready, later, self._waiting = self._admitted()
            self._claimed = [job for job in ready if not self._running.start(job)] + later
        elif held := [*self._waiting, *self._claimed, *self._plain]:
            self._batches.release(held, self._report)
            self._release_limits(self._claimed)
            self._claimed, self._waiting, self._plain = [], [], []
            self._buffer.flush()

    def _drop_unstarted(self) -> None:
        """Claims nothing more afterwards: it would claim the same jobs again, and they would wait again."""
        self._unstarted.is_requested = False
        for jobs in (self._waiting, self._claimed, self._plain):
            dropped = self._unstarted.drop(jobs)
            self._release_limits(dropped)
            self._has_dropped |= bool(dropped)

    def _admitted(self) -> tuple[list[Job], list[Job], list[Job]]:
        """Jobs that may start, jobs that were not checked yet, and jobs that wait for the slot of a running job."""
        jobs: Iterable[Job] = [*self._waiting, *self._claimed]
        for step in self._checks:
            jobs = step.admit(jobs, self._reject)
        if self._limits is None:
            return list(jobs), [], []
        return self._limits.admit_concurrent(list(jobs), self._running.free_slots, self._reject)

    def _reject(self, job: Job, outcome: Outcome) -> None:
        self._batches.reject(job, outcome, self._report)
        self._release_limits([job])

    def _release_limits(self, jobs: Sequence[Job]) -> None:
        if self._limits is not None:
            self._limits.release(jobs)

    def _claimable(self) -> int:
        """Claimed jobs must start at once, so 0 while other jobs wait to start."""
        waits = self._claimed or self._plain or self._has_dropped or not self._may_start
        return 0 if waits else self._running.claimable(self._types)

    def _claim_more(self) -> bool:
        """Claims without waiting for a job to end; after each empty claim the pause is doubled."""
        count = self._claimable()
        if not count or monotonic() < self._claim_at or (self._pause and not self._running):
            return False
        batch = self._claims.more(count)
        self._pause = 0.0 if batch else min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
        self._claim_at = monotonic() + self._pause
        if batch:
            self._add(batch)
        return bool(batch)

    # --- ending -------------------------------------------------------------------------------------------

    def _seconds_to_wait(self) -> float:
        due = min(self._running.due(self._guard.ends_at), self._claim_at if self._claimable() else inf)
        return min(due - monotonic(), TICK_SECONDS)

    def _settle(self, ended: Sequence[Execution]) -> None:
        """Written together, before their slots are used again."""
        for run in ended:
            self._running.executor_of(run).dismiss(run)
            self._finish(run)
        self._buffer.flush()

    def _finish(self, run: Execution) -> None:
        job, result = run.job, self._result(run)
        run.observers.after(job, result.outcome)
        if run.is_settled:  # before it is removed from the status page
            self._buffer.count_later(Settlement(job, result.outcome, result.duration_ms))
        self._running.remove(run, result.outcome.kind is OutcomeKind.DONE)
        self._release_limits([job])
        if isinstance(run.error, LostLease):
            self._buffer.note_lost(job)
        elif not run.is_settled:
            self._batches.settle(job, result, self._report)
        else:
            self._report.outcomes[result.outcome.kind] += 1
            if result.outcome is not DONE:
                self._batches.note(job, result, self._report)

    def _result(self, run: Execution) -> JobResult:
        """The result of a run that has ended or is left behind, as for plain functions."""
        invoker, result = self._batches.invoker, run.result
        if result is None or run.error is not None:
            error = run.error or Interrupted()
            if isinstance(error, Interrupted):
                error.stack = run.stack
            result = invoker.after_error(run.handler, run.job, error, run.seconds, run.cause)
        invoker.write_last_progress(run.job)
        result.duration_ms = round(run.seconds * 1000)
        return result

    def _interrupt_late(self) -> None:
        """Interrupt late runs repeatedly, and leave behind those that cannot be interrupted."""
        now, ends_at = monotonic(), self._guard.ends_at
        for run in [each for each in self._running if now >= each.due(ends_at)]:
            if run not in self._running:  # settled together with the run that blocks its event loop
                continue
            if now >= run.gives_up_at:
                self._leave_behind(run)
            else:
                executor = self._running.executor_of(run)
                run.stack = run.stack or executor.stack(run)
                run.note_interruption(now, self._guard.cause_of(run.timeout_at))
                executor.interrupt(run)

    def _leave_behind(self, run: Execution) -> None:
        """Settle it as interrupted; this process claims no more jobs and exits without waiting for it."""
        if not self._report.left_behind:
            self._log.write(log_messages.job_left_behind(run.job.id, run.job.type, run.seconds))
            traceback.print_stack(sys._current_frames().get(run.thread_id or 0), file=sys.stderr)
        self._report.left_behind = True
        for each in self._ending_with(run):
            self._finish(each)
        self._buffer.flush()

    def _ending_with(self, run: Execution) -> list[Execution]:
        """Only this run; or all runs of a blocked event loop, of which only the one that blocks it has timed out."""
        if run.was_reached:
            return [run]
        blocking = self._running.executor_of(run).blocking_run()
        stuck = [each for each in self._running if each.handler.is_async]
        for each in stuck:
            is_blocked = blocking is not None and each is not blocking
            each.cause = Cause.STUCK if is_blocked else each.cause or Cause.GUARD
        return stuck
