"""Run jobs in the process of a test: one handler with run_inline(), or all due jobs with drain()."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Any

from mayfly import json_text
from mayfly.clock import host_clock, milliseconds, pin_offset
from mayfly.errors import DrainEndless, UnknownHandler
from mayfly.fleet.runners import Assignment
from mayfly.job import Job, RareFields, checkpoint_text
from mayfly.monitoring.hooks import announcer
from mayfly.queue.count import job_groups
from mayfly.queue.followups import BufferedJob, NewChain, write_buffered
from mayfly.queue.insert import NewJob
from mayfly.queue.outcome import RELEASED, Outcome, OutcomeKind, Settler
from mayfly.queue.sources import Sources
from mayfly.registry import Handler, Registry
from mayfly.schema.tables import PENDING
from mayfly.testing.database import AppWithoutDatabase, EnqueuedJob, any_inline_app, inline_app, pinned_offset
from mayfly.testing.runtime import LEASE, InlineInvoker, RowlessRuntime, inline_invoker, inline_log, skip_check
from runner.batch import AdmissionStep, BatchReport, BatchRunner, PauseCache
from runner.claims import Claims
from runner.invoke import JobResult
from runner.limits import LimitAdmission
from runner.settle_buffer import SettleBuffer
from runner.sources import RowClaims


@dataclass(frozen=True)
class Run:
    """One run of one job."""

    job: Job
    outcome: Outcome
    error: BaseException | None = None  # raised by the handler, except for Retry, Snooze, Cancel and Dead
    enqueued: tuple[EnqueuedJob, ...] = ()  # only from run_inline: the jobs enqueued with its `done`

    @property
    def kind(self) -> OutcomeKind:
        """`done`, `failed` (will be retried), `dead`, `cancelled`, `snoozed`, `sliced`: equal to the plain string."""
        return self.outcome.kind

    @property
    def result(self) -> Any:
        """The handler's return value, as it was or would be stored."""
        return None if self.outcome.result is None else json_text.decode(self.outcome.result)

    @property
    def state(self) -> Any:
        """Its last checkpoint, of this run or an earlier one."""
        return self.job.state

    @property
    def reason(self) -> str | None:
        """The first line of `last_error`."""
        return None if self.outcome.error is None else self.outcome.error.partition("\n")[0]

    @property
    def has_failed(self) -> bool:
        """Whether an attempt failed, including the last one."""
        return self.outcome.attempt_ending is not None

    def noted_error(self) -> BaseException:
        """The error to raise in the test, with a note about the job."""
        assert self.error is not None
        self.error.add_note(f"{self}\npayload: {self.job.payload_text}")
        return self.error

    def __str__(self) -> str:
        job = self.job
        because = f": {self.reason}" if self.reason else ""
        return f"job {job.id} ({job.type}) attempt {job.attempt}/{job.max_attempts}: {self.kind}{because}"


@dataclass(frozen=True)
class Drained:
    """All runs of a `drain()`, in order. A job with three attempts is in there three times."""

    runs: tuple[Run, ...]

    @property
    def outcomes(self) -> Counter[str]:
        """The number of runs by outcome: {"done": 3, "failed": 1}."""
        return Counter(run.kind.value for run in self.runs)

    @property
    def failures(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.has_failed)

    def __len__(self) -> int:
        return len(self.runs)


def run_inline(
    handler: str | Callable[..., Any],
    payload: Mapping[str, Any] | None = None,
    *,
    attempt: int = 1,
    max_attempts: int | None = None,
    group_key: str | None = None,
    state: Any = None,
    slice_after: int | None = None,
    raises: bool = True,
) -> Run:
    """Run a handler, given by its type or as a function, as a runner would; returns the outcome of its job.

    With `state=` it continues from that checkpoint, with `slice_after=3` it ends at its third one. The payload is
    validated as by `enqueue`. Retry, Snooze, Cancel and Dead decide the outcome; any other error is raised here, too,
    unless `raises=False`: then the outcome is a failure, and `run.error` has the error. If the job is done, the jobs
    that its handler enqueued are in `run.enqueued`, and in the test's database if there is one.
    """
    with any_inline_app() as app:
        known = _find(app.registry, handler)
        new = app.validator.validate(known.type, payload or {}, known, max_attempts=max_attempts, group_key=group_key)
        job = Job(1, new.type, new.lane, new.payload, attempt, new.max_attempts, claims=1, group_key=new.group_key)
        job.cancel_poll_at = inf  # it has no row to query
        if state is not None:
            job.rare_fields = RareFields(checkpoint=checkpoint_text(job.type, state))
        with inline_invoker(app, slice_after) as invoker:
            outcome = _run(invoker, job, writes=not isinstance(app, AppWithoutDatabase)).outcome
            run = Run(
                job, outcome, invoker.errors.get(job.id), tuple(_would_be_enqueued(_enqueued(invoker, job, outcome)))
            )
    if raises and run.error is not None:
        raise run.noted_error()
    return run


def _would_be_enqueued(buffered: Iterable[BufferedJob]) -> Iterator[EnqueuedJob]:
    """From buffered jobs, which have no row yet, or no known one."""
    same = ("type", "lane", "priority", "max_attempts", "unique_key", "group_key")
    for each in buffered:
        new = each.first if isinstance(each, NewChain) else each
        if isinstance(new, NewJob):
            payload, run_at = json_text.decode(new.payload), new.run_at or host_clock().now()
            yield EnqueuedJob(payload=payload, run_at=run_at, **{name: getattr(new, name) for name in same})


def _find(registry: Registry, wanted: str | Callable[..., Any]) -> Handler:
    if isinstance(wanted, str):
        found = registry.get(wanted)
    else:
        found = next((each for each in registry.handlers.values() if each.function is wanted), None)
    if found is None:
        raise UnknownHandler(wanted, registry.handlers, registry.failures)
    return found


def _run(invoker: InlineInvoker, job: Job, writes: bool) -> JobResult:
    """Commits what the handler wrote and enqueued, as a runner would with the job's outcome."""
    result = _admit_and_run(invoker, job)
    if invoker.runtime.limits is not None:
        invoker.runtime.limits.release(invoker.database, job)
    database, transaction = invoker.database, invoker.runtime.job_transaction
    buffered = _enqueued(invoker, job, result.outcome) if writes else ()
    if transaction.connection is None:
        if buffered:
            database.run(lambda connection: write_buffered(connection, buffered, database.clock.now()))
        return result
    try:
        database.run(lambda connection: connection.execute("SELECT 1"))  # fails if the handler broke it
        database.run(lambda connection: write_buffered(connection, buffered))
        transaction.commit()
    except Exception as error:  # noqa: BLE001 - from SQLAlchemy, the driver, or our explanation of them
        return invoker.failed(job, error)
    return result


def _admit_and_run(invoker: InlineInvoker, job: Job) -> JobResult:
    """Checks no limits: a job without a row cannot wait for them."""
    rejected: list[JobResult] = []
    jobs = skip_check(invoker).admit([job], lambda _job, outcome: rejected.append(JobResult(outcome)))
    return next((invoker.run(each) for each in jobs), None) or rejected[0]


def _enqueued(invoker: InlineInvoker, job: Job, outcome: Outcome) -> Sequence[BufferedJob]:
    """The jobs buffered until the last checkpoint; if the job is done, until its end."""
    runtime = invoker.runtime
    kept = runtime.enqueued if isinstance(runtime, RowlessRuntime) else []
    return [*kept, *(job.buffered_jobs or ())] if outcome.kind is OutcomeKind.DONE else kept


MAX_JOBS = 1000  # runs per drain; a handler that enqueues itself reaches this within seconds

_drains = itertools.count(1)


def drain(
    *,
    lanes: Iterable[str] | None = None,
    advance: bool | timedelta = False,
    slice_after: int | None = None,
    raises: bool = True,
    most: int = MAX_JOBS,
) -> Drained:
    """Run due jobs, due rows of sources, and due jobs that these enqueue, until none is left; returns all runs.

    Lanes are served by name, jobs within a lane in the order of a runner. With `advance=True` the queue's clock is
    moved forward to the next due job, including retries; with a timedelta, at most by that. With `slice_after=3` each
    run ends at its third checkpoint and continues in another run. An error other than Retry, Snooze, Cancel and Dead
    ends the drain and is raised here, too, unless `raises=False`.
    """
    app = inline_app()
    database, settings, now = app.database, app.settings, app.now()
    on_dead = announcer(settings, database) if settings.hooks_on_dead else None
    worker_id, cycle_id = f"drain-{os.getpid()}-{next(_drains)}", milliseconds(now)
    sources = Sources(settings.sources.values(), database.dialect)
    settler = Settler(worker_id, cycle_id, worker_id, success_lanes=settings.success_lanes, sources=sources)
    with pinned_offset(database.clock.offset), inline_invoker(app, slice_after, worker_id, on_dead) as invoker:
        draining = _Drain(
            invoker,
            _recorded_batches(invoker, settler),
            Assignment(worker_id, "", cycle_id, inf, settings.worker_timeout, now + LEASE),
            None if lanes is None else sorted(lanes),
            None if advance is True else now + (advance or timedelta(0)),
            sources,
        )
        return Drained(tuple(draining.runs(raises, most)))


@dataclass(frozen=True)
class _RecordedBatches(BatchRunner):
    results: list[JobResult | None] = field(default_factory=list)  # None if the lease is lost

    def settle(self, job: Job, result: JobResult, report: BatchReport) -> JobResult | None:
        self.results.append(super().settle(job, result, report))
        return self.results[-1]


def _recorded_batches(invoker: InlineInvoker, settler: Settler) -> _RecordedBatches:
    admission: list[AdmissionStep] = [skip_check(invoker)]
    if invoker.runtime.limits is not None:
        admission.append(LimitAdmission(invoker, invoker.runtime.limits))
    log = inline_log()
    return _RecordedBatches(
        invoker, SettleBuffer(invoker.database, settler, invoker.page, log), invoker.guard, log, admission
    )


@dataclass(frozen=True)
class _Drain:
    invoker: InlineInvoker
    batches: _RecordedBatches
    assignment: Assignment  # without the lane
    lanes: list[str] | None  # None: all
    until: datetime | None  # how far the clock may be moved; None: as far as there are jobs
    sources: Sources

    def runs(self, raises: bool, most: int) -> Iterator[Run]:
        for number in itertools.count():
            job = self.next()
            if job is None:
                return
            if number == most:
                self.batches.release([job], BatchReport())
                self.batches.buffer.flush()
                raise DrainEndless(most)
            run = self.run(job)
            if raises and run.error is not None:
                raise run.noted_error()
            yield run

    def next(self) -> Job | None:
        """The next job, claimed alone, so that a new job can come before older ones."""
        database, first = self.invoker.database, list[str]()
        while True:
            started_at = database.clock.now()
            for job in self._claimed_in(first):
                return job
            first_run_at = self._first_run_at()
            due = self._due_lanes(first_run_at)
            for job in self._claimed_in(due):
                return job
            first = self._advance(self._first_run_at() if due else first_run_at, started_at)
            if not first:
                return None

    def _claimed_in(self, lanes: Iterable[str]) -> Iterator[Job]:
        return (job for lane in lanes for job in self._claims(lane).more(1))

    def _first_run_at(self) -> dict[str, datetime]:
        """Of the pending jobs of each lane."""
        found: dict[str, datetime] = {}
        for group in self.invoker.database.read(job_groups):
            if group.status == PENDING and (self.lanes is None or group.lane in self.lanes):
                found[group.lane] = min(group.first_run_at, found.get(group.lane, group.first_run_at))
        return found

    def _due_lanes(self, first_run_at: Mapping[str, datetime]) -> list[str]:
        """A claim finds out whether a source has due rows."""
        now = self.invoker.database.clock.now()
        served = {each.source.lane for each in self.sources.tables.values()}
        due = {lane for lane, run_at in first_run_at.items() if run_at <= now}
        return sorted(due | (served if self.lanes is None else served.intersection(self.lanes)))

    def run(self, job: Job) -> Run:
        """The outcome is written when this returns."""
        self.batches.run([job])
        result = self.batches.results.pop()
        self.batches.release_sliced()
        self.batches.buffer.flush()
        error = self.invoker.errors.pop(job.id, None)
        registry = self.invoker.registry
        if registry.get(job.type) is None:
            error = UnknownHandler(job.type, registry.handlers, registry.failures)
            if registry.failures:  # for any `raises`: a job cannot run before the module is fixed
                raise error
        return Run(job, RELEASED if result is None else result.outcome, error)

    def _claims(self, lane: str) -> Claims:
        """A new one each time: only a fresh runner may claim a job that has crashed."""
        invoker, pauses = self.invoker, PauseCache(lane, self.invoker.database)
        rows = RowClaims(
            self.sources,
            invoker.database,
            pauses,
            self.batches.log,
            lambda type_name: invoker.registry.max_attempts(type_name, inline_app().settings.max_attempts),
        )
        assignment = replace(self.assignment, lane=lane)
        return Claims(
            invoker.database, self.batches.buffer, assignment, 1, pauses, middleware=[rows.around], steps=[rows.claim]
        )  # fmt: skip

    def _advance(self, first_run_at: Mapping[str, datetime], since: datetime) -> list[str]:
        """Move the clock to the next job that was not due at `since`, if that is within the allowed time.

        Returns the lanes with a job at that time.
        """
        clock = self.invoker.database.clock
        due_at = min(first_run_at.values(), default=None)
        if due_at is None or due_at <= since or (self.until is not None and due_at > self.until):
            return []
        pin_offset(clock.offset + max(due_at - clock.now(), timedelta(0)))
        return [lane for lane, run_at in first_run_at.items() if run_at == due_at]
