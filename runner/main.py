"""A runner: start-up, the optional features, and the claim loop."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from mayfly import log_messages, schema
from mayfly.client import load_registry, use_app
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import ExtraMissing, MayflyError
from mayfly.fleet.runners import Assignment
from mayfly.job import Job
from mayfly.log import Log
from mayfly.monitoring.hooks import AFTER, BEFORE, announcer, find_hooks
from mayfly.process import exits, timing
from mayfly.process.status_page import StatusPage
from mayfly.queue.outcome import Settler
from mayfly.queue.policy import Backoff
from mayfly.registry import Registry, missing_settings
from mayfly.settings import Settings
from runner.batch import AdmissionStep, BatchReport, BatchRunner, PauseCache, SkipCheck
from runner.claims import ClaimLock, ClaimMiddleware, Claims, ClaimStep
from runner.guard import Guard
from runner.invoke import Invoker, JobObserver, JobObservers, open_hooks
from runner.job_runtime import HandlerRuntime, RunnerApp
from runner.settle_buffer import SettleBuffer

if TYPE_CHECKING:
    from mayfly.limits.client import JobLimits
    from mayfly.queue.sources import Sources
    from runner.lane_changes import LaneChanges
    from runner.limits import LimitAdmission


@dataclass(frozen=True)
class Inherited:
    """Objects that a forked runner takes over from its parent."""

    database: Database  # closed before the fork, so that no connection is shared
    log: Log | None = None
    registry: Registry | None = None


def inherit(settings: Settings, database: Database, log: Log) -> Inherited:
    """Import handlers, hooks and tracing once for all runners of a lane; each runner logs missing ones itself."""
    registry = load_registry(settings)
    list(find_hooks(settings, BEFORE, AFTER))
    if settings.otlp_endpoint is not None:
        with suppress(ModuleNotFoundError):
            import runner.tracing  # noqa: F401 - OpenTelemetry is optional; only runners start its threads
    return Inherited(database, log, registry)


@dataclass
class Runner:
    """The parts of one runner, and the points at which optional features plug in."""

    assignment: Assignment
    settings: Settings
    database: Database
    guard: Guard
    page: StatusPage
    log: Log
    registry: Registry

    admission: list[AdmissionStep] = field(default_factory=list)  # before each job, in this order
    observers: list[JobObserver] = field(default_factory=list)  # around each handler, the outermost first
    claim_middleware: list[ClaimMiddleware] = field(default_factory=list)  # around each claim
    claim_steps: list[ClaimStep] = field(default_factory=list)  # in its transaction, after its jobs
    due_checks: list[Callable[[], bool]] = field(default_factory=list)  # whether there is work that is no job yet
    idle_steps: list[Callable[[], bool]] = field(default_factory=list)  # if the lane is empty: true to claim again
    after_batch: list[Callable[[Sequence[Job], BatchReport, float], None]] = field(default_factory=list)
    stop_conditions: list[Callable[[], bool]] = field(default_factory=list)  # after a batch: true to claim no more
    on_close: list[Callable[[], None]] = field(default_factory=list)
    on_dead: Callable[[Job], None] | None = None
    job_limits: "JobLimits | None" = None
    limit_admission: "LimitAdmission | None" = None  # also in `admission`; concurrent jobs acquire differently
    executor: Callable[[Sequence[Job]], BatchReport] | None = None  # instead of one job after the other

    @cached_property
    def buffer(self) -> SettleBuffer:
        worker_id = self.assignment.worker_id
        successes = self.settings.success_lanes
        settler = Settler(
            worker_id, self.assignment.cycle_id, worker_id, success_lanes=successes, sources=self.sources
        )
        return SettleBuffer(self.database, settler, self.page, self.log, self.app.wake_up_all)

    @cached_property
    def sources(self) -> "Sources | None":
        if not self.settings.sources:
            return None
        from mayfly.queue.sources import Sources  # most installations have no sources

        return Sources(self.settings.sources.values(), self.database.dialect)

    @cached_property
    def app(self) -> RunnerApp:
        lane = self.settings.lane(self.assignment.lane)
        return RunnerApp(self.settings, self.database, self.registry, max_connections=lane.concurrency)

    @cached_property
    def pauses(self) -> PauseCache:
        return PauseCache(self.assignment.lane, self.database)

    @cached_property
    def runtime(self) -> HandlerRuntime:
        lanes = self.settings.lanes
        return HandlerRuntime(self.database, self.assignment.worker_id, self.guard, self.job_limits, lanes)

    @cached_property
    def invoker(self) -> Invoker:
        return Invoker(
            registry=self.registry,
            database=self.database,
            runtime=self.runtime,
            guard=self.guard,
            page=self.page,
            default_backoff=Backoff(self.settings.backoff_base, self.settings.backoff_cap),
            unknown_type_grace=timedelta(seconds=self.settings.unknown_type_grace),
            window_seconds=self.assignment.window_seconds + timing().finish_seconds,
            random=random.random,
            on_dead=self.on_dead,
            observers=JobObservers(self.observers),
        )

    @cached_property
    def lane_changes(self) -> "LaneChanges | None":
        """None if it serves only its own lane."""
        shares = self.assignment.shares
        if shares is None:
            return None
        from runner.lane_changes import LaneChanges  # here: most installations have fewer lanes than slots

        return LaneChanges(self, shares)

    @cached_property
    def batches(self) -> BatchRunner:
        return BatchRunner(self.invoker, self.buffer, self.guard, self.log, self.admission, self.settings.redact)

    @cached_property
    def claims(self) -> Claims:
        lane = self.assignment.lane
        # SQLite locks no rows: it has one writer at a time, and a second lock would only add waiting.
        lock = ClaimLock(self.page.path.parent, lane) if self.database.dialect.claim_lock else None
        size = self.settings.lane(lane).batch_size
        return Claims(
            database=self.database,
            buffer=self.buffer,
            assignment=self.assignment,
            size=size,
            pauses=self.pauses,
            lock=lock,
            middleware=self.claim_middleware,
            steps=self.claim_steps,
            due_checks=self.due_checks,
            leaves_rest=self.assignment.shares is not None,
        )


def run_runner(
    assignment: Assignment, settings: Settings, page: StatusPage, log: Log, inherited: Inherited | None = None
) -> int:
    """Run jobs until the lane is empty or time is up; returns the exit code."""
    guard = Guard(assignment.deadline, page)
    guard.install()
    log.write(log_messages.worker_started(assignment.lane))
    try:
        database = inherited.database if inherited else schema.open_database(settings)
        try:
            registry = (inherited.registry if inherited else None) or load_registry(settings)
            for module, reason in registry.failures.items():
                log.write(log_messages.handler_module_failed(module, reason))
            if not registry.modules:
                log.write(log_messages.no_handlers(str(settings.home)))
            return _run(Runner(assignment, settings, database, guard, page, log, registry))
        finally:
            page.note_repeats(database.repeats)
            database.close()
    except MayflyError as error:
        log.write(log_messages.worker_error(str(error)))
        return exits.ERROR


def _run(runner: Runner) -> int:
    use_app(runner.app)
    try:
        install_features(runner)
        runner.batches.unstarted.install()
        code = run_claims(runner)
        runner.batches.release_sliced()
        runner.buffer.flush()
        runner.pauses.resume_snoozed()
        return code
    finally:
        runner.app.close()
        for close in runner.on_close:
            close()


def install_features(runner: Runner) -> None:
    """Observers first: the invoker, which later features use, needs them."""
    settings, registry, assignment = runner.settings, runner.registry, runner.assignment
    runner.admission.append(SkipCheck(runner.database, runner.pauses, missing_settings(registry.handlers)))
    if hooks := open_hooks(settings, runner.guard, runner.log):
        runner.observers.append(hooks)
        runner.on_close.append(hooks.close)
    if settings.otlp_endpoint is not None:
        _install_tracing(runner)
    if settings.hooks_on_dead:
        runner.on_dead = announcer(settings, runner.database)
    if runner.sources is not None:
        from runner import sources  # most installations have none

        sources.install(runner, runner.sources)
    if registry.has_limits:
        from runner import limits  # most runners need none

        limits.install(runner)
    if registry.concurrent:
        from runner import concurrent_batch  # most runners run plain functions, one after the other

        concurrent_batch.install(runner)
    if assignment.stays_until:
        from runner import waiting  # only with LINGER

        waiting.install(runner, assignment.stays_until)
    if assignment.is_long:  # jobs that arrive after the first minute get a full window in a fresh runner
        until = monotonic() + settings.worker_timeout
        runner.stop_conditions.append(lambda: monotonic() >= until)


def _install_tracing(runner: Runner) -> None:
    try:
        from runner import tracing  # OpenTelemetry is optional
    except ModuleNotFoundError:
        missing = ExtraMissing("OTLP_ENDPOINT needs OpenTelemetry", "otel")
        runner.log.write(log_messages.tracing_missing(str(missing)))
    else:
        tracing.install(runner)


def run_claims(runner: Runner) -> int:
    """Claim a batch, run it, claim again; returns the exit code."""
    claims, guard, run_batch = runner.claims, runner.guard, runner.executor or runner.batches.run
    code, released = exits.SUCCESS, 0
    claims.take_over()
    while guard.may_start:
        started = monotonic()
        batch = next_batch(runner, may_change_lane=code == exits.SUCCESS)
        if not batch:
            if _waits_for_jobs(runner):
                continue
            return code
        report = run_batch(batch)
        for step in runner.after_batch:
            step(batch, report, monotonic() - started)
        released += report.released
        if report.guard_interrupted or report.left_behind:
            return exits.TIMEOUT
        if report.unknown_types and runner.registry.failures:
            code = exits.ERROR  # a handler is probably in a module that cannot be imported
        if batch[0].crashes or any(should_stop() for should_stop in runner.stop_conditions):
            return code  # a job that crashed a runner is the only one of its runner
    if guard.stopped_by is not None:
        runner.log.write(log_messages.worker_stopping(guard.stopped_by))
    else:
        runner.log.write(log_messages.backlog_remains(released))
    return code


def next_batch(runner: Runner, may_change_lane: bool) -> list[Job]:
    """Of its lane, or if that is empty, of the next waiting lane.

    A runner that still owns jobs of its lane does not leave it: sliced jobs are released when it exits, and dropped
    ones by the dispatcher.
    """
    claims, changes = runner.claims, runner.lane_changes
    if changes is None or not may_change_lane or runner.batches.sliced or runner.page.has_dropped:
        return claims.next()
    return (claims.is_drained and changes.claim()) or claims.next() or changes.claim()


def _waits_for_jobs(runner: Runner) -> bool:
    """The lane is empty: whether to claim again."""
    lane_pause = runner.pauses.lane_pause
    if lane_pause is not None:
        runner.log.write(log_messages.lane_paused(lane_pause.name, lane_pause.words))
        return False
    if runner.claims.needs_fresh:
        return False  # the next job needs a fresh runner; the dispatcher starts one when this one has exited
    return any(step() for step in runner.idle_steps)
