"""Run a claimed batch: admission steps, then one job after the other; release the jobs that there was no time for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mayfly import log_messages
from mayfly.db.database import Database
from mayfly.errors import LostLease
from mayfly.job import Job
from mayfly.log import Log
from mayfly.queue.outcome import DONE, RELEASED, Outcome, OutcomeKind, Settlement
from mayfly.queue.policy import skip_outcome
from runner.guard import Cause, Guard
from runner.invoke import Invoker, JobResult
from runner.settle_buffer import SettleBuffer

LOGGED_KINDS = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.DEAD, OutcomeKind.CANCELLED)
MIN_INTERRUPTED_MS = 1000  # a job that was interrupted earlier had started too late: a plain backlog is no timeout
MAX_SNOOZES_LOGGED = 3  # reasons per batch; each job has its own in its row

Reject = Callable[[Job, Outcome], object]


class AdmissionStep(Protocol):
    """Decides before jobs start, each when its turn comes. Steps run in the order of BatchRunner.admission."""

    def admit(self, jobs: Iterable[Job], reject: Reject) -> Iterable[Job]:
        """The jobs that may run; the others are passed to `reject` with their outcome.

        A step that has nothing to check returns `jobs` itself, so that it costs nothing per job.
        """


class CancelAndExpiryCheck:
    """Cancels jobs with a cancellation request, and jobs that have expired."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def admit(self, jobs: Iterable[Job], reject: Reject) -> Iterable[Job]:
        if isinstance(jobs, list) and all(job.special is None for job in jobs):
            return jobs
        return admit_each(jobs, lambda job: skip_outcome(job, None, self._database.clock.now()), reject)


class RequiredSettingsCheck:
    """Cancels jobs whose handler requires settings that are missing, by type."""

    def __init__(self, missing: Mapping[str, tuple[str, ...]], database: Database) -> None:
        self._missing = missing
        self._database = database

    def admit(self, jobs: Iterable[Job], reject: Reject) -> Iterable[Job]:
        if not self._missing:
            return jobs

        def outcome_of(job: Job) -> Outcome | None:
            return skip_outcome(job, None, self._database.clock.now(), self._missing.get(job.type, ()))

        return admit_each(jobs, outcome_of, reject)


def admit_each(jobs: Iterable[Job], outcome_of: Callable[[Job], Outcome | None], reject: Reject) -> Iterator[Job]:
    for job in jobs:
        outcome = outcome_of(job)
        if outcome is None:
            yield job
        else:
            reject(job, outcome)


@dataclass
class BatchReport:
    """What the claim loop must know of a batch."""

    outcomes: Counter[str] = field(default_factory=Counter)
    snoozed: Counter[str] = field(default_factory=Counter)  # jobs by what they wait for
    released: int = 0  # for lack of time
    guard_interrupted: bool = False  # a job that had run for a second or more: its runner timed out
    left_behind: bool = False  # a job that could not be interrupted still runs in this process
    unknown_type: bool = False

    def add(self, other: "BatchReport") -> None:
        """The rest of the same claim."""
        self.outcomes += other.outcomes
        self.snoozed += other.snoozed
        self.released += other.released
        self.guard_interrupted |= other.guard_interrupted
        self.left_behind |= other.left_behind
        self.unknown_type |= other.unknown_type


@dataclass(frozen=True)
class BatchRunner:
    invoker: Invoker
    buffer: SettleBuffer
    guard: Guard
    log: Log
    admission: Sequence[AdmissionStep] = ()
    sliced: list[Settlement] = field(default_factory=list)  # settled last: see release_sliced

    def run(self, batch: Sequence[Job]) -> BatchReport:
        """The last outcomes stay in the buffer: they are written before the next claim."""
        self.log.say(log_messages.processing(len(batch)))
        report = BatchReport()
        invoker, guard, buffer = self.invoker, self.guard, self.buffer
        jobs = self.admitted(batch, partial(self.reject, report=report))
        for job in jobs:
            if not guard.may_start:
                self.release([job, *jobs], report)
                break
            if job.type not in buffer.fast_types:
                buffer.write()  # finished jobs must not wait for one that may be slow
            self.settle(job, invoker.run(job), report)
        self.log_completed(report)
        return report

    def admitted(self, batch: Sequence[Job], reject: Reject) -> Iterator[Job]:
        jobs: Iterable[Job] = batch
        for step in self.admission:
            jobs = step.admit(jobs, reject)
        return iter(jobs)

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
        if result.outcome is not DONE:
            self.note(job, result, report)
        return result

    def release_sliced(self) -> None:
        """At the end of the runner: a slice is the first job of its lane, and would be claimed again at once."""
        self.invoker.page.note_sliced(len(self.sliced))
        while self.sliced:
            self.buffer.add(self.sliced.pop())

    def release(self, jobs: Iterable[Job], report: BatchReport) -> None:
        for job in jobs:
            self.buffer.add(Settlement(job, RELEASED))
            report.outcomes[RELEASED.kind] += 1
            report.released += 1

    def note(self, job: Job, result: JobResult, report: BatchReport) -> None:
        """Any outcome but a plain `done`."""
        had_time = (result.duration_ms or 0) >= MIN_INTERRUPTED_MS
        report.guard_interrupted |= result.cause is Cause.GUARD and had_time
        report.unknown_type |= result.unknown_type
        if result.outcome.waiting_for is not None:
            report.snoozed[result.outcome.waiting_for] += 1
        self._log_outcome(job, result)

    def log_completed(self, report: BatchReport) -> None:
        self.log.say(log_messages.jobs_completed(report.outcomes))
        for waiting_for, jobs in report.snoozed.most_common(MAX_SNOOZES_LOGGED):
            self.log.say(log_messages.jobs_snoozed(jobs, waiting_for))

    def _settle_in_transaction(self, job: Job, result: JobResult) -> JobResult | None:
        """The handler's writes and its job's `done` in one commit; neither if the lease is lost."""
        settlement = Settlement(job, result.outcome, result.duration_ms)
        try:
            self.buffer.settle_in_transaction(self.invoker.runtime.job_transaction, settlement)
        except LostLease:
            self.buffer.note_lost(job)
            return None
        except Exception as error:  # noqa: BLE001 - of SQLAlchemy, of the driver, or of ours about them
            # The handler broke it: by a constraint that COMMIT checks, an error it swallowed, a commit of its own.
            # That fails its job, not this runner.
            result = self.invoker.failed(job, error)._replace(duration_ms=result.duration_ms)
            self.buffer.add(Settlement(job, result.outcome, result.duration_ms))
        return result

    def _log_outcome(self, job: Job, result: JobResult) -> None:
        kind, error = result.outcome.kind, result.outcome.error or ""
        seconds = (result.duration_ms or 0) / 1000
        if result.dropped:
            self.log.say(log_messages.result_dropped(job.id, job.type, result.dropped))
        elif kind is OutcomeKind.SLICED:
            slices = (job.special.slices if job.special else 0) + 1
            self.log.say(log_messages.job_sliced(job.id, job.type, slices, seconds))
        elif result.cause is Cause.GUARD:
            self.log.say(log_messages.guard_interrupted(job.id, job.type, seconds))
        elif kind in LOGGED_KINDS:
            reason = error.partition("\n")[0]
            self.log.say(log_messages.job_failed(job.id, job.type, job.attempt, job.max_attempts, kind.value, reason))
