"""The life of a runner, from its first breath to its exit code."""

import random
from collections.abc import Sequence

from mayfly import events, exits, opening
from mayfly.app import App, use_app
from mayfly.backoff import Backoff
from mayfly.clock import monotonic, pause
from mayfly.engine import Database
from mayfly.errors import MayflyError
from mayfly.fleet.place import this_process
from mayfly.fleet.runners import Assignment, beat, take_over
from mayfly.job import Job
from mayfly.jobs.claim import Claimant, Found, claim, has_due, jobs_from
from mayfly.jobs.settlement import Settler
from mayfly.logs import Log
from mayfly.page import Page
from mayfly.registry import Registry
from mayfly.schema import JOBS
from mayfly.settings import Settings
from runner.batch import BatchRunner
from runner.guard import Guard
from runner.invoke import Invoker, JobTransaction
from runner.outbox import Outbox
from runner.pace import next_claim

BEAT_SECONDS = 10.0
EMPTY_TRIES = 4
EMPTY_PAUSE_SECONDS = 0.01


def live(assignment: Assignment, settings: Settings, page: Page, log: Log) -> int:
    """Work until the lane is empty or the guard ends it; the exit code."""
    guard = Guard(assignment.deadline, page)
    guard.install()
    log.say(events.worker_started(assignment.lane))
    try:
        database = opening.open_database(settings)
        try:
            return _work(assignment, settings, database, guard, page, log)
        finally:
            database.close()
    except MayflyError as error:
        log.say(events.worker_error(str(error)))
        return exits.ERROR


def _work(assignment: Assignment, settings: Settings, database: Database, guard: Guard, page: Page, log: Log) -> int:
    settler = Settler(assignment.worker_id, assignment.cycle_id, assignment.worker_id)
    outbox = Outbox(database, JOBS, settler, log)
    claims = Claims(database, outbox, assignment, settings.lane(assignment.lane).batch_size)
    claims.take_over()
    registry = _load_handlers(settings, log)
    use_app(App(settings, database, registry))
    invoker = Invoker(
        registry=registry,
        database=database,
        transaction=JobTransaction(database),
        guard=guard,
        page=page,
        usual_backoff=Backoff(settings.backoff_base, settings.backoff_cap),
        window_seconds=assignment.window_seconds,
        dice=random.random,
    )
    code = _drain(claims, BatchRunner(invoker, outbox, guard, log), guard, log)
    outbox.flush()
    return code


def _drain(claims: "Claims", batches: BatchRunner, guard: Guard, log: Log) -> int:
    given_back = 0
    while guard.may_start:
        batch = claims.next()
        if not batch:
            return exits.SUCCESS
        report = batches.run(batch)
        given_back += report.given_back
        if report.guard_interrupted:
            return exits.TIMEOUT
        if report.met_unknown:
            return exits.ERROR
        if batch[0].crashes:
            return exits.SUCCESS  # it had a runner of its own; the rest is for a fresh one
    if guard.stopped_by is not None:
        log.say(events.worker_stopping(guard.stopped_by))
    else:
        log.say(events.backlog_remains(given_back))
    return exits.SUCCESS


def _load_handlers(settings: Settings, log: Log) -> Registry:
    registry = opening.load_registry(settings)
    for module, reason in registry.failures.items():
        log.say(events.handler_module_failed(module, reason))
    return registry


class Claims:
    """The claims of one runner: each as large as the last one's speed allows."""

    def __init__(self, database: Database, outbox: Outbox, assignment: Assignment, batch_size: int) -> None:
        self._database = database
        self._outbox = outbox
        self._assignment = assignment
        self._size = batch_size
        self._last: list[Job] = []
        self._claimed_at = self._beaten_at = monotonic()

    def take_over(self) -> None:
        """From now on this process, not its planner, stands behind the runner's row."""
        now = self._database.clock.now()
        worker_id = self._assignment.worker_id
        self._database.run(lambda connection: take_over(connection, worker_id, this_process(), now))

    def next(self) -> list[Job]:
        if self._last:
            self._size = next_claim(self._size, len(self._last), monotonic() - self._claimed_at)
        claimant = Claimant(
            self._assignment.worker_id,
            self._assignment.lane,
            self._assignment.lease_until,
            fresh=not self._last,
        )
        batch = self._claim(claimant)
        self._last = batch or self._last
        self._claimed_at = monotonic()
        self._beat()
        return batch

    def _claim(self, claimant: Claimant) -> list[Job]:
        """In one transaction with what the last batch has left to settle: one commit for both.

        An empty answer is believed when a look without locks confirms it, or after a few tries.
        """
        now = self._database.clock.now()
        taken: Sequence[Found] = ()
        for tries in range(EMPTY_TRIES):
            taken = self._outbox.flush_and(lambda connection: claim(connection, JOBS, claimant, self._size, now))
            if taken or not self._database.read(lambda connection: has_due(connection, JOBS, claimant.lane, now)):
                break
            pause(random.uniform(0.5, 1) * EMPTY_PAUSE_SECONDS * (tries + 1))  # noqa: S311 - spreads rivals
        return jobs_from(taken, claimant.lane)

    def _beat(self) -> None:
        if self._claimed_at - self._beaten_at < BEAT_SECONDS:
            return
        self._beaten_at = self._claimed_at
        now = self._database.clock.now()
        self._database.run(lambda connection: beat(connection, self._assignment.worker_id, now))
