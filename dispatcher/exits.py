"""Decide how a runner ended, and what that means for each job it held. Pure: values in, values out."""

import signal
from dataclasses import dataclass
from enum import StrEnum

from mayfly.job import Job
from mayfly.process import exits
from mayfly.process.status_page import RunnerStatus
from mayfly.queue import policy
from mayfly.queue.outcome import RELEASED, Outcome
from mayfly.queue.policy import Interruption, RetryContext

DISAPPEARED = "the runner disappeared (its dispatcher or host died)"
OUTSIDE_LATE = "its lease ran out before the worker that had pulled it said anything"


class Ending(StrEnum):
    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"


class KilledFor(StrEnum):
    """Why we ended a runner ourselves."""

    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True)
class Exit:
    """What the kernel and the page said of a runner that is gone."""

    code: int  # the exit code, or minus the signal
    seen: RunnerStatus
    ended: float  # monotonic
    peak_memory: int = 0
    killed_for: KilledFor | None = None

    @property
    def signal(self) -> int | None:
        return -self.code if self.code < 0 else None


def ending_of(exit_: Exit) -> Ending:
    """The exit code alone is never believed: os._exit(0) inside a handler looks like success."""
    if exit_.killed_for is KilledFor.TIME:
        return Ending.TIMEOUT
    if exit_.killed_for is KilledFor.MEMORY:
        return Ending.CRASH
    if exit_.seen.running:
        return Ending.TIMEOUT if _ended_itself_in_time(exit_) else Ending.CRASH
    if exit_.code < 0:
        return Ending.CRASH
    return {exits.SUCCESS: Ending.OK, exits.TIMEOUT: Ending.TIMEOUT}.get(exit_.code, Ending.ERROR)


def would_end_again(exit_: Exit) -> bool:
    """An error, or a crash before the first job: no job is to blame, and the next runner would fare the same."""
    seen = exit_.seen
    idle = not (seen.running or seen.done or seen.failed)
    return ending_of(exit_) is Ending.ERROR or (ending_of(exit_) is Ending.CRASH and idle)


def _ended_itself_in_time(exit_: Exit) -> bool:
    """faulthandler's exit code is 1 like any other error's; its mark is the deadline on the page."""
    return exit_.code == exits.ERROR and 0 < exit_.seen.hard_deadline <= exit_.ended


def reason_of(exit_: Exit) -> str:
    peak = f", peak memory {exit_.peak_memory >> 20} MB"
    if exit_.killed_for is KilledFor.MEMORY:
        return f"its memory grew above WORKER_MEMORY and the runner was killed{peak}"
    if exit_.signal is not None:
        return f"the runner was killed by signal {exit_.signal} ({_signal_name(exit_.signal)}){peak}"
    return f"the runner exited with code {exit_.code} in the middle of the job{peak}"


def judge(job: Job, exit_: Exit, window_seconds: float, chances: RetryContext) -> tuple[Outcome, int | None]:
    """Only a job that was running can be to blame; the rest of the claim goes back unspent."""
    running = exit_.seen.running_job(job.id)
    if running is None:
        return RELEASED, None
    ran = max(0.0, exit_.ended - running.started)
    if ending_of(exit_) is Ending.TIMEOUT:
        interruption = Interruption(ran, window_seconds, running.timeout)
        return policy.after_interruption(job, interruption, chances), round(ran * 1000)
    suspects = len(exit_.seen.running)
    return policy.after_crash_among(suspects, job, reason_of(exit_), chances), round(ran * 1000)


def judge_lost(
    job: Job, held: int, seen: RunnerStatus | None, chances: RetryContext, reason: str = DISAPPEARED
) -> tuple[Outcome, int | None]:
    """A runner whose end nobody saw: its page, if it is still there, tells which jobs were running."""
    if seen is None:
        return policy.after_crash_among(held, job, reason, chances), None
    if seen.running_job(job.id) is None:
        return RELEASED, None
    return policy.after_crash_among(len(seen.running), job, reason, chances), None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
