"""Run jobs concurrently: start them in threads or on an event loop, interrupt late ones, settle those that ended.

All state is the main thread's, except for an Execution, which the thread of its handler writes too.
"""

import os
import select
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import HandlerEnded, Interrupted, LostLease, MayflyError
from mayfly.job import Job
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing
from mayfly.queue.outcome import DONE, JobControl, Outcome, OutcomeKind, Settlement
from mayfly.registry import Handler, Registry
from runner.batch import BatchReport, BatchRunner
from runner.claims import Claims
from runner.guard import Cause
from runner.invoke import RETURNED, Invoker, JobObservers, JobResult, encode_result
from runner.job_runtime import AsyncRuntime, JobTransaction, RuntimeContext, ThreadRuntime

if TYPE_CHECKING:
    from runner.limits import LimitAdmission
    from runner.main import Runner

TICK_SECONDS = 0.25  # a stop is noticed after this at the latest
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 1.0  # before an empty lane is claimed again, while jobs run

Commit = Callable[[JobTransaction, Settlement], None]  # settle a job in its handler's transaction, and commit both


def install(runner: "Runner") -> None:
    limit = runner.settings.lane(runner.assignment.lane).concurrency
    running = RunningJobs(
        runner.registry, runner.page, limit, runner.runtime_context, runner.app.concurrent_database,
        runner.buffer.settle_in_thread, runner.invoker.observers,
    )  # fmt: skip
    runner.executor = ConcurrentBatch(runner.batches, runner.claims, running, runner.limit_admission).run


def free_slots(handler: Handler, limit: int, running: Counter[str]) -> int:
    """How many more jobs of this handler may start; `running` counts jobs by type."""
    free = limit - running.total()
    return free if handler.threads is None else min(free, handler.threads - running[handler.type])


def claimable(handlers: Iterable[Handler], limit: int, running: Counter[str]) -> int:
    """How many jobs may be claimed so that all could start, if they are of the types of the last claim."""
    return max(0, min((free_slots(each, limit, running) for each in handlers), default=0))


class Execution:
    """One run. Shared without a lock: the main thread writes why it interrupts, the handler's thread how it ended."""

    def __init__(self, job: Job, handler: Handler, started: float, observers: JobObservers | None = None) -> None:
        self.job = job
        self.handler = handler
        self.observers = observers
        self.started = started
        self.timeout_at = inf if handler.timeout is None else started + handler.timeout
        self.cause: Cause | None = None  # why it was interrupted
        self._interrupted_at = self._repeat_at = inf
        self.ended: float | None = None
        self.result: JobResult | None = None  # if the handler has returned
        self.error: BaseException | None = None  # if it has raised
        self.is_settled = False  # in its handler's job.transaction()

    def due(self, ends_at: float) -> float:
        """When the main thread must interrupt it, again or for the first time."""
        if self.cause is None:
            return min(self.timeout_at, ends_at)
        return min(self._repeat_at, self._interrupted_at + timing().hard_exit_seconds)

    def cannot_be_ended(self, now: float) -> bool:
        return now >= self._interrupted_at + timing().hard_exit_seconds

    def note_interruption(self, now: float, cause: Cause) -> None:
        if self.cause is None:
            self.cause, self._interrupted_at = cause, now
        self._repeat_at = now + timing().interrupt_repeat_seconds

    def note_return(self, result: object) -> None:
        """Encoded at once, in the handler's thread: other threads may change the object later."""
        self.note_end()
        self.result = RETURNED if result is None else encode_result(self.handler, result)

    @property
    def transaction(self) -> JobTransaction | None:
        """Only handlers in threads may open one."""
        runtime = self.job.runtime
        return runtime.job_transaction if isinstance(runtime, ThreadRuntime) else None

    def note_end(self) -> None:
        self.ended = monotonic()

    @property
    def seconds(self) -> float:
        return (self.ended or monotonic()) - self.started


def result_of(run: Execution, invoker: Invoker) -> JobResult:
    """The result of a run that has ended or is left behind, as for plain functions."""
    result = _result_of(run, invoker)
    if run.job.progress_state is not None:
        invoker.write_last_progress(run.job)
    return result._replace(duration_ms=round(run.seconds * 1000))


def _result_of(run: Execution, invoker: Invoker) -> JobResult:
    job, handler, error = run.job, run.handler, run.error
    if error is None and run.result is not None:
        return run.result
    if run.cause is not None and (error is None or isinstance(error, Interrupted)):
        return invoker.interrupted(handler, job, run.seconds, run.cause)
    if isinstance(error, JobControl):
        return invoker.controlled(handler, job, error)
    if isinstance(error, HandlerEnded):
        return invoker.ended(job, error)
    return invoker.failed(job, error or Interrupted())


class Mailbox:
    """Runs that have ended: filled by other threads, emptied by the main one.

    With an eventfd: SimpleQueue.get(timeout) may block for ever if a signal arrives just as the timeout expires.
    """

    def __init__(self) -> None:
        self._ended: deque[Execution] = deque()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._eventfd, select.POLLIN)

    def put(self, run: Execution) -> None:
        self._ended.append(run)
        os.eventfd_write(self._eventfd, 1)

    def empty(self, seconds: float) -> list[Execution]:
        """All of them, once there is one or the time is over."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            os.eventfd_read(self._eventfd)
        return [self._ended.popleft() for _ in range(len(self._ended))]


class Executor(Protocol):
    """The event loop, or threads. Its methods are called by the main thread."""

    def start(self, run: Execution) -> None: ...

    def interrupt(self, run: Execution) -> None: ...

    def dismiss(self, run: Execution) -> None:
        """It has ended."""

    def is_stuck(self, run: Execution) -> bool:
        """Whether this run keeps all others of the executor from ending."""

    def blocking_run(self) -> Execution | None:
        """The run that keeps all others of the executor from ending, if it is known."""

    def frame_of(self, run: Execution) -> FrameType | None: ...


class RunningJobs:
    """The concurrent jobs of a runner that run now."""

    def __init__(
        self,
        registry: Registry,
        page: StatusPage,
        limit: int,
        context: RuntimeContext,
        open_database: Callable[[], Database],
        commit: Commit,
        observers: JobObservers | None = None,
    ) -> None:
        self._registry = registry
        self._page = page
        self._limit = limit
        self._context = context
        self._open_database = open_database
        self._commit = commit
        self._observers = observers
        self._mailbox = Mailbox()
        self._executors: dict[bool, Executor] = {}
        self._running: dict[int, Execution] = {}
        self._of_type: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._running)

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._running.values()))

    def __contains__(self, run: Execution) -> bool:
        return self._running.get(run.job.id) is run

    @property
    def is_suspect(self) -> bool:
        """A suspect has the runner to itself: if the process dies, no other job can be the cause."""
        return any(run.job.suspect for run in islice(self._running.values(), 1))

    def claimable(self, types: Iterable[str]) -> int:
        """How many jobs may be claimed, if they are of these types."""
        handlers = (self._registry.handlers[each] for each in types)
        return 0 if self.is_suspect else claimable(handlers, self._limit, self._of_type)

    def free_slots(self, job: Job) -> int:
        """How many jobs of its type could start now."""
        return free_slots(self._registry.handlers[job.type], self._limit, self._of_type)

    def start(self, job: Job) -> bool:
        """False without a free slot."""
        handler = self._registry.handlers[job.type]
        must_wait = self.is_suspect or (job.suspect and self._running)
        if must_wait or free_slots(handler, self._limit, self._of_type) < 1:
            return False
        run = Execution(job, handler, monotonic(), self._observers)
        self._page.start(job.id, run.started, handler.timeout)
        self._running[job.id] = run
        self._of_type[job.type] += 1
        self._executor_for(handler).start(run)
        return True

    def await_ended(self, seconds: float) -> list[Execution]:
        """Runs that have ended, once there is one or the time is over."""
        # A run that was left behind may end after all; it is settled already.
        return [run for run in self._mailbox.empty(seconds) if run in self]

    def remove(self, run: Execution, succeeded: bool) -> None:
        del self._running[run.job.id]
        self._of_type[run.job.type] -= 1
        self._page.finish(run.job.id, run.started + run.seconds, succeeded)

    def executor_of(self, run: Execution) -> Executor:
        return self._executors[run.handler.is_async]

    def on(self, executor: Executor) -> list[Execution]:
        return [run for run in self if self.executor_of(run) is executor]

    def due(self, ends_at: float) -> float:
        return min((run.due(ends_at) for run in self._running.values()), default=inf)

    @property
    def first_timeout_at(self) -> float:
        return min((run.timeout_at for run in self._running.values()), default=inf)

    def _executor_for(self, handler: Handler) -> Executor:
        if handler.is_async not in self._executors:
            self._executors[handler.is_async] = self._open_loop() if handler.is_async else self._open_threads()
        return self._executors[handler.is_async]

    def _open_loop(self) -> Executor:
        from runner.concurrent.asyncio_jobs import AsyncExecutor  # asyncio is slow to import

        return AsyncExecutor(self._mailbox, AsyncRuntime(self._context, self._open_database))

    def _open_threads(self) -> Executor:
        from runner.concurrent.thread_jobs import ThreadExecutor  # needs ctypes

        def make_runtime() -> ThreadRuntime:
            return ThreadRuntime(self._context, self._open_database)

        return ThreadExecutor(self._mailbox, make_runtime, self._commit)


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
        self._claimed: list[Job] = []  # and not yet started
        self._waiting: list[Job] = []  # the same, for a slot of a limit that a running job may release soon
        self._plain: list[Job] = []  # the same, to be run when no concurrent job does
        self._types: set[str] = set()  # of the last claim
        self._pause = 0.0
        self._claim_at = 0.0
        self._report = BatchReport()

    def run(self, batch: Sequence[Job]) -> BatchReport:
        """Until no job runs any more and no more can be claimed."""
        if not any(job.type in self._concurrent for job in batch):
            return self._batches.run(batch)
        self._report = BatchReport()
        self._pause = self._claim_at = 0.0  # the lane is not empty any more
        self._log.say(log_messages.processing(len(batch)))
        self._add(batch)
        try:
            self._work()
        except MayflyError:  # the database does not answer, say: running jobs are not the cause
            self._batches.invoker.page.clear_running()
            raise
        self._guard.reset_concurrent()
        self._batches.log_completed(self._report)
        if self._plain:
            plain, self._plain = self._plain, []
            self._report.add(self._batches.run(plain))
        return self._report

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

    def _admitted(self) -> tuple[list[Job], list[Job], list[Job]]:
        """Jobs that may start, jobs that were not checked, and jobs that wait for a slot of a running one."""
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
        """Claimed jobs must start at once: nothing while others wait to start."""
        waits = self._claimed or self._plain or not self._may_start
        return 0 if waits else self._running.claimable(self._types)

    def _claim_more(self) -> bool:
        """At once, not when the first job has ended; after an empty claim less and less often."""
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
        """Together, and before their slots are used again."""
        for run in ended:
            self._running.executor_of(run).dismiss(run)
            self._finish(run)
        self._buffer.flush()

    def _finish(self, run: Execution) -> None:
        job = run.job
        result = result_of(run, self._batches.invoker)
        if run.observers is not None:
            run.observers.after(job, result.outcome)
        self._running.remove(run, result.outcome.kind is OutcomeKind.DONE)
        self._release_limits([job])
        if isinstance(run.error, LostLease):
            self._buffer.note_lost(job)
        elif not run.is_settled:
            self._batches.settle(job, result, self._report)
        else:
            self._buffer.count_later(Settlement(job, result.outcome, result.duration_ms))
            self._report.outcomes[result.outcome.kind] += 1
            if result.outcome is not DONE:
                self._batches.note(job, result, self._report)

    def _interrupt_late(self) -> None:
        """Repeatedly, and leave behind a run that cannot be interrupted."""
        now, ends_at = monotonic(), self._guard.ends_at
        for run in [each for each in self._running if now >= each.due(ends_at)]:
            if run not in self._running:  # settled with one that blocks its event loop
                continue
            if run.cannot_be_ended(now):
                self._leave_behind(run)
            else:
                run.note_interruption(now, self._guard.cause_of(run.timeout_at))
                self._running.executor_of(run).interrupt(run)

    def _leave_behind(self, run: Execution) -> None:
        """Settle it as interrupted; this process claims no more jobs and ends without waiting for it."""
        executor = self._running.executor_of(run)
        if not self._report.left_behind:
            self._log.say(log_messages.job_left_behind(run.job.id, run.job.type, run.seconds))
            traceback.print_stack(executor.frame_of(run), file=sys.stderr)
        self._report.left_behind = True
        for each in self._ending_with(run, executor):
            self._finish(each)
        self._buffer.flush()

    def _ending_with(self, run: Execution, executor: Executor) -> list[Execution]:
        """The run alone, or, on a blocked event loop, all runs there: only the one that blocks it has timed out."""
        if not executor.is_stuck(run):
            return [run]
        blocking, stuck = executor.blocking_run(), self._running.on(executor)
        for each in stuck:
            is_innocent = blocking is not None and each is not blocking
            each.cause = Cause.STUCK if is_innocent else each.cause or Cause.GUARD
        return stuck
