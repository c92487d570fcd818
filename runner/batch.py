"""Run a claimed batch: admission steps, then one job after the other. When time is up, the rest is released."""

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import length_hint
from types import FrameType
from typing import Protocol

from mayfly import log_messages
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import LostLease
from mayfly.job import Job
from mayfly.log import Log
from mayfly.monitoring.redact import first_line
from mayfly.process.fork import RECLAIM
from mayfly.process.status_page import StatusPage
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, RowChanged, Settlement
from mayfly.queue.pauses import Pause, load_pauses, resume_jobs
from mayfly.queue.policy import skip_outcome
from runner.guard import Cause, Guard
from runner.invoke import Invoker, JobResult
from runner.settle_buffer import SettleBuffer

MIN_INTERRUPTED_MS = 1000  # an interrupted job that ran shorter had started too late: that is not a timeout
MAX_SNOOZES_LOGGED = 3  # reasons per batch; each job has its own in its row

Reject = Callable[[Job, Outcome], object]


class AdmissionStep(Protocol):
    """Decides whether jobs may start, just before each would. Steps run in the order of BatchRunner.admission."""

    def admit(self, jobs: Iterable[Job], reject: Reject) -> Iterable[Job]:
        """The jobs that may run; the others are passed to `reject` with their outcome.

        A step that has nothing to check returns `jobs` itself, so that it costs nothing per job.
        """


@dataclass
class PauseCache:
    """The pauses that concern one runner, as of its last heartbeat."""

    lane: str  # where it works
    database: Database
    of_lanes: Mapping[str, Pause] = field(default_factory=dict)
    of_types: Mapping[str, Pause] = field(default_factory=dict)
    seen_types: set[str] = field(default_factory=set)  # types that were paused at any time
    left_lanes: list[str] = field(default_factory=list)  # where it has worked before

    def read(self, connection: Connection) -> None:
        known = load_pauses(connection, self.database.clock.now())
        self.of_lanes = known.lanes
        self.of_types = known.types
        self.seen_types.update(known.types)

    @property
    def lane_pause(self) -> Pause | None:
        pause = self.of_lanes.get(self.lane)
        return pause if pause is not None and pause.holds(self.database.clock.now()) else None

    def resume_snoozed(self) -> None:
        """Resume jobs that this runner snoozed just after a pause had ended: `mayfly resume` could not see them.

        Called at the end of a runner, when everything is written. Most runners have seen no pause and query nothing.
        """
        if self.seen_types:
            self.database.read(self.read)
            for each in self.seen_types - self.of_types.keys():
                resume_jobs(self.database, each, [*self.left_lanes, self.lane])


@dataclass(frozen=True)
class SkipCheck:
    """Skips jobs that are cancelled, expired or paused, or whose handler requires settings that are missing."""

    database: Database
    pauses: PauseCache
    missing: Mapping[str, Sequence[str]]  # settings by type

    def admit(self, jobs: Iterable[Job], reject: Reject) -> Iterable[Job]:
        jobs = jobs if isinstance(jobs, list) else list(jobs)  # the list itself: jobs may be dropped from it
        if not self.missing and not self.pauses.of_types and all(job.rare_fields is None for job in jobs):
            return jobs
        return self._admit_each(jobs, reject)

    def _admit_each(self, jobs: Iterable[Job], reject: Reject) -> Iterator[Job]:
        for job in jobs:
            pause, missing = self.pauses.of_types.get(job.type), self.missing.get(job.type, ())
            outcome = skip_outcome(job, pause, self.database.clock.now(), missing)
            if outcome is None:
                yield job
            else:
                reject(job, outcome)


class ClaimedJobs(list[Job]):
    """The jobs of a claim, and how far the loop over them has come. If the list is cut, the loop ends there."""

    _loop: Iterator[Job] = iter(())

    def __iter__(self) -> Iterator[Job]:
        self._loop = super().__iter__()
        return self._loop

    @property
    def untaken_from(self) -> int:
        """The index of the first job that the loop has not taken. Costs nothing per job, unlike a counter."""
        return len(self) - length_hint(self._loop)


class UnstartedJobs:
    """Drops jobs that wait behind a running one, on a signal of the dispatcher, and acknowledges that.

    The signal handler runs in the main thread, between two instructions of the job's handler. A dropped job is in no
    list of this process any more, so it is neither started nor settled here.
    """

    def __init__(self, page: StatusPage) -> None:
        self._page = page
        self._claimed = ClaimedJobs()
        self._dropped: list[Job] = []  # not acknowledged yet
        self.is_requested = False  # for concurrent jobs: their lists can be cut only between two steps

    def install(self) -> None:
        signal.signal(RECLAIM, self._on_reclaim)

    def hold(self, batch: Iterable[Job]) -> ClaimedJobs:
        """The batch as a list from which jobs can be dropped until a loop has taken them."""
        self._claimed = ClaimedJobs(batch)
        return self._claimed

    def drop(self, jobs: list[Job], first: int = 0) -> list[Job]:
        """Remove the jobs from `first` on from the list, as many as can be acknowledged; returns them."""
        first = max(first, len(jobs) - self._page.room_for_dropped)
        # No call between these lines: only there could another signal handler run, and raise an exception.
        dropped = jobs[first:]
        self._dropped += dropped
        del jobs[first:]
        self.acknowledge()
        return dropped

    def acknowledge(self) -> None:
        """Also called after each batch: a signal handler of a job may have raised its exception in `drop`."""
        if self._dropped:
            self._page.note_dropped([(job.id, job.claims) for job in self._dropped])
            self._dropped = []

    def _on_reclaim(self, _number: int, _frame: FrameType | None) -> None:
        self.is_requested = True
        self.drop(self._claimed, self._claimed.untaken_from)


@dataclass
class BatchReport:
    """The result of a batch, for the claim loop."""

    outcomes: Counter[str] = field(default_factory=Counter)
    snoozed: Counter[str] = field(default_factory=Counter)  # jobs by `waiting_for`
    released: int = 0  # because time was up
    guard_interrupted: bool = False  # the guard interrupted a job after a second or more: the runner timed out
    left_behind: bool = False  # a job that could not be interrupted still runs in this process
    unknown_types: Counter[str] = field(default_factory=Counter)  # jobs without a handler, by reason
    has_rows: bool = False  # jobs of sources: whether they are done is known when their rows are written


@dataclass(frozen=True)
class BatchRunner:
    invoker: Invoker
    buffer: SettleBuffer
    guard: Guard
    log: Log
    admission: Sequence[AdmissionStep] = ()
    redact: Sequence[str] = ()  # fields of payloads whose values are not logged
    sliced: list[Settlement] = field(default_factory=list)  # settled last: see release_sliced

    @cached_property
    def unstarted(self) -> UnstartedJobs:
        return UnstartedJobs(self.invoker.page)

    def run(self, batch: Sequence[Job], report: BatchReport | None = None) -> BatchReport:
        """The last outcomes stay in the buffer, which is written before the next claim."""
        self.log.write(log_messages.processing(len(batch)))
        report = report or BatchReport()
        jobs: Iterable[Job] = self.unstarted.hold(batch)
        for step in self.admission:
            jobs = step.admit(jobs, partial(self.reject, report=report))
        waiting = iter(jobs)
        for job in waiting:
            if not self.guard.may_start:
                self.release([job, *waiting], report)
                break
            if job.type not in self.buffer.fast_types:
                self.buffer.write()  # finished jobs must not wait for one that may be slow
            self.settle(job, self.invoker.run(job), report)
        self.unstarted.acknowledge()
        self.log_completed(report)
        return report

    def reject(self, job: Job, outcome: Outcome, report: BatchReport) -> None:
        self.settle(job, JobResult(outcome), report)

    def settle(self, job: Job, result: JobResult, report: BatchReport) -> JobResult | None:
        """The final result; None if the lease is lost."""
        if self.invoker.runtime.job_transaction.connection is not None:
            committed = self._settle_in_transaction(job, result)
            if committed is None:
                return None
            result = committed
        elif result.outcome.kind is OutcomeKind.SLICED:
            self.sliced.append(Settlement(job, result.outcome, result.duration_ms))
        else:
            self.buffer.add(Settlement(job, result.outcome, result.duration_ms), result.commit_now)
        report.outcomes[result.outcome.kind] += 1
        report.has_rows = report.has_rows or job.source_row is not None
        if result.outcome is not DONE:
            self.note(job, result, report)
        return result

    def release_sliced(self) -> None:
        """Called at the end of the runner: a sliced job is the first of its lane, and would be claimed at once."""
        self.invoker.page.note_sliced(len(self.sliced))
        while self.sliced:
            self.buffer.add(self.sliced.pop())

    def release(self, jobs: Iterable[Job], report: BatchReport) -> None:
        for job in jobs:
            self.buffer.add(Settlement(job, RELEASED))
            report.outcomes[RELEASED.kind] += 1
            report.released += 1

    def note(self, job: Job, result: JobResult, report: BatchReport) -> None:
        """Called for any outcome except a plain `done`."""
        had_time = (result.duration_ms or 0) >= MIN_INTERRUPTED_MS
        report.guard_interrupted |= result.cause is Cause.GUARD and had_time
        if result.unknown_type is not None:
            report.unknown_types[result.unknown_type] += 1
        elif result.outcome.waiting_for is not None:
            report.snoozed[result.outcome.waiting_for] += 1
        self._log_outcome(job, result)

    def log_completed(self, report: BatchReport) -> None:
        if report.has_rows:
            self.buffer.write()
            if unwritten := self.buffer.take_unwritten_rows():
                report.outcomes[OutcomeKind.DONE] -= unwritten
                report.outcomes[OutcomeKind.DEAD] += unwritten
        self.log.write(log_messages.jobs_completed(report.outcomes))
        for waiting_for, jobs in report.snoozed.most_common(MAX_SNOOZES_LOGGED):
            self.log.write(log_messages.jobs_snoozed(jobs, waiting_for))
        for reason, jobs in report.unknown_types.items():
            self.log.write(log_messages.jobs_without_handler(jobs, reason))

    def _settle_in_transaction(self, job: Job, result: JobResult) -> JobResult | None:
        """Commit the handler's writes and the job's `done` together; neither if the lease is lost."""
        settlement = Settlement(job, result.outcome, result.duration_ms)
        try:
            self.buffer.settle_in_transaction(self.invoker.runtime.job_transaction, settlement)
        except LostLease:
            self.buffer.note_lost(job)
            return None
        except RowChanged as error:  # the row of its source: nothing of the transaction is kept
            changed = self.invoker.after_error(self.invoker.registry.handlers[job.type], job, error, 0.0, None)
            result = replace(changed, duration_ms=result.duration_ms)
            self.buffer.add(Settlement(job, result.outcome, result.duration_ms))
        except Exception as error:  # noqa: BLE001 - from SQLAlchemy, the driver, or our explanation of them
            # The handler broke the transaction: a constraint that COMMIT checks, an error that it caught, its own
            # commit. The job fails, not this runner.
            result = replace(self.invoker.failed(job, error), duration_ms=result.duration_ms)
            self.buffer.add(Settlement(job, result.outcome, result.duration_ms))
        return result

    def _log_outcome(self, job: Job, result: JobResult) -> None:
        kind = result.outcome.kind
        seconds = (result.duration_ms or 0) / 1000
        if result.dropped:
            reason = first_line(self.redact, job.payload_text, result.dropped)
            self.log.write(log_messages.result_dropped(job.id, job.type, reason))
        elif kind is OutcomeKind.SLICED:
            slices = (job.rare_fields.slices if job.rare_fields else 0) + 1
            self.log.write(log_messages.job_sliced(job.id, job.type, slices, seconds))
        elif result.cause is Cause.GUARD:
            self.log.write(log_messages.guard_interrupted(job.id, job.type, seconds))
        has_failed = result.outcome.attempt_ending is not None and result.cause is not Cause.GUARD
        if has_failed or kind in (OutcomeKind.DEAD, OutcomeKind.CANCELLED):
            reason = first_line(self.redact, job.payload_text, result.outcome.error)
            attempt = job.attempt, job.max_attempts
            self.log.write(log_messages.job_failed(job.id, job.type, *attempt, kind.value, reason))
