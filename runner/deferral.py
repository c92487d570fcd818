"""Not to start what would only be interrupted: jobs whose type usually takes longer than is left of the window."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.fleet.runners import Assignment
from mayfly.job import Job
from mayfly.log import Log
from mayfly.registry import Registry
from mayfly.stats.durations import LONG_SECONDS, fits, may_be_deferred
from runner.guard import Guard

MAX_DEFERRED = 100  # jobs: who has met so many finds hardly anything else behind them
ALL = 1 << 40  # jobs: told of a lane that was not looked through to its end


class Deferral:
    """One runner's. Types that are usually fast pass it unseen."""

    def __init__(self, assignment: Assignment, registry: Registry, guard: Guard, log: Log) -> None:
        self._needs = seconds_needed(assignment.usual, registry)
        self._is_whole = assignment.is_whole
        self._leaves_until = assignment.stays_until  # so long, whoever is started in our place has a whole window
        self._guard = guard
        self._log = log
        self._began: float | None = None  # when there was something to run
        self._told: set[str] = set()  # types
        self._deferred = 0

    @property
    def deferred(self) -> int:
        """For the dispatcher: jobs that another runner is no help for, unless it has more time."""
        return self._deferred if self._deferred < MAX_DEFERRED else ALL

    @property
    def has_enough(self) -> bool:
        """Whether this runner should claim nothing more."""
        return self._deferred >= MAX_DEFERRED or (self._deferred > 0 and monotonic() < self._leaves_until)

    def fitting(self, jobs: Iterable[Job], defer: Callable[[Job], None]) -> Iterator[Job]:
        """Those to be started, each asked for when its turn comes. After the guard: all, for nobody is."""
        if self._began is None:
            self._began = monotonic()
        for job in jobs:
            need = self._needs.get(job.type)
            if need is None or self._fits(job, need, self._began):
                yield job
            else:
                self._deferred += 1
                defer(job)

    def _fits(self, job: Job, need: float, began: float) -> bool:
        ends_at = self._guard.ends_at
        left = ends_at - monotonic()
        if fits(need, left, ends_at - began, self._is_whole) or not may_be_deferred(job) or not self._guard.may_start:
            return True
        if job.type not in self._told:  # each is counted, and one is told of
            self._told.add(job.type)
            self._log.say(log_messages.job_deferred(job.id, job.type, need, left))
        return False


def seconds_needed(usual: Mapping[str, float], registry: Registry) -> dict[str, float]:
    """As far as it is known here: a job never needs more than its own limit."""
    known = ((registry.get(type_name), type_name, seconds) for type_name, seconds in usual.items())
    limited = {
        type_name: seconds if handler.timeout is None else min(seconds, handler.timeout)
        for handler, type_name, seconds in known
        if handler is not None
    }
    return {type_name: seconds for type_name, seconds in limited.items() if seconds > LONG_SECONDS}
