"""The guard: ends a handler whose time is up, softly by an exception, then from C, then by the dispatcher."""

import faulthandler
import os
import signal
from enum import StrEnum
from math import inf
from types import FrameType

from mayfly.clock import monotonic
from mayfly.errors import Interrupted
from mayfly.job import Job, TimeBudget
from mayfly.process.fork import HANDOVER, STOPS
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing

STEP_SECONDS = 0.5  # the last resort moves back in steps: each costs a thread of C


class Cause(StrEnum):
    TIMEOUT = "timeout"  # the job's own
    GUARD = "guard"  # the runner's window ends
    STOP = "stop"  # somebody asked the runner to end
    STUCK = "stuck"  # another job blocks the event loop that it runs on: released, whatever its own timeout is


class Guard:
    """Watches the clock for one process. Its alarms raise only while a handler runs."""

    def __init__(self, deadline: float, page: StatusPage) -> None:
        self._guard_at = deadline
        self._stop_at: float | None = None
        self._timeout_at: float | None = None
        self._ends_by = 0.0  # the last resort
        self._page = page
        self._watching = False
        self.stopped_by: str | None = None  # the signal that asked us to end

    def install(self) -> None:
        signal.signal(signal.SIGALRM, self._on_alarm)
        for each in STOPS:
            signal.signal(each, self._on_stop)
        os.register_at_fork(before=_hold_stops, after_in_parent=_let_stops, after_in_child=self._forget)
        self._arm()
        _let_stops()  # what the dispatcher sent while nobody could listen was held back until here (see its spawn)

    @property
    def may_start(self) -> bool:
        """Whether another job, or another claim, may begin."""
        return self.stopped_by is None and monotonic() < self._guard_at

    @property
    def ends_at(self) -> float:
        """When whatever still runs is interrupted."""
        return self._guard_at if self._stop_at is None else min(self._guard_at, self._stop_at)

    @property
    def cause(self) -> Cause:
        """Why the last interruption came."""
        return self.cause_of(self._timeout_at)

    def cause_of(self, limit: float | None) -> Cause:
        """Why a job is interrupted now: what was due first, with the job's own limit before ours."""
        now = monotonic()
        if limit is not None and now >= limit:
            return Cause.TIMEOUT
        return Cause.GUARD if now >= self._guard_at else Cause.STOP

    def watch(self, timeout: float | None) -> None:
        """From here on a handler runs: Interrupted is raised in it when its time is up. Ends with `relax`."""
        if timeout is not None:
            self._timeout_at = monotonic() + timeout
            self._arm()
        self._watching = True

    def rest(self) -> None:
        """The handler has ended: no alarm raises any more. Its limit still tells why the last one did."""
        self._watching = False

    def relax(self) -> None:
        """After the verdict on a job: its limit is over."""
        self._watching = False
        if self._timeout_at is not None:
            self._timeout_at = None
            self._arm()

    def watch_beside(self, first_limit: float) -> None:
        """Jobs run beside the main thread, which ends them itself; the last resort is for when that is stuck."""
        needed = min(first_limit, self.ends_at) + timing().hard_exit_seconds + timing().settle_seconds
        if not 0 <= needed - self._ends_by < STEP_SECONDS:
            self._end_by(needed)

    def relax_beside(self) -> None:
        """Nothing runs beside the main thread any more; what was waited for past the end is still to be settled."""
        self._arm(timing().settle_seconds if monotonic() >= self.ends_at else 0)

    def _arm(self, settle_seconds: float = 0) -> None:
        """One timer and one last resort, both for whatever is due first."""
        due = self.ends_at if self._timeout_at is None else min(self.ends_at, self._timeout_at)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, due - monotonic()), timing().interrupt_repeat_seconds)
        self._end_by(due + timing().hard_exit_seconds + settle_seconds)

    def _end_by(self, at: float) -> None:
        """By a thread of C that needs no GIL: ends even a handler that is blocked in C or ignores signals."""
        faulthandler.dump_traceback_later(max(0.001, at - monotonic()), exit=True, file=2)
        self._page.expect_end_by(at)
        self._ends_by = at

    def _forget(self) -> None:
        """What a handler forks is not the runner: a signal that should end it must end it, and touch no page."""
        for each in (signal.SIGALRM, *STOPS):
            if signal.getsignal(each) in (self._on_alarm, self._on_stop):
                signal.signal(each, signal.SIG_DFL)
        _let_stops()

    def _on_alarm(self, _signal: int, _frame: FrameType | None) -> None:
        if self._watching:
            raise Interrupted

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        """Claim nothing more; the running job may finish for a while, but never past the guard."""
        if self.stopped_by is None:
            self.stopped_by = signal.Signals(number).name
        if number != HANDOVER and self._stop_at is None:
            self._stop_at = monotonic() + timing().stop_seconds
            self._arm()


def _hold_stops() -> None:
    """Around a fork: Python forgets, in the child, whatever signal came to it before it knew itself as one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def _let_stops() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


class RunnerDeadline:
    """Asked in the thread of a handler; changes nothing."""

    def __init__(self, guard: Guard, page: StatusPage) -> None:
        self._guard = guard
        self._page = page

    def window(self, job: Job) -> TimeBudget:
        """A stopped runner has no time for a job that can go on elsewhere."""
        running = self._page.window_of(job.id)
        if running is None:  # left behind, and settled without it
            return TimeBudget(monotonic(), -inf)
        limit = inf if running.timeout is None else running.started + running.timeout
        ends_at = -inf if self._guard.stopped_by is not None else min(limit, self._guard.ends_at)
        return TimeBudget(running.started, ends_at)
