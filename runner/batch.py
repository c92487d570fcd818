"""Run a claimed batch, one job after the other, and give back what there was no time for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.errors import LostLease
from mayfly.job import Job
from mayfly.log import Log
from mayfly.queue.outcome import DEFERRED, DONE, RELEASED, OutcomeKind, Settlement
from runner.guard import Cause, Guard
from runner.invoke import Invoker, JobResult
from runner.settle_buffer import SettleBuffer

if TYPE_CHECKING:
    from runner.deferral import Deferral
    from runner.limits import LimitGate

LOGGED_KINDS = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.DEAD, OutcomeKind.CANCELLED)
MAX_SNOOZES_LOGGED = 3  # reasons, of a batch; each job has its own in its row


@dataclass
class Report:
    """What a batch showed that its runner must act on."""

    outcomes: Counter[str] = field(default_factory=Counter)
    put_off: Counter[str] = field(default_factory=Counter)  # by what they wait for
    given_back: int = 0
    guard_interrupted: bool = False
    left_behind: bool = False  # a job that could not be interrupted still runs in this process
    met_unknown: bool = False

    def add(self, other: "Report") -> None:
        """What the rest of the same claim showed."""
        self.outcomes += other.outcomes
        self.put_off += other.put_off
        self.given_back += other.given_back
        self.guard_interrupted |= other.guard_interrupted
        self.left_behind |= other.left_behind
        self.met_unknown |= other.met_unknown


@dataclass(frozen=True)
class BatchRunner:
    invoker: Invoker
    outbox: SettleBuffer
    guard: Guard
    log: Log
    aside: list[Settlement] = field(default_factory=list)  # ours until we end, so that nobody takes them meanwhile
    gate: "LimitGate | None" = None  # where handlers declare limits
    foresight: "Deferral | None" = None  # where jobs usually take long

    def run(self, batch: Sequence[Job]) -> Report:
        """The last outcomes are left in the outbox: they are written before the next claim."""
        self.log.say(log_messages.processing(len(batch)))
        report = Report()
        remaining = self.admitted(batch, report)
        for job in remaining:
            if not self.guard.may_start:
                self.give_back([job, *remaining], report)
                break
            self.run_one(job, report)
        self.tell_completed(report)
        return report

    def admitted(self, batch: Sequence[Job], report: Report) -> Iterator[Job]:
        """Those that may run. Who must wait, for more time or a limit, is seen to here."""
        fitting = self.fitting(batch, report)
        return fitting if self.gate is None else self.gate.in_turn(fitting, partial(self.conclude, report=report))

    def fitting(self, jobs: Sequence[Job], report: Report) -> Iterator[Job]:
        """Those that there is time for."""
        if self.foresight is None:
            return iter(jobs)
        return self.foresight.fitting(jobs, partial(self.defer, report=report))

    def defer(self, job: Job, report: Report) -> None:
        """Like a slice it stays ours to the end: it would be taken again at once, by somebody without the time."""
        self.aside.append(Settlement(job, DEFERRED))
        report.outcomes[DEFERRED.kind] += 1

    @property
    def claims_no_more(self) -> bool:
        return self.foresight is not None and self.foresight.has_enough

    def tell_completed(self, report: Report) -> None:
        self.log.say(log_messages.jobs_completed(report.outcomes))
        for waiting_for, jobs in report.put_off.most_common(MAX_SNOOZES_LOGGED):
            self.log.say(log_messages.jobs_snoozed(jobs, waiting_for))

    def run_one(self, job: Job, report: Report) -> JobResult | None:
        """What became of it; None if it was no longer ours."""
        self.outbox.before(job.type)
        return self.conclude(job, self.invoker.run(job), report)

    def conclude(self, job: Job, became: JobResult, report: Report) -> JobResult | None:
        ran = self._settle(job, became)
        if ran is None:
            return None
        report.outcomes[ran.outcome.kind] += 1
        if ran.outcome is not DONE:
            self.note(job, ran, report)
        return ran

    def note(self, job: Job, ran: JobResult, report: Report) -> None:
        """What is not plainly done is remembered, and told if it is worth a line."""
        report.guard_interrupted |= ran.cause is Cause.GUARD
        report.met_unknown |= ran.unknown
        if ran.outcome.waiting_for is not None:
            report.put_off[ran.outcome.waiting_for] += 1
        self._tell(job, ran)

    def _settle(self, job: Job, ran: JobResult) -> JobResult | None:
        """What became of the job at last; None if it is no longer ours."""
        if self.invoker.lifeline.opened.connection is not None:
            return self._settle_with_handler(job, ran)
        self.settle_or_put_aside(Settlement(job, ran.outcome, ran.duration_ms), ran.at_once)
        return ran

    def settle_or_put_aside(self, settlement: Settlement, at_once: bool = False) -> None:
        """A slice stays ours to the end: it is the first of its lane, and would be taken again at once."""
        if settlement.outcome.kind is OutcomeKind.SLICED:
            self.aside.append(settlement)
        else:
            self.outbox.add(settlement, at_once)

    def give_back_aside(self) -> None:
        """At the end of this runner's life. The page tells the dispatcher that another one may be no help now."""
        sliced = sum(each.outcome.kind is OutcomeKind.SLICED for each in self.aside)
        self.invoker.page.note_aside(sliced, self.foresight.deferred if self.foresight is not None else 0)
        while self.aside:
            self.outbox.add(self.aside.pop())

    def _settle_with_handler(self, job: Job, ran: JobResult) -> JobResult | None:
        """The handler's writes and its job's `done` in one commit; neither if the job is no longer ours."""
        try:
            self.outbox.settle_in(self.invoker.lifeline.opened, Settlement(job, ran.outcome, ran.duration_ms))
        except LostLease:
            self.outbox.note_lost(job)
            return None
        except Exception as error:  # noqa: BLE001 - of SQLAlchemy, of the driver, or of ours about them
            # The handler broke it: by a constraint that COMMIT checks, an error it swallowed, a commit of its own.
            # That fails its job, not this runner.
            return self._settle(job, self.invoker.failed(job, error)._replace(duration_ms=ran.duration_ms))
        return ran

    def give_back(self, jobs: Iterable[Job], report: Report) -> None:
        for job in jobs:
            self.outbox.add(Settlement(job, RELEASED))
            report.outcomes[RELEASED.kind] += 1
            report.given_back += 1

    def _tell(self, job: Job, ran: JobResult) -> None:
        kind, error = ran.outcome.kind, ran.outcome.error or ""
        if ran.dropped:
            self.log.say(log_messages.result_dropped(job.id, job.type, ran.dropped))
        elif kind is OutcomeKind.SLICED:
            slices = (job.special.slices if job.special else 0) + 1
            self.log.say(log_messages.job_sliced(job.id, job.type, slices, (ran.duration_ms or 0) / 1000))
        elif ran.cause is Cause.GUARD:
            self.log.say(log_messages.guard_interrupted(job.id, job.type, (ran.duration_ms or 0) / 1000))
        elif kind in LOGGED_KINDS:
            reason = error.partition("\n")[0]
            self.log.say(log_messages.job_failed(job.id, job.type, job.attempt, job.max_attempts, kind.value, reason))
