"""A runner: start-up, the optional features, and the claim loop."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from mayfly import bootstrap, log_messages
from mayfly.bootstrap import load_registry
from mayfly.client import use_app
from mayfly.clock import monotonic, pause
from mayfly.db.database import Database
from mayfly.errors import ExtraMissing, MayflyError
from mayfly.fleet.runners import Assignment
from mayfly.job import Job
from mayfly.log import Log
from mayfly.process import exits
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing
from mayfly.queue.outcome import Settler
from mayfly.queue.policy import Backoff
from mayfly.registry import Registry, missing_settings
from mayfly.settings import Settings
from runner import lease_keeper
from runner.batch import AdmissionStep, BatchReport, BatchRunner, CancelAndExpiryCheck, RequiredSettingsCheck
from runner.claims import ClaimLock, ClaimMiddleware, Claims, PauseCache
from runner.guard import Guard, RunnerDeadline
from runner.invoke import Invoker, JobObserver, JobObservers
from runner.job_runtime import MainThreadRuntime, RunnerApp, RuntimeContext
from runner.settle_buffer import SettleBuffer

if TYPE_CHECKING:
    from mayfly.limits.client import JobLimits
    from runner.limits import LimitAdmission

MAX_POLL_SECONDS = 1.0  # between two queries of an empty lane
STEP_SECONDS = 0.05  # a stop is noticed after this


@dataclass(frozen=True)
class Inherited:
    """What a forked runner has from its parent."""

    database: Database  # closed before the fork: its settings cross it, never a connection
    log: Log | None = None
    registry: Registry | None = None


def inherit(settings: Settings, database: Database, log: Log) -> Inherited:
    """Import handlers, hooks and tracing once for all runners of a lane; each runner logs what is missing."""
    registry = load_registry(settings)
    if settings.hooks_before or settings.hooks_after:
        from mayfly.monitoring.hooks import AFTER, BEFORE, find_hooks  # most installations have no hooks

        list(find_hooks(settings, BEFORE, AFTER))
    if settings.otlp_endpoint is not None:
        with suppress(ModuleNotFoundError):
            import runner.tracing  # noqa: F401 - OpenTelemetry; its threads are started by each runner
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
    idle_steps: list[Callable[[], bool]] = field(default_factory=list)  # lane is empty: true to claim again
    after_batch: list[Callable[[Sequence[Job], BatchReport, float], None]] = field(default_factory=list)
    stop_conditions: list[Callable[[], bool]] = field(default_factory=list)  # after a batch: true to claim no more
    on_close: list[Callable[[], None]] = field(default_factory=list)
    on_dead: Callable[[Job], None] | None = None
    job_limits: "JobLimits | None" = None
    limit_admission: "LimitAdmission | None" = None  # also in `admission`; concurrent jobs acquire differently
    executor: Callable[[Sequence[Job]], BatchReport] | None = None  # instead of one job after the other

    @cached_property
    def buffer(self) -> SettleBuffer:
        assigned = self.assignment
        return SettleBuffer(
            self.database, Settler(assigned.worker_id, assigned.cycle_id, assigned.worker_id), self.log
        )

    @cached_property
    def app(self) -> RunnerApp:
        lane = self.settings.lane(self.assignment.lane)
        return RunnerApp(self.settings, self.database, self.registry, max_connections=lane.concurrency)

    @cached_property
    def pauses(self) -> PauseCache:
        return PauseCache(self.assignment.lane, self.database)

    @cached_property
    def runtime_context(self) -> RuntimeContext:
        deadline = RunnerDeadline(self.guard, self.page)
        return RuntimeContext(self.assignment.worker_id, deadline, self.job_limits, self.settings.lanes)

    @cached_property
    def invoker(self) -> Invoker:
        return Invoker(
            registry=self.registry,
            database=self.database,
            runtime=MainThreadRuntime(self.runtime_context, self.database),
            guard=self.guard,
            page=self.page,
            default_backoff=Backoff(self.settings.backoff_base, self.settings.backoff_cap),
            window_seconds=self.assignment.window_seconds + timing().finish_seconds,
            random=random.random,
            on_dead=self.on_dead,
            observers=JobObservers(self.observers) if self.observers else None,
        )

    @cached_property
    def batches(self) -> BatchRunner:
        return BatchRunner(self.invoker, self.buffer, self.guard, self.log, self.admission)

    @cached_property
    def claims(self) -> Claims:
        lane = self.assignment.lane
        lock = ClaimLock(self.page.path.parent, lane)
        size = self.settings.lane(lane).batch_size
        return Claims(self.database, self.buffer, self.assignment, size, lock, self.pauses, self.claim_middleware)


def run_runner(
    assignment: Assignment, settings: Settings, page: StatusPage, log: Log, inherited: Inherited | None = None
) -> int:
    """Run jobs until the lane is empty or the guard ends it; the exit code."""
    guard = Guard(assignment.deadline, page)
    guard.install()
    log.say(log_messages.worker_started(assignment.lane))
    try:
        database = inherited.database if inherited else bootstrap.open_database(settings)
        try:
            registry = (inherited.registry if inherited else None) or load_registry(settings)
            for module, reason in registry.failures.items():
                log.say(log_messages.handler_module_failed(module, reason))
            return _run(Runner(assignment, settings, database, guard, page, log, registry))
        finally:
            page.note_repeats(database.repeats)
            database.close()
    except MayflyError as error:
        log.say(log_messages.worker_error(str(error)))
        return exits.ERROR


def _run(runner: Runner) -> int:
    use_app(runner.app)
    try:
        install_features(runner)
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
    """Imported where they are used: most runners need none. Observers come before what uses the invoker."""
    settings, registry, assignment = runner.settings, runner.registry, runner.assignment
    runner.admission += [CancelAndExpiryCheck(runner.database), runner.pauses]
    if missing := missing_settings(registry.handlers):
        runner.admission.append(RequiredSettingsCheck(missing, runner.database))
    if settings.hooks_before or settings.hooks_after:
        from runner import hooks

        hooks.install(runner)
    if settings.otlp_endpoint is not None:
        _install_tracing(runner)
    if settings.hooks_on_dead:
        from mayfly.monitoring.hooks import announcer

        runner.on_dead = announcer(settings, runner.database)
    if registry.has_limits:
        from runner import limits

        limits.install(runner)
    if registry.concurrent:
        from runner.concurrent import executor

        executor.install(runner)
    if assignment.stays_until:
        wait = LaneWait(runner.claims, runner.guard, assignment.stays_until, settings.poll_interval)
        runner.idle_steps.append(wait.finds_due)
    if assignment.is_long:
        lease_keeper.install(runner)


def _install_tracing(runner: Runner) -> None:
    try:
        from runner import tracing  # OpenTelemetry is optional
    except ModuleNotFoundError:
        missing = ExtraMissing("OTLP_ENDPOINT needs OpenTelemetry", "otel")
        runner.log.say(log_messages.tracing_missing(str(missing)))
    else:
        tracing.install(runner)


def run_claims(runner: Runner) -> int:
    """Claim a batch, run it, claim again; the exit code."""
    claims, guard, run_batch = runner.claims, runner.guard, runner.executor or runner.batches.run
    released = 0
    while guard.may_start:
        started = monotonic()
        batch = claims.next()
        if not batch:
            if _waits_for_jobs(runner):
                continue
            return exits.SUCCESS
        report = run_batch(batch)
        for step in runner.after_batch:
            step(batch, report, monotonic() - started)
        released += report.released
        if report.guard_interrupted or report.left_behind:
            return exits.TIMEOUT
        if report.unknown_type:
            return exits.ERROR
        if batch[0].crashes or any(should_stop() for should_stop in runner.stop_conditions):
            return exits.SUCCESS  # a job that crashed a runner has one to itself; the rest is for a fresh one
    if guard.stopped_by is not None:
        runner.log.say(log_messages.worker_stopping(guard.stopped_by))
    else:
        runner.log.say(log_messages.backlog_remains(released))
    return exits.SUCCESS


def _waits_for_jobs(runner: Runner) -> bool:
    """In an empty lane: whether to claim again."""
    lane_pause = runner.claims.pause
    if lane_pause is not None:
        runner.log.say(log_messages.lane_paused(lane_pause.name, lane_pause.words))
        return False
    if runner.claims.needs_fresh:
        return False  # the next job needs a fresh runner; the dispatcher starts one when this one has ended
    return any(step() for step in runner.idle_steps)


class LaneWait:
    """Lingering: wait in the empty lane, for a while, until a job is due."""

    def __init__(self, claims: Claims, guard: Guard, until: float, poll_interval: float) -> None:
        self._claims = claims
        self._guard = guard
        self._until = until
        self._poll_interval = poll_interval

    def finds_due(self) -> bool:
        leaves_at = min(self._until, monotonic() + timing().idle_runner_seconds)
        wait = self._poll_interval
        while self._pause(min(wait, leaves_at - monotonic())):
            if self._claims.has_due():
                return True
            wait = max(self._poll_interval, min(2 * wait, MAX_POLL_SECONDS))
        return False

    def _pause(self, seconds: float) -> bool:
        """Whether another query makes sense after it."""
        until = monotonic() + seconds
        while self._guard.may_start and (left := until - monotonic()) > 0:
            pause(min(left, STEP_SECONDS))
        return seconds > 0 and self._guard.may_start
