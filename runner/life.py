"""The life of a runner, from its first breath to its exit code."""

import random
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from mayfly import events, exits, opening
from mayfly.app import use_app
from mayfly.backoff import Backoff
from mayfly.clock import monotonic, pause
from mayfly.engine import Database
from mayfly.errors import MayflyError, TracingMissing
from mayfly.fleet.runners import Assignment, live_by_lane
from mayfly.job import Job
from mayfly.jobs.settlement import Settler
from mayfly.logs import Log
from mayfly.page import Page
from mayfly.registry import Hooks, Registry
from mayfly.schema import JOBS
from mayfly.settings import Settings
from runner.batch import BatchRunner, Report
from runner.claims import Claims
from runner.connections import RunnerApp
from runner.guard import Guard
from runner.horizon import Horizon
from runner.inherited import Inherited
from runner.invoke import Invoker
from runner.lifelines import MainLifeline
from runner.outbox import Outbox
from runner.pace import WORTH_GIVING_WAY, way_given
from runner.pausing import Pausing
from runner.stay import Stay
from runner.turns import Turns

if TYPE_CHECKING:
    from mayfly.limits.takings import Takings
    from runner.foresight import Foresight
    from runner.gate import Gate
    from runner.hooks import RunnerHooks
    from runner.tracing import Tracing

Work = Callable[[list[Job]], Report]


class Surroundings(NamedTuple):
    """What a runner has from its first breath on."""

    assignment: Assignment
    settings: Settings
    database: Database
    guard: Guard
    page: Page
    log: Log


def live(assignment: Assignment, settings: Settings, page: Page, log: Log, inherited: Inherited | None = None) -> int:
    """Work until the lane is empty or the guard ends it; the exit code."""
    guard = Guard(assignment.deadline, page)
    guard.install()
    log.say(events.worker_started(assignment.lane))
    try:
        database = inherited.database if inherited else opening.open_database(settings)
        registry = inherited.registry if inherited else None
        try:
            return _work(Surroundings(assignment, settings, database, guard, page, log), registry)
        finally:
            page.note_repeats(database.repeats)
            database.close()
    except MayflyError as error:
        log.say(events.worker_error(str(error)))
        return exits.ERROR


def _work(around: Surroundings, registry: Registry | None) -> int:
    assignment, settings, database, guard, page, log = around
    lane = settings.lane(assignment.lane)
    settler = Settler(assignment.worker_id, assignment.cycle_id, assignment.worker_id)
    outbox = Outbox(database, JOBS, settler, log)
    pausing = Pausing(assignment.lane)
    turns = Turns(page.path.parent, assignment.lane)
    tracing = _tracing(settings, assignment, log)
    claims = _claims(tracing, database, outbox, assignment, lane.batch_size, turns, pausing)
    registry = registry or opening.load_registry(settings)
    _tell_failures(registry, log)
    app = RunnerApp(settings, database, registry, most=lane.concurrency)
    use_app(app)
    hooks = _hooks(settings, guard, log)
    told: Hooks | None = hooks
    if tracing is not None:
        tracing.hooks, told = hooks, tracing
    takings = _takings(registry, assignment)
    invoker = _invoker(around, registry.hooked(told) if told else registry, takings, pausing)
    foresight = _foresight(assignment, registry, guard, log)
    batches = BatchRunner(invoker, outbox, guard, log, gate=_gate(invoker, takings), foresight=foresight)
    try:
        stay = Stay(claims, guard, assignment.stays_until, settings.poll_interval) if assignment.stays_until else None
        takes_until = monotonic() + settings.worker_timeout if assignment.is_long else inf
        code = _drain(claims, _work_with(batches, claims, app, lane.concurrency), batches, stay, takes_until)
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


def _invoker(around: Surroundings, registry: Registry, takings: "Takings | None", pausing: Pausing) -> Invoker:
    assignment, settings, database, guard, page, _log = around
    return Invoker(
        registry=registry,
        database=database,
        lifeline=MainLifeline(assignment.worker_id, Horizon(guard, page), database, takings, settings.lanes),
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
        log.say(events.tracing_missing(str(TracingMissing())))
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
    from mayfly.hooks.deaths import announcer  # as above

    return announcer(settings, database)


def _unconfigured(registry: Registry) -> dict[str, tuple[str, ...]]:
    if not any(each.requires for each in registry.handlers.values()):
        return {}
    from mayfly.integrations import missing_settings  # as above

    return missing_settings(registry.handlers)


def _takings(registry: Registry, assignment: Assignment) -> "Takings | None":
    if not registry.has_limits:
        return None
    from mayfly.limits.takings import open_takings  # as above

    return open_takings(registry.handlers, assignment.worker_id, assignment.lease_until)


def _gate(invoker: Invoker, takings: "Takings | None") -> "Gate | None":
    if takings is None:
        return None
    from runner.gate import Gate  # as above

    return Gate(invoker, takings)


def _foresight(assignment: Assignment, registry: Registry, guard: Guard, log: Log) -> "Foresight | None":
    if not assignment.usual:
        return None
    from runner.foresight import Foresight  # as above

    return Foresight(assignment, registry, guard, log)


def _work_with(batches: BatchRunner, claims: Claims, app: RunnerApp, limit: int) -> Work:
    """One job after the other, unless there are handlers whose jobs run side by side."""
    if not batches.invoker.registry.concurrent:
        return batches.run
    from runner.crew import Crew  # most runners do without
    from runner.runs import Runs

    invoker = batches.invoker
    lifeline, settle_beside = invoker.lifeline, batches.outbox.settle_beside
    runs = Runs(
        invoker.registry, invoker.page, limit, lifeline.worker_id, lifeline.horizon, app.beside, settle_beside,
        lifeline.takings, lifeline.lanes,
    )  # fmt: skip
    return Crew(batches, claims, runs).run


def _drain(claims: Claims, work: Work, batches: BatchRunner, stay: Stay | None, takes_until: float) -> int:
    guard, log, gate = batches.guard, batches.log, batches.gate
    given_back = 0
    while guard.may_start:
        started = monotonic()
        batch = claims.next()
        if not batch and claims.pause is not None:
            log.say(events.lane_paused(claims.pause.name, claims.pause.words))
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
            _give_way(batches, claims.lane, len(batch), monotonic() - started)
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
        log.say(events.worker_stopping(guard.stopped_by))
    else:
        log.say(events.backlog_remains(given_back))
    return exits.SUCCESS


def _give_way(batches: BatchRunner, lane: str, put_off: int, seconds: float) -> None:
    """To runners of other lanes, where there are any."""
    if put_off < WORTH_GIVING_WAY:
        return
    live = batches.invoker.database.read(live_by_lane)
    ours = live.pop(lane, 1)
    if live:
        rest = way_given(seconds, ours)
        batches.log.say(events.gave_way(put_off, rest))
        pause(rest)


def _tell_failures(registry: Registry, log: Log) -> None:
    for module, reason in registry.failures.items():
        log.say(events.handler_module_failed(module, reason))
