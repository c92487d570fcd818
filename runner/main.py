"""What a forked runner has from its parent, so that not each one has to make it for itself."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from mayfly import bootstrap, log_messages
from mayfly.bootstrap import load_registry
from mayfly.client import use_app
from mayfly.clock import monotonic, pause
from mayfly.db.database import Database
from mayfly.errors import ExtraMissing, MayflyError
from mayfly.fleet.runners import Assignment, live_by_lane
from mayfly.job import Job
from mayfly.log import Log
from mayfly.process import exits
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing
from mayfly.queue.outcome import Settler
from mayfly.queue.policy import Backoff
from mayfly.registry import Hooks, Registry
from mayfly.settings import Settings
from runner.batch import BatchRunner, Report
from runner.claims import MIN_JOBS_TO_YIELD, ClaimLock, Claims, PauseCache, yield_seconds
from runner.guard import Guard, RunnerDeadline
from runner.invoke import Invoker
from runner.job_runtime import MainThreadRuntime, RunnerApp
from runner.settle_buffer import SettleBuffer

if TYPE_CHECKING:
    from mayfly.limits.client import JobLimits
    from runner.deferral import Deferral
    from runner.hooks import RunnerHooks
    from runner.limits import LimitGate
    from runner.tracing import Tracing


@dataclass(frozen=True)
class Inherited:
    database: Database  # closed before the fork: what crosses it is the knowledge of the server, never a connection
    log: Log | None = None
    registry: Registry | None = None


def inherit(settings: Settings, database: Database, log: Log) -> Inherited:
    """Made once, for all runners of a lane, with what their hooks are in; each tells by itself what it misses."""
    registry = load_registry(settings)
    if settings.hooks_before or settings.hooks_after:
        from mayfly.monitoring.hooks import AFTER, BEFORE, find_hooks

        list(find_hooks(settings, BEFORE, AFTER))
    if settings.otlp_endpoint is not None:
        with suppress(ModuleNotFoundError):
            import runner.tracing  # noqa: F401 - for all of them; what starts threads is made by each
    return Inherited(database, log, registry)


IDLE_SECONDS = 1.0  # between two looks, at most
STEP_SECONDS = 0.05  # a stop is noticed after this


class LaneWait:
    def __init__(self, claims: Claims, guard: Guard, until: float, interval: float) -> None:
        self._claims = claims
        self._guard = guard
        self._until = until
        self._interval = interval

    def brings_more(self) -> bool:
        """Wait in the empty lane; whether something is due there by now."""
        leaves_at = min(self._until, monotonic() + timing().idle_runner_seconds)
        wait = self._interval
        while self._rest(min(wait, leaves_at - monotonic())):
            if self._claims.has_due():
                return True
            wait = max(self._interval, min(2 * wait, IDLE_SECONDS))
        return False

    def _rest(self, seconds: float) -> bool:
        """Whether another look is worth it after that."""
        until = monotonic() + seconds
        while self._guard.may_start and (left := until - monotonic()) > 0:
            pause(min(left, STEP_SECONDS))
        return seconds > 0 and self._guard.may_start


Work = Callable[[list[Job]], Report]


class RunnerContext(NamedTuple):
    """What a runner has from its first breath on."""

    assignment: Assignment
    settings: Settings
    database: Database
    guard: Guard
    page: StatusPage
    log: Log


def run_runner(
    assignment: Assignment, settings: Settings, page: StatusPage, log: Log, inherited: Inherited | None = None
) -> int:
    """Work until the lane is empty or the guard ends it; the exit code."""
    guard = Guard(assignment.deadline, page)
    guard.install()
    log.say(log_messages.worker_started(assignment.lane))
    try:
        database = inherited.database if inherited else bootstrap.open_database(settings)
        registry = inherited.registry if inherited else None
        try:
            return _work(RunnerContext(assignment, settings, database, guard, page, log), registry)
        finally:
            page.note_repeats(database.repeats)
            database.close()
    except MayflyError as error:
        log.say(log_messages.worker_error(str(error)))
        return exits.ERROR


def _work(around: RunnerContext, registry: Registry | None) -> int:
    assignment, settings, database, guard, page, log = around
    lane = settings.lane(assignment.lane)
    settler = Settler(assignment.worker_id, assignment.cycle_id, assignment.worker_id)
    outbox = SettleBuffer(database, settler, log)
    pausing = PauseCache(assignment.lane)
    turns = ClaimLock(page.path.parent, assignment.lane)
    tracing = _tracing(settings, assignment, log)
    claims = _claims(tracing, database, outbox, assignment, lane.batch_size, turns, pausing)
    registry = registry or load_registry(settings)
    _log_failures(registry, log)
    app = RunnerApp(settings, database, registry, most=lane.concurrency)
    use_app(app)
    hooks = _hooks(settings, guard, log)
    told: Hooks | None = hooks
    if tracing is not None:
        tracing.hooks, told = hooks, tracing
    takings = _job_limits(registry, assignment)
    invoker = _invoker(around, registry.hooked(told) if told else registry, takings, pausing)
    foresight = _deferral(assignment, registry, guard, log)
    batches = BatchRunner(invoker, outbox, guard, log, gate=_gate(invoker, takings), foresight=foresight)
    try:
        stay = (
            LaneWait(claims, guard, assignment.stays_until, settings.poll_interval)
            if assignment.stays_until
            else None
        )
        takes_until = monotonic() + settings.worker_timeout if assignment.is_long else inf
        code = _drain(claims, _batch_executor(batches, claims, app, lane.concurrency), batches, stay, takes_until)
        batches.give_back_aside()
        outbox.flush()
        pausing.bring_back(database)
        return code
    finally:
        app.close()
        if hooks is not None:
            hooks.close()
        if tracing is not None:
            tracing.close()


def _invoker(around: RunnerContext, registry: Registry, takings: "JobLimits | None", pausing: PauseCache) -> Invoker:
    assignment, settings, database, guard, page, _log = around
    return Invoker(
        registry=registry,
        database=database,
        lifeline=MainThreadRuntime(
            assignment.worker_id, RunnerDeadline(guard, page), database, takings, settings.lanes
        ),
        guard=guard,
        page=page,
        usual_backoff=Backoff(settings.backoff_base, settings.backoff_cap),
        window_seconds=assignment.window_seconds,
        dice=random.random,
        announce=_announce(settings, database),
        paused_types=pausing.types,
        unconfigured=_unconfigured(registry),
    )


def _hooks(settings: Settings, guard: Guard, log: Log) -> "RunnerHooks | None":
    if not (settings.hooks_before or settings.hooks_after):
        return None
    from runner.hooks import open_hooks  # most runners do without

    return open_hooks(settings, guard, log)


def _tracing(settings: Settings, assignment: Assignment, log: Log) -> "Tracing | None":
    if settings.otlp_endpoint is None:
        return None
    try:
        from runner.tracing import Tracing  # as above
    except ModuleNotFoundError:
        log.say(log_messages.tracing_missing(str(ExtraMissing("OTLP_ENDPOINT needs OpenTelemetry", "otel"))))
        return None
    return Tracing(settings, assignment)


def _claims(tracing: "Tracing | None", *given: Any) -> Claims:
    if tracing is None:
        return Claims(*given)
    from runner.tracing import TracedClaims  # as above

    return TracedClaims(tracing, *given)


def _announce(settings: Settings, database: Database) -> Callable[[Job], None] | None:
    if not settings.hooks_on_dead:
        return None
    from mayfly.monitoring.hooks import announcer  # as above

    return announcer(settings, database)


def _unconfigured(registry: Registry) -> dict[str, tuple[str, ...]]:
    if not any(each.requires for each in registry.handlers.values()):
        return {}
    from mayfly.registry import missing_settings  # as above

    return missing_settings(registry.handlers)


def _job_limits(registry: Registry, assignment: Assignment) -> "JobLimits | None":
    if not registry.has_limits:
        return None
    from mayfly.limits.client import open_job_limits  # as above

    return open_job_limits(registry.handlers, assignment.worker_id, assignment.lease_until)


def _gate(invoker: Invoker, takings: "JobLimits | None") -> "LimitGate | None":
    if takings is None:
        return None
    from runner.limits import LimitGate  # as above

    return LimitGate(invoker, takings)


def _deferral(assignment: Assignment, registry: Registry, guard: Guard, log: Log) -> "Deferral | None":
    if not assignment.usual:
        return None
    from runner.deferral import Deferral  # as above

    return Deferral(assignment, registry, guard, log)


def _batch_executor(batches: BatchRunner, claims: Claims, app: RunnerApp, limit: int) -> Work:
    """One job after the other, unless there are handlers whose jobs run side by side."""
    if not batches.invoker.registry.concurrent:
        return batches.run
    from runner.concurrent.executor import (
        ConcurrentBatch,  # most runners do without
        RunningJobs,
    )

    invoker = batches.invoker
    lifeline, settle_beside = invoker.lifeline, batches.outbox.settle_beside
    runs = RunningJobs(
        invoker.registry, invoker.page, limit, lifeline.worker_id, lifeline.horizon, app.beside, settle_beside,
        lifeline.takings, lifeline.lanes,
    )  # fmt: skip
    return ConcurrentBatch(batches, claims, runs).run


def _drain(claims: Claims, work: Work, batches: BatchRunner, stay: LaneWait | None, takes_until: float) -> int:
    guard, log, gate = batches.guard, batches.log, batches.gate
    given_back = 0
    while guard.may_start:
        started = monotonic()
        batch = claims.next()
        if not batch and claims.pause is not None:
            log.say(log_messages.lane_paused(claims.pause.name, claims.pause.words))
            return exits.SUCCESS
        if not batch and claims.needs_fresh:
            return exits.SUCCESS  # whoever stayed would be taken for the one who will run it
        if not batch and gate is not None and gate.await_slots(claims.lane):
            continue
        if not batch and (stay is None or not stay.brings_more()):
            return exits.SUCCESS
        if not batch:
            continue
        if gate is not None:
            gate.open()
        report = work(batch)
        if gate is not None and report.put_off.total() == len(batch):
            batches.outbox.flush()  # nobody waits for what we only hold
            _yield_to_other_lanes(batches, claims.lane, len(batch), monotonic() - started)
        given_back += report.given_back
        if report.guard_interrupted or report.left_behind:
            return exits.TIMEOUT
        if report.met_unknown:
            return exits.ERROR
        if monotonic() >= takes_until:
            return exits.SUCCESS  # a long lane's next job has a whole window in a fresh runner
        if batches.claims_no_more:
            return exits.SUCCESS  # what is left is for runners with more time
        if batch[0].crashes:
            return exits.SUCCESS  # it had a runner of its own; the rest is for a fresh one
    if guard.stopped_by is not None:
        log.say(log_messages.worker_stopping(guard.stopped_by))
    else:
        log.say(log_messages.backlog_remains(given_back))
    return exits.SUCCESS


def _yield_to_other_lanes(batches: BatchRunner, lane: str, put_off: int, seconds: float) -> None:
    """To runners of other lanes, where there are any."""
    if put_off < MIN_JOBS_TO_YIELD:
        return
    live = batches.invoker.database.read(live_by_lane)
    ours = live.pop(lane, 1)
    if live:
        rest = yield_seconds(seconds, ours)
        batches.log.say(log_messages.yielded_to_other_lanes(put_off, rest))
        pause(rest)


def _log_failures(registry: Registry, log: Log) -> None:
    for module, reason in registry.failures.items():
        log.say(log_messages.handler_module_failed(module, reason))
