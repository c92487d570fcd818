"""Runners that launchers start: run the commands of their engines, close rows whose runners do not start.

Each launcher has a process of its own for a cycle: a slow engine delays neither local runners nor other launchers.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from dispatcher.steps import CycleStep
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.fleet.submitted import (
    CANCELLED,
    NOT_STARTED,
    REFUSED,
    SUBMITTED,
    Submission,
    close_overdue,
    close_surplus,
)
from mayfly.process import exits, timing
from mayfly.process.fork import forget_signals, fork_into
from mayfly.settings.values import LauncherSettings

if TYPE_CHECKING:
    from dispatcher.context import CycleContext
    from dispatcher.full_cycle import FullCycle

SUBMIT_SHARE = 0.5  # of its time; the rest is for the status and for what follows from it
MAX_REPORT_BYTES = 64 << 10  # what a pipe holds


class EngineProcess:
    """Starts when it is constructed."""

    def __init__(
        self, launcher: LauncherSettings, context: "CycleContext", close_in_child: Sequence[Callable[[], None]]
    ) -> None:
        self.launcher = launcher
        self._log = context.log
        self._started = monotonic()
        self._ends_at = min(self._started + timing().launch_seconds, context.deadline)
        self._read, write = os.pipe()

        def run() -> int:
            forget_signals()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, timing().launch_seconds + 1.0)  # also if the dispatcher is killed
            os.close(self._read)
            for close in close_in_child:
                close()
            from dispatcher.engine_round import EngineRound  # most installations have no launchers

            url = context.settings.database_url.get_secret_value()
            until = self._started + (self._ends_at - self._started) * SUBMIT_SHARE
            with closing(Database(url)) as database:
                round_ = EngineRound(context.settings, launcher, database, context.log, until)
                try:
                    round_.run()
                except Exception as error:  # noqa: BLE001 - also a bug of ours must reach the log
                    reason = f"{type(error).__name__}: {error}"
                    context.log.write(log_messages.engine_failed(launcher.name, "the work of this cycle", reason))
                report = {"figures": round_.figures, "failed_lanes": sorted(round_.failed_lanes)}
                os.write(write, json.dumps(report).encode())
            return exits.SUCCESS

        self._pid = fork_into(run)
        os.close(write)
        self.figures = Counter[str]()
        self.failed_lanes: set[str] = set()

    def has_ended(self) -> bool:
        """Ends it when its time is up; what it has not done, the next cycle does."""
        pid, _status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0 and monotonic() < self._ends_at:
            return False
        if pid == 0:
            self.kill()
        with suppress(ValueError):
            report = json.loads(os.read(self._read, MAX_REPORT_BYTES))
            self.figures.update(report["figures"])
            self.failed_lanes.update(report["failed_lanes"])
        self.close()
        return True

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._log.write(log_messages.engine_stopped(self.launcher.name, monotonic() - self._started))

    def close(self) -> None:
        os.close(self._read)


class LaunchStep(CycleStep):
    """The lease of a submitted runner decides whether it is alive; rows without a runner are closed here."""

    def __init__(self, cycle: "FullCycle") -> None:
        super().__init__(cycle)
        self._processes: list[EngineProcess] = []
        self._waiting: set[str] = set()  # launchers with rows that are not submitted yet
        self._figures = Counter[str]()

    @property
    def is_busy(self) -> bool:
        return bool(self._processes or self._waiting)

    @property
    def busy_lanes(self) -> frozenset[str]:
        """Lanes of launchers whose commands run: they are planned when it is known whether a submit was refused."""
        busy = {each.launcher.name for each in self._processes}
        return frozenset(name for name, lane in self.context.settings.lanes.items() if lane.launcher in busy)

    def before_plan(self) -> None:
        """Runners that have not started in time are planned again in this cycle."""
        if not self.context.settings.launchers:
            return
        database = self.context.database
        now = database.clock.now()
        for worker_id, lane, launcher in database.run(lambda connection: close_overdue(connection, now)):
            self._figures[NOT_STARTED] += 1
            reason = "its time to start is over"
            self.context.log.write(log_messages.runner_not_started(worker_id, lane, launcher, reason))

    def after_spawn(self) -> None:
        launchers = self.context.settings.launchers
        if not launchers:
            return
        self._cancel_surplus()
        self._waiting.update(launchers)
        self._start()

    def submit(self, submissions: Sequence[Submission]) -> None:
        """They are planned and recorded; the next tick begins to submit them."""
        self._waiting.update(each.launcher for each in submissions)

    def on_tick(self) -> None:
        self._collect()
        if self.cycle.supervisor.may_spawn and not self.cycle.has_failed:
            self._start()
        else:  # what is not submitted yet is left to the next cycle
            self._waiting.clear()
            self._end_all()

    def finish(self) -> None:
        self._end_all()

    def summary_lines(self) -> list[str]:
        names = (SUBMITTED, REFUSED, NOT_STARTED, CANCELLED)
        shown = [f"{name}: {self._figures[name]}" for name in names if self._figures[name]]
        return [f"Runners of launchers {', '.join(shown)}"] if shown else []

    def _start(self) -> None:
        running = {each.launcher.name for each in self._processes}
        ready = sorted(self._waiting - running)
        if not ready:
            return
        self.context.database.close()  # no connection crosses the fork
        for name in ready:
            self._waiting.discard(name)
            closers = (self.cycle.lock.close, self.cycle.supervisor.close_in_child)
            self._processes.append(EngineProcess(self.context.settings.launchers[name], self.context, closers))

    def _collect(self) -> None:
        """The figures of those that have ended, and the lanes to which this cycle submits no other runner."""
        for each in [each for each in self._processes if each.has_ended()]:
            self._processes.remove(each)
            self._figures.update(each.figures)
            self.cycle.rescuer.results.broken_lanes.update(each.failed_lanes)

    def _end_all(self) -> None:
        self._collect()
        for each in self._processes:
            each.kill()
            each.close()
        self._processes.clear()

    def _cancel_surplus(self) -> None:
        """Runners that have not started and that no job waits for any more: nothing stays in the engine's queue."""
        database, log = self.context.database, self.context.log
        for each in self.cycle.planned.plan.lanes:
            lane = each.count.lane
            number = min(each.count.queued, each.count.running - each.wanted)
            if lane.launcher is None or number <= 0 or not self.context.serves(lane.name):
                continue
            close = partial(close_surplus, lane=lane.name, number=number, now=database.clock.now())
            for worker_id, launcher in database.run(close):
                self._figures[CANCELLED] += 1
                log.write(log_messages.runner_cancelled(worker_id, lane.name, launcher))
