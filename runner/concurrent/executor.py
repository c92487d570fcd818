"""Decide how many jobs may run side by side. Pure: values in, values out."""

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
from mayfly.queue.outcome import DONE, JobControl, OutcomeKind, Settlement
from mayfly.registry import Handler, Registry
from runner.batch import BatchRunner, Report
from runner.claims import Claims
from runner.guard import Cause, RunnerDeadline
from runner.invoke import RETURNED, Invoker, JobResult, encode_result
from runner.job_runtime import NO_LANES, AsyncRuntime, JobTransaction, Lanes, ThreadRuntime

if TYPE_CHECKING:
    from mayfly.limits.client import JobLimits


def free_slots(handler: Handler, limit: int, running: Counter[str]) -> int:
    """How many more of this type fit beside what runs: `running` counts that by type."""
    free = limit - running.total()
    return free if handler.threads is None else min(free, handler.threads - running[handler.type])


def room_for_more(handlers: Iterable[Handler], limit: int, running: Counter[str]) -> int:
    """How many may be claimed so that all of them fit, if they are of the types that the last claim had."""
    return max(0, min((free_slots(each, limit, running) for each in handlers), default=0))


Commit = Callable[[JobTransaction, Settlement], None]  # settle a job in its handler's transaction, and commit both


class Execution:
    """Shared by two threads without a lock: the main one writes down why it interrupts, the other how it ended."""

    def __init__(self, job: Job, handler: Handler, started: float) -> None:
        self.job = job
        self.handler = handler
        self.started = started
        self.limit = inf if handler.timeout is None else started + handler.timeout
        self.cause: Cause | None = None  # why it was interrupted
        self._interrupted_at = self._repeat_at = inf
        self.ended: float | None = None
        self.ran: JobResult | None = None  # where the handler has returned
        self.error: BaseException | None = None  # where it has raised
        self.is_settled = False  # by the transaction that its handler asked for

    def due(self, ends_at: float) -> float:
        """When the main thread has to do something about it, if it has not ended by then."""
        if self.cause is None:
            return min(self.limit, ends_at)
        return min(self._repeat_at, self._interrupted_at + timing().hard_exit_seconds)

    def cannot_be_ended(self, now: float) -> bool:
        return now >= self._interrupted_at + timing().hard_exit_seconds

    def note_interruption(self, now: float, cause: Cause) -> None:
        if self.cause is None:
            self.cause, self._interrupted_at = cause, now
        self._repeat_at = now + timing().interrupt_repeat_seconds

    def note_return(self, result: object) -> None:
        """Called where the handler ran, and at once: what it has returned may be changed by others later."""
        self.note_end()
        self.ran = RETURNED if result is None else encode_result(self.handler, result)

    @property
    def transaction(self) -> JobTransaction | None:
        """What the handler asked for; a thread's alone."""
        lifeline = self.job.lifeline
        return lifeline.opened if isinstance(lifeline, ThreadRuntime) else None

    def note_end(self) -> None:
        self.ended = monotonic()

    @property
    def seconds(self) -> float:
        return (self.ended or monotonic()) - self.started


def judge_execution(run: Execution, invoker: Invoker) -> JobResult:
    """What became of a run that has ended, or that is left behind. The words are those for plain functions."""
    ran = _judged(run, invoker)
    if run.job.trail is not None:
        invoker.write_last_progress(run.job)
    return ran._replace(duration_ms=round(run.seconds * 1000))


def _judged(run: Execution, invoker: Invoker) -> JobResult:
    job, handler, error = run.job, run.handler, run.error
    if error is None and run.ran is not None:
        return run.ran
    if run.cause is not None and (error is None or isinstance(error, Interrupted)):
        return invoker.interrupted(handler, job, run.seconds, run.cause)
    if isinstance(error, JobControl):
        return invoker.steered(handler, job, error)
    if isinstance(error, HandlerEnded):
        return invoker.ended(job, error)
    return invoker.failed(job, error or Interrupted())


class Mailbox:
    """Filled by other threads, emptied by the main one.

    With a bell of the kernel's: a signal at the very moment when the time is over would let SimpleQueue.get, which
    then counts on with a negative rest, wait for ever.
    """

    def __init__(self) -> None:
        self._ended: deque[Execution] = deque()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def put(self, run: Execution) -> None:
        self._ended.append(run)
        os.eventfd_write(self._bell, 1)

    def empty(self, seconds: float) -> list[Execution]:
        """All that is there, once the first has come or the time is over."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            os.eventfd_read(self._bell)
        return [self._ended.popleft() for _ in range(len(self._ended))]


class Executor(Protocol):
    """Where runs take place: the event loop, or threads. Its methods are called by the main thread."""

    def start(self, run: Execution) -> None: ...

    def interrupt(self, run: Execution) -> None: ...

    def dismiss(self, run: Execution) -> None:
        """It has ended, and is not heard of again."""

    def is_stuck(self, run: Execution) -> bool:
        """Whether others that run there can't end either, because of a run that cannot be interrupted."""

    def blocking_run(self) -> Execution | None:
        """The run that keeps all others there from ending, if it is known."""

    def frame_of(self, run: Execution) -> FrameType | None: ...


class RunningJobs:
    def __init__(
        self,
        registry: Registry,
        page: StatusPage,
        limit: int,
        worker_id: str,
        horizon: RunnerDeadline,
        beside: Callable[[], Database],
        commit: Commit,
        takings: "JobLimits | None" = None,
        lanes: Lanes = NO_LANES,
    ) -> None:
        self._registry = registry
        self._page = page
        self._limit = limit
        self._worker_id = worker_id
        self._horizon = horizon
        self._beside = beside  # for what handlers ask of us
        self._commit = commit
        self._takings = takings
        self._lanes = lanes
        self._mailbox = Mailbox()
        self._places: dict[bool, Executor] = {}
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
        """A suspect has the runner to itself, so it is the first: who dies with it could not be told from it."""
        return any(run.job.suspect for run in islice(self._running.values(), 1))

    def room_beside(self, types: Iterable[str]) -> int:
        """How many may be claimed, if they are of these types."""
        handlers = (self._registry.handlers[each] for each in types)
        return 0 if self.is_suspect else room_for_more(handlers, self._limit, self._of_type)

    def room_for(self, job: Job) -> int:
        """How many of its type could start now."""
        return free_slots(self._registry.handlers[job.type], self._limit, self._of_type)

    def start(self, job: Job) -> bool:
        """False if there is no slot for it yet."""
        handler = self._registry.handlers[job.type]
        must_wait = self.is_suspect or (job.suspect and self._running)
        if must_wait or free_slots(handler, self._limit, self._of_type) < 1:
            return False
        run = Execution(job, handler, monotonic())
        self._page.start(job.id, run.started, handler.timeout)
        self._running[job.id] = run
        self._of_type[job.type] += 1
        self._place_for(handler).start(run)
        return True

    def await_ended(self, seconds: float) -> list[Execution]:
        """Those that have ended, once the first of them has or the time is over."""
        # One that was left behind may end after all, and has been settled long ago.
        return [run for run in self._mailbox.empty(seconds) if run in self]

    def remove(self, run: Execution, succeeded: bool) -> None:
        del self._running[run.job.id]
        self._of_type[run.job.type] -= 1
        self._page.finish(run.job.id, run.started + run.seconds, succeeded)

    def place_of(self, run: Execution) -> Executor:
        return self._places[run.handler.is_async]

    def at(self, place: Executor) -> list[Execution]:
        return [run for run in self if self.place_of(run) is place]

    def due(self, ends_at: float) -> float:
        return min((run.due(ends_at) for run in self._running.values()), default=inf)

    @property
    def first_limit(self) -> float:
        return min((run.limit for run in self._running.values()), default=inf)

    def _place_for(self, handler: Handler) -> Executor:
        """Imported and opened by the first job that needs it."""
        if handler.is_async not in self._places:
            self._places[handler.is_async] = self._open_loop() if handler.is_async else self._open_threads()
        return self._places[handler.is_async]

    def _open_loop(self) -> Executor:
        from runner.concurrent.asyncio_jobs import AsyncExecutor

        lifeline = AsyncRuntime(self._worker_id, self._horizon, self._beside, self._takings, self._lanes)
        return AsyncExecutor(self._mailbox, lifeline)

    def _open_threads(self) -> Executor:
        from runner.concurrent.thread_jobs import ThreadExecutor

        def lifeline() -> ThreadRuntime:
            return ThreadRuntime(self._worker_id, self._horizon, self._beside, self._takings, self._lanes)

        return ThreadExecutor(self._mailbox, lifeline, self._commit)


TICK_SECONDS = 0.25  # a stop is noticed after this at the latest
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 1.0  # before an empty lane is asked again, while jobs run


class ConcurrentBatch:
    """Runs the batches of a lane that has handlers with `async def` or `threads=`; the plain ones of it come last."""

    def __init__(self, batches: BatchRunner, claims: Claims, runs: RunningJobs) -> None:
        self._batches, self._outbox, self._guard, self._log = batches, batches.outbox, batches.guard, batches.log
        self._gate = batches.gate
        self._claims = claims
        self._runs = runs
        self._concurrent = batches.invoker.registry.concurrent
        self._hand: list[Job] = []  # claimed, and not yet started
        self._waiting: list[Job] = []  # the same, for a slot of a limit that one of ours uses: it may free it at once
        self._plain: list[Job] = []  # the same, and to be run when nothing else does
        self._types: set[str] = set()  # of the last claim
        self._pause = 0.0
        self._ask_at = 0.0
        self._report = Report()

    def run(self, batch: Sequence[Job]) -> Report:
        """Until nothing runs any more and no more can be had."""
        if not any(job.type in self._concurrent for job in batch):
            return self._batches.run(batch)
        self._report = Report()
        self._pause = self._ask_at = 0.0  # the lane is not empty any more
        self._log.say(log_messages.processing(len(batch)))
        self._take(batch)
        try:
            self._work()
        except MayflyError:  # the database is gone, say: what runs here cannot be settled, and is not to blame
            self._batches.invoker.page.clear_running()
            raise
        self._guard.relax_beside()
        self._batches.tell_completed(self._report)
        if self._plain:
            plain, self._plain = self._plain, []
            self._report.add(self._batches.run(plain))
        return self._report

    def _work(self) -> None:
        while True:
            self._start_or_give_back()
            if self._claim_more():
                continue
            if not self._runs and not self._waiting:
                return
            self._guard.watch_beside(self._runs.first_limit)
            self._settle(self._runs.await_ended(self._until_due()))
            self._end_late()

    # --- starting -----------------------------------------------------------------------------------------

    @property
    def _may_start(self) -> bool:
        return self._guard.may_start and not self._report.left_behind

    def _take(self, batch: Sequence[Job]) -> None:
        self._hand += (job for job in batch if job.type in self._concurrent)
        self._plain += (job for job in batch if job.type not in self._concurrent)
        self._types = {job.type for job in self._hand}

    def _start_or_give_back(self) -> None:
        if self._may_start:
            self._defer_unfitting()
            ready, later, self._waiting = self._admitted()
            self._hand = [job for job in ready if not self._begin(job)] + later
        elif held := [*self._waiting, *self._hand, *self._plain]:
            self._batches.give_back(held, self._report)
            self._put_down(self._hand)
            self._hand, self._waiting, self._plain = [], [], []
            self._outbox.flush()

    def _defer_unfitting(self) -> None:
        """Also who waits for a slot: it would have even less time later."""
        if self._batches.foresight is not None:
            held = [*self._waiting, *self._hand]
            hand = list(self._batches.fitting(held, self._report))
            staying = {job.id for job in hand}
            self._put_down([job for job in held if job.id not in staying])
            self._hand, self._waiting = hand, []

    def _begin(self, job: Job) -> bool:
        """False if there is no slot for it yet."""
        away = self._batches.invoker.turned_away(job)
        if away is None:
            return self._runs.start(job)
        self._conclude(job, away)
        self._put_down([job])
        return True

    def _admitted(self) -> tuple[list[Job], list[Job], list[Job]]:
        """Whom no limit keeps, who has not been asked for, and who waits for one of ours to end."""
        if self._gate is None:
            return self._hand, [], []
        found = self._gate.beside([*self._waiting, *self._hand], self._runs.room_for, self._conclude)
        self._gate.release()
        return found

    def _conclude(self, job: Job, became: JobResult) -> None:
        self._batches.conclude(job, became, self._report)

    def _put_down(self, jobs: Sequence[Job]) -> None:
        if self._gate is not None:
            self._gate.ended(jobs)

    def _room(self) -> int:
        """What is claimed must fit: nothing while something waits in hand."""
        waits = self._hand or self._plain or not self._may_start or self._batches.claims_no_more
        return 0 if waits else self._runs.room_beside(self._types)

    def _claim_more(self) -> bool:
        """At once, rather than when the first has ended; after an empty answer less and less often."""
        room = self._room()
        if not room or monotonic() < self._ask_at or (self._pause and not self._runs):
            return False
        batch = self._claims.more(room)
        self._pause = 0.0 if batch else min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
        self._ask_at = monotonic() + self._pause
        if batch:
            self._take(batch)
        return bool(batch)

    # --- ending -------------------------------------------------------------------------------------------

    def _until_due(self) -> float:
        due = min(self._runs.due(self._guard.ends_at), self._ask_at if self._room() else inf)
        return min(due - monotonic(), TICK_SECONDS)

    def _settle(self, ended: Sequence[Execution]) -> None:
        """Together, and before their slots are used again."""
        for run in ended:
            self._runs.place_of(run).dismiss(run)
            self._finish(run)
        self._outbox.flush()

    def _finish(self, run: Execution) -> None:
        job = run.job
        ran = judge_execution(run, self._batches.invoker)
        if run.handler.hooks is not None:
            run.handler.hooks.after(job, ran.outcome)
        self._runs.remove(run, ran.outcome.kind is OutcomeKind.DONE)
        self._put_down([job])
        if isinstance(run.error, LostLease):
            self._outbox.note_lost(job)
            return
        settlement = Settlement(job, ran.outcome, ran.duration_ms)
        (self._outbox.count_later if run.is_settled else self._batches.settle_or_put_aside)(settlement)
        self._report.outcomes[ran.outcome.kind] += 1
        if ran.outcome is not DONE:
            self._batches.note(job, ran, self._report)

    def _end_late(self) -> None:
        """Interrupt whoever's time is up, again and again, and leave behind who cannot be interrupted."""
        now, ends_at = monotonic(), self._guard.ends_at
        for run in [each for each in self._runs if now >= each.due(ends_at)]:
            if run not in self._runs:  # settled with one that blocks its event loop
                continue
            if run.cannot_be_ended(now):
                self._leave_behind(run)
            else:
                run.note_interruption(now, self._guard.cause_of(run.limit))
                self._runs.place_of(run).interrupt(run)

    def _leave_behind(self, run: Execution) -> None:
        """Settled as one that was interrupted; this process takes no more jobs and ends without it."""
        place = self._runs.place_of(run)
        if not self._report.left_behind:
            self._log.say(log_messages.job_left_behind(run.job.id, run.job.type, run.seconds))
            traceback.print_stack(place.frame_of(run), file=sys.stderr)
        self._report.left_behind = True
        for each in self._ending_with(run, place):
            self._finish(each)
        self._outbox.flush()

    def _ending_with(self, run: Execution, place: Executor) -> list[Execution]:
        """The run alone, or, on a blocked event loop, all that run there: only the one that blocks it is to blame."""
        if not place.is_stuck(run):
            return [run]
        blocking, stuck = place.blocking_run(), self._runs.at(place)
        for each in stuck:
            is_innocent = blocking is not None and each is not blocking
            each.cause = Cause.STUCK if is_innocent else each.cause or Cause.GUARD
        return stuck
