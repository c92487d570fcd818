"""Run what is due in a test's database, in the test's own process: one job after the other, until none is left."""

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf

from mayfly.clock import milliseconds, pin_offset
from mayfly.engine import Database
from mayfly.errors import DrainEndless, UnknownHandler
from mayfly.fleet.runners import Assignment
from mayfly.hooks.deaths import announcer
from mayfly.job import Job
from mayfly.jobs.looks import find_lanes
from mayfly.jobs.settlement import Settler
from mayfly.outcome import RELEASED
from mayfly.schema import JOBS
from mayfly.testing.apps import InlineApp, inline_app
from mayfly.testing.clock import pinned_offset
from mayfly.testing.process import LEASE, InlineInvoker, inline_invoker, inline_log
from mayfly.testing.results import Drained, Run
from mayfly.testing.table import next_run_at
from runner.batch import BatchRunner, Report
from runner.claims import Claims
from runner.invoke import Ran
from runner.outbox import Outbox

MOST = 1000  # runs; more than a test should need, and reached within seconds by a handler that enqueues itself

_drains = itertools.count(1)


def drain(
    *,
    lanes: Iterable[str] | None = None,
    advance: bool | timedelta = False,
    slice_after: int | None = None,
    raises: bool = True,
    most: int = MOST,
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
                draining.give_back(job)
                raise DrainEndless(most)
            run = draining.run(job)
            runs.append(run)
            if raises and run.error is not None:
                raise run.noted_error()
    return Drained(tuple(runs))


@contextmanager
def _opened(
    app: InlineApp, lanes: Iterable[str] | None, advance: bool | timedelta, slice_after: int | None
) -> Iterator["_Draining"]:
    database, settings = app.database, app.settings
    now = database.clock.now()
    announce = announcer(settings, database) if settings.hooks_on_dead else None
    worker_id, cycle_id = f"drain-{os.getpid()}-{next(_drains)}", milliseconds(now)
    with inline_invoker(settings, app.registry, database, announce, worker_id, slice_after) as invoker:
        outbox = Outbox(database, JOBS, Settler(worker_id, cycle_id, worker_id), inline_log())
        yield _Draining(
            database,
            invoker,
            BatchRunner(invoker, outbox, invoker.guard, inline_log(), gate=invoker.gate),
            Assignment(worker_id, "", cycle_id, inf, settings.worker_timeout, now + LEASE),
            None if lanes is None else sorted(lanes),
            None if advance is True else now + (advance or timedelta(0)),
        )


@dataclass(frozen=True)
class _Draining:
    database: Database
    invoker: InlineInvoker
    batches: BatchRunner
    assignment: Assignment  # but for the lane
    lanes: list[str] | None  # None: all
    until: datetime | None  # how far the clock may be moved; None: as far as there are jobs

    def next(self) -> Job | None:
        """The next job, claimed by itself, so that what a job enqueues can come before what was there."""
        while True:
            lanes = self._lanes()
            for lane in lanes:
                for job in self._claims(lane).more(1):
                    return job
            if not self._move_on(lanes):
                return None

    def run(self, job: Job) -> Run:
        """Settled when this returns, whatever it was."""
        ran = self._run(job)
        self.batches.give_back_aside()
        self.batches.outbox.flush()
        error = self.invoker.errors.pop(job.id, None)
        if self.invoker.registry.get(job.type) is None:
            registry = self.invoker.registry
            error = UnknownHandler(job.type, registry.nearest(job.type), registry.failures)
            if ran is not None and ran.unknown:  # given back unspent, and due again at once
                raise error
        return Run(job, RELEASED if ran is None else ran.outcome, error)

    def _run(self, job: Job) -> Ran | None:
        """None if it was no longer ours."""
        concluded: list[Ran | None] = []

        def conclude(job: Job, became: Ran) -> None:
            concluded.append(self.batches.conclude(job, became, Report()))

        gate = self.batches.gate
        for each in [job] if gate is None else gate.in_turn([job], conclude):
            concluded.append(self.batches.run_one(each, Report()))
        return concluded[0]

    def give_back(self, job: Job) -> None:
        self.batches.give_back([job], Report())
        self.batches.outbox.flush()

    def _lanes(self) -> list[str]:
        if self.lanes is not None:
            return self.lanes
        return sorted(self.database.read(lambda connection: find_lanes(connection, JOBS)))

    def _claims(self, lane: str) -> Claims:
        """A new one each time: a job that has crashed is only given to a runner that has run nothing."""
        return Claims(self.database, self.batches.outbox, replace(self.assignment, lane=lane), batch_size=1)

    def _move_on(self, lanes: list[str]) -> bool:
        """To when the next job is due, if that is still to come and not too far off."""
        due_at = self.database.read(lambda connection: next_run_at(connection, lanes))
        clock = self.database.clock
        now = clock.now()
        if due_at is None or due_at <= now or (self.until is not None and due_at > self.until):
            return False
        pin_offset(clock.offset + (due_at - now))
        return True
