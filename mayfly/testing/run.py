"""Run jobs in the process of a test: one handler with run_inline(), or all that is due with drain()."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, cast

from mayfly import json_text
from mayfly.clock import Clock, host_clock, host_now, milliseconds, pin_offset
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import DrainEndless, NeedsTestDatabase, UnknownHandler
from mayfly.fleet.runners import Assignment
from mayfly.job import Job, RareFields, checkpoint_text
from mayfly.monitoring.hooks import announcer
from mayfly.queue.count import find_lanes
from mayfly.queue.followups import BufferedJob, write_buffered
from mayfly.queue.options import JobValidator
from mayfly.queue.outcome import RELEASED, Outcome, OutcomeKind, Settler
from mayfly.registry import Handler, Registry
from mayfly.settings import Settings
from mayfly.testing.database import (
    AppWithoutDatabase,
    InlineApp,
    any_inline_app,
    inline_app,
    next_run_at,
    pinned_offset,
    would_be_enqueued,
)
from mayfly.testing.runtime import LEASE, InlineInvoker, RowlessRuntime, inline_invoker, inline_log
from runner.batch import BatchReport, BatchRunner
from runner.claims import Claims
from runner.invoke import JobResult
from runner.settle_buffer import SettleBuffer

if TYPE_CHECKING:
    from sqlalchemy import Connection as Lent

    from mayfly.testing.database import EnqueuedJob


@dataclass(frozen=True)
class Run:
    """One run of one job."""

    job: Job
    outcome: Outcome
    error: BaseException | None = None  # what its handler raised, unless that was to steer the job
    enqueued: "tuple[EnqueuedJob, ...]" = ()  # by run_inline alone: what was enqueued with its `done`

    @property
    def kind(self) -> OutcomeKind:
        """`done`, `failed` (to be tried again), `dead`, `cancelled`, `snoozed`, `sliced`: equal to the plain text."""
        return self.outcome.kind

    @property
    def result(self) -> Any:
        """What the handler returned, as it was or would be stored."""
        return None if self.outcome.result is None else json_text.decode(self.outcome.result)

    @property
    def state(self) -> Any:
        """Its last checkpoint, of this run or an earlier one."""
        return self.job.state

    @property
    def reason(self) -> str | None:
        """The first line of what is stored as `last_error`."""
        return None if self.outcome.error is None else self.outcome.error.partition("\n")[0]

    @property
    def has_failed(self) -> bool:
        """Whether an attempt was spent in vain, its last one included."""
        return self.outcome.attempt_ending is not None

    def noted_error(self) -> BaseException:
        """The error to raise in the test, with a word about where it comes from."""
        assert self.error is not None
        self.error.add_note(f"{self}\npayload: {self.job.payload_text}")
        return self.error

    def __str__(self) -> str:
        job = self.job
        because = f": {self.reason}" if self.reason else ""
        return f"job {job.id} ({job.type}) attempt {job.attempt}/{job.max_attempts}: {self.kind}{because}"


@dataclass(frozen=True)
class Drained:
    """All that a `drain()` has run, in this order. A job that was tried three times is there three times."""

    runs: tuple[Run, ...]

    @property
    def outcomes(self) -> Counter[str]:
        """How many runs ended how: {"done": 3, "failed": 1}."""
        return Counter(run.kind.value for run in self.runs)

    @property
    def failures(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.has_failed)

    def __len__(self) -> int:
        return len(self.runs)


JOB_ID = 1


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
    """Run a handler, given by its type or itself, as a runner would; what would become of its job.

    With `state=` it goes on from that checkpoint, with `slice_after=3` it is ended at its third one.
    The payload is checked as by `enqueue`. What the handler raises to steer its job is the outcome; any other error
    is raised here too, unless `raises=False`: then it is an outcome like the others, and `run.error` has it. What the
    handler has enqueued is in `run.enqueued` if it is done, and in the test's database if there is one.
    """
    with any_inline_app() as app:
        registry = app.registry
        known = _find(registry, handler)
        job = _make_job(app.settings, known, payload or {}, attempt, max_attempts, group_key)
        if state is not None:
            job.special = RareFields(checkpoint=checkpoint_text(job.type, state))
        database = cast(Database, _NoDatabase()) if isinstance(app, AppWithoutDatabase) else app.database
        with inline_invoker(app.settings, registry, database, slice_after=slice_after) as invoker:
            outcome = _run(invoker, job, writes=not isinstance(app, AppWithoutDatabase)).outcome
            run = Run(job, outcome, invoker.errors.get(job.id), would_be_enqueued(_enqueued(invoker, job, outcome)))
    if raises and run.error is not None:
        raise run.noted_error()
    return run


def _find(registry: Registry, wanted: str | Callable[..., Any]) -> Handler:
    if isinstance(wanted, str):
        found = registry.get(wanted)
    else:
        found = next((each for each in registry.handlers.values() if each.function is wanted), None)
    if found is None:
        raise UnknownHandler(wanted, registry.handlers, registry.failures)
    return found


def _make_job(
    settings: Settings,
    handler: Handler,
    payload: Mapping[str, Any],
    attempt: int,
    max_attempts: int | None,
    group_key: str | None,
) -> Job:
    validator = JobValidator.from_settings(settings, host_now)
    new = validator.validate(handler.type, payload, handler, max_attempts=max_attempts, group_key=group_key)
    return Job(
        JOB_ID, new.type, new.lane, new.payload, attempt, new.max_attempts, claims=1, group_key=new.group_key,
        cancel_poll_at=inf,
    )  # fmt: skip


def _run(invoker: InlineInvoker, job: Job, writes: bool) -> JobResult:
    """What the handler wrote and enqueued is committed, as a runner would with the job's outcome."""
    result = _admit_and_run(invoker, job)
    if invoker.runtime.context.limits is not None:
        invoker.runtime.context.limits.release(invoker.database, job)
    transaction = invoker.runtime.job_transaction
    held = _enqueued(invoker, job, result.outcome) if writes else ()
    if transaction.connection is None:
        if held:
            invoker.database.run(lambda connection: write_buffered(connection, held, invoker.database.clock.now()))
        return result
    try:
        transaction.run(lambda connection: _write_instead_of_settling(connection, held))
        transaction.commit()
    except Exception as error:  # noqa: BLE001 - of SQLAlchemy, of the driver, or of ours about them
        return invoker.failed(job, error)
    return result


def _admit_and_run(invoker: InlineInvoker, job: Job) -> JobResult:
    """Without limits: a job without a row cannot wait for them."""
    rejected: list[JobResult] = []
    jobs: Iterable[Job] = [job]
    for step in invoker.checks:
        jobs = step.admit(jobs, lambda _job, outcome: rejected.append(JobResult(outcome)))
    return next((invoker.run(each) for each in jobs), None) or rejected[0]


def _enqueued(invoker: InlineInvoker, job: Job, outcome: Outcome) -> Sequence[BufferedJob]:
    """What was buffered until the last checkpoint; and if the job is done, until its end."""
    runtime = invoker.runtime
    kept = runtime.enqueued if isinstance(runtime, RowlessRuntime) else []
    return [*kept, *(job.held or ())] if outcome.kind is OutcomeKind.DONE else kept


def _write_instead_of_settling(connection: Connection, held: Sequence[BufferedJob]) -> None:
    connection.execute("SELECT 1")  # fails if the handler broke its transaction
    write_buffered(connection, held)


class _NoDatabase:
    """For handlers that use no database."""

    @property
    def clock(self) -> Clock:
        return host_clock()

    def run(self, _work: Callable[..., Any]) -> Any:
        raise NeedsTestDatabase

    def transaction(self) -> "AbstractContextManager[Lent]":
        raise NeedsTestDatabase

    def read(self, _work: Callable[..., Any]) -> NoReturn:
        raise NeedsTestDatabase


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
    """Run what is due until nothing is, and what that enqueues; what happened, run by run.

    Lanes are served in the order of their names, jobs within a lane as by a runner. With `advance=True` the queue's
    clock is moved on to whatever is due next, retries included; with a timedelta no further than that. With
    `slice_after=3` each run is ended at its third checkpoint, and goes on in another. An error that
    a handler did not raise to steer its job ends the drain and is raised here too, unless `raises=False`.
    """
    app = inline_app()
    runs: list[Run] = []
    with pinned_offset(app.database.clock.offset), _opened(app, lanes, advance, slice_after) as draining:
        while (job := draining.next()) is not None:
            if len(runs) == most:
                draining.release(job)
                raise DrainEndless(most)
            run = draining.run(job)
            runs.append(run)
            if raises and run.error is not None:
                raise run.noted_error()
    return Drained(tuple(runs))


@contextmanager
def _opened(
    app: InlineApp, lanes: Iterable[str] | None, advance: bool | timedelta, slice_after: int | None
) -> Iterator["_Drain"]:
    database, settings = app.database, app.settings
    now = database.clock.now()
    on_dead = announcer(settings, database) if settings.hooks_on_dead else None
    worker_id, cycle_id = f"drain-{os.getpid()}-{next(_drains)}", milliseconds(now)
    with inline_invoker(settings, app.registry, database, on_dead, worker_id, slice_after) as invoker:
        buffer = SettleBuffer(database, Settler(worker_id, cycle_id, worker_id), inline_log())
        yield _Drain(
            database,
            invoker,
            BatchRunner(invoker, buffer, invoker.guard, inline_log(), invoker.admission),
            Assignment(worker_id, "", cycle_id, inf, settings.worker_timeout, now + LEASE),
            None if lanes is None else sorted(lanes),
            None if advance is True else now + (advance or timedelta(0)),
        )


@dataclass(frozen=True)
class _Drain:
    database: Database
    invoker: InlineInvoker
    batches: BatchRunner
    assignment: Assignment  # without the lane
    lanes: list[str] | None  # None: all
    until: datetime | None  # how far the clock may be moved; None: as far as there are jobs

    def next(self) -> Job | None:
        """The next job, claimed by itself, so that what a job enqueues can come before what was there."""
        while True:
            lanes = self._lanes()
            for lane in lanes:
                for job in self._claims(lane).more(1):
                    return job
            if not self._advance(lanes):
                return None

    def run(self, job: Job) -> Run:
        """Its outcome is written when this returns."""
        result = self._run(job)
        self.batches.release_sliced()
        self.batches.buffer.flush()
        error = self.invoker.errors.pop(job.id, None)
        if self.invoker.registry.get(job.type) is None:
            registry = self.invoker.registry
            error = UnknownHandler(job.type, registry.handlers, registry.failures)
            if result is not None and result.unknown_type:  # released, and due again at once
                raise error
        return Run(job, RELEASED if result is None else result.outcome, error)

    def _run(self, job: Job) -> JobResult | None:
        """None if the lease is lost."""
        results: list[JobResult | None] = []

        def settle(job: Job, result: JobResult) -> None:
            results.append(self.batches.settle(job, result, BatchReport()))

        for each in self.batches.admitted([job], lambda job, outcome: settle(job, JobResult(outcome))):
            settle(each, self.invoker.run(each))
        return results[0]

    def release(self, job: Job) -> None:
        self.batches.release([job], BatchReport())
        self.batches.buffer.flush()

    def _lanes(self) -> list[str]:
        if self.lanes is not None:
            return self.lanes
        return sorted(self.database.read(lambda connection: find_lanes(connection)))

    def _claims(self, lane: str) -> Claims:
        """A new one each time: only a fresh runner may claim a job that has crashed."""
        return Claims(self.database, self.batches.buffer, replace(self.assignment, lane=lane), batch_size=1)

    def _advance(self, lanes: list[str]) -> bool:
        """Move the clock to the next due job, if there is one within the allowed time."""
        due_at = self.database.read(lambda connection: next_run_at(connection, lanes))
        clock = self.database.clock
        now = clock.now()
        if due_at is None or due_at <= now or (self.until is not None and due_at > self.until):
            return False
        pin_offset(clock.offset + (due_at - now))
        return True
