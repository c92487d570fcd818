"""Decide how a runner ended, and what that means for each job it held. Pure: values in, values out."""

import signal
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from dispatcher.summary import Ending
from mayfly.job import Job
from mayfly.process import exits
from mayfly.process.status_page import RunnerStatus
from mayfly.queue import policy
from mayfly.queue.outcome import RELEASED, Outcome
from mayfly.queue.policy import Interruption, RetryContext

DISAPPEARED = "the runner disappeared (its dispatcher or host died)"
LONG_RUNNER_GONE = "the runner died while no dispatcher was supervising it"
OUTSIDE_LATE = "its lease expired before the external worker reported a result"


class KilledFor(StrEnum):
    """Why the dispatcher or a lease keeper killed a runner."""

    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True)
class Exit:
    """How a runner exited, by the kernel and by its status page."""

    code: int  # the exit code, or minus the signal
    status: RunnerStatus
    ended: float  # monotonic
    peak_memory: int = 0
    killed_for: KilledFor | None = None

    @property
    def signal(self) -> int | None:
        return -self.code if self.code < 0 else None

    @cached_property
    def ending(self) -> Ending:
        """Not by the exit code alone: os._exit(0) inside a handler would look like success."""
        if self.killed_for is KilledFor.TIME:
            return Ending.TIMEOUT
        if self.killed_for is KilledFor.MEMORY:
            return Ending.CRASH
        if self.status.running:
            return Ending.TIMEOUT if self._reached_hard_deadline else Ending.CRASH
        if self.code < 0:
            return Ending.CRASH
        return {exits.SUCCESS: Ending.OK, exits.TIMEOUT: Ending.TIMEOUT}.get(self.code, Ending.ERROR)

    @property
    def breaks_lane(self) -> bool:
        """An error, or a crash before the first job: no job caused it, and the next runner would end the same way."""
        status = self.status
        ran_nothing = not (status.running or status.done or status.failed)
        return self.ending is Ending.ERROR or (self.ending is Ending.CRASH and ran_nothing)

    @property
    def reason(self) -> str:
        peak = f", peak memory {self.peak_memory >> 20} MB"
        if self.killed_for is KilledFor.MEMORY:
            return f"its memory grew above WORKER_MEMORY and the runner was killed{peak}"
        if self.signal is not None:
            return f"the runner was killed by signal {self.signal} ({_signal_name(self.signal)}){peak}"
        return f"the runner exited with code {self.code} in the middle of the job{peak}"

    @property
    def _reached_hard_deadline(self) -> bool:
        """faulthandler exits with 1 like any other error; the deadline on the status page tells them apart."""
        return self.code == exits.ERROR and 0 < self.status.hard_deadline <= self.ended


def judge(job: Job, exit_: Exit, window_seconds: float, chances: RetryContext) -> tuple[Outcome, int | None]:
    """The outcome of a job that the runner held, and its duration. Jobs that were not running are released."""
    running = exit_.status.running_job(job.id)
    if running is None:
        return RELEASED, None
    ran = max(0.0, exit_.ended - running.started)
    if exit_.ending is Ending.TIMEOUT:
        interruption = Interruption(ran, window_seconds, running.timeout)
        return policy.after_interruption(job, interruption, chances), round(ran * 1000)
    suspects = len(exit_.status.running)
    return policy.after_crash_among(suspects, job, exit_.reason, chances), round(ran * 1000)


def judge_lost(
    job: Job, held: int, status: RunnerStatus | None, chances: RetryContext, crash: str | None = None
) -> tuple[Outcome, int | None]:
    """For a runner whose exit no dispatcher saw: its status page, if still there, has the running jobs.

    It died with its dispatcher or host, which is not the job's fault, unless `crash` has another reason.
    """
    if status is not None and status.running_job(job.id) is None:
        return RELEASED, None
    if crash is not None:
        suspects = held if status is None else len(status.running)
        return policy.after_crash_among(suspects, job, crash, chances), None
    if status is None and held > 1:  # most of them had not started
        return policy.after_crash_among(held, job, DISAPPEARED, chances), None
    return policy.after_lost_runner(job, DISAPPEARED, chances), None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
