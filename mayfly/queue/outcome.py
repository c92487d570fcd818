"""What can become of a job: what a handler raises to steer it, and what is written when it settles."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from mayfly.job import Job

Seconds = float | int | timedelta
RESULT_LIMIT = 64 << 10  # bytes of JSON
MAX_WAIT_SECONDS = 100 * 365 * 86_400  # seconds; what is more is a mistake, and no calendar holds much more


class JobControl(Exception):
    """Raised by a handler to say what should become of its job."""


class Retry(JobControl):
    """Try again, after the given time or after the usual backoff. The attempt is spent."""

    def __init__(self, reason: str = "the handler asked for a retry", *, after: Seconds | None = None) -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds(after)


class Snooze(JobControl):
    """Not now: run at `until`, or `after` some time. No attempt is spent."""

    def __init__(self, *, until: datetime | None = None, after: Seconds | None = None) -> None:
        if (until is None) == (after is None):
            raise TypeError("Snooze takes either until= (a datetime) or after= (seconds or a timedelta)")
        if until is not None and (not isinstance(until, datetime) or until.tzinfo is None):
            raise TypeError("Snooze(until=…) needs a datetime with a time zone")
        super().__init__("snoozed")
        self.until = None if until is None else until.astimezone(UTC)
        self.after = None if after is None else seconds(after)
        self.waiting_for: str | None = None  # set by what put it off


class Cancel(JobControl):
    """There is nothing to do any more: the job ends as cancelled, with the reason."""


class Dead(JobControl):
    """Trying again cannot help: the job ends as dead, with the reason."""


def seconds(given: Seconds) -> float:
    """As a number; refused here, where the handler can still be told, and not when its outcome is written."""
    number = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not abs(number) <= MAX_WAIT_SECONDS:  # written so that NaN is refused too
        raise ValueError(f"{number:g} seconds: must be a number, and within a hundred years")
    return number


class OutcomeKind(StrEnum):
    """The words under which outcomes are counted."""

    __hash__ = str.__hash__  # Enum's is written in Python, and a fast lane counts twenty thousand a second

    DONE = "done"
    FAILED = "failed"  # will be tried again
    TIMED_OUT = "timed out"  # the same, by a time limit
    DEAD = "dead"
    CANCELLED = "cancelled"
    SNOOZED = "snoozed"
    RELEASED = "released"  # never started, or interrupted through no fault of its own
    SLICED = "sliced"  # ended at a checkpoint; the next cycle goes on from there
    CRASHED = "crashed"  # its process died over it; will be tried again, alone


@dataclass(frozen=True, slots=True)
class Outcome:
    """What settling writes to one job. Statuses are Mayfly's words; the table may have its own."""

    kind: OutcomeKind
    run_at: datetime | None = None  # None: as it was
    result: str | None = None  # JSON text
    error: str | None = None
    fingerprint: str | None = None
    keeps_attempt: bool = False  # the attempt raised at the claim is given back
    interrupted: bool = False
    crashed: bool = False
    suspect: bool = False
    attempt_ending: OutcomeKind | None = None  # FAILED, TIMED_OUT or CRASHED: worth a row among the attempts
    waiting_for: str | None = None  # why it was put off until run_at: a pause, a limit


DONE = Outcome(OutcomeKind.DONE)
RELEASED = Outcome(OutcomeKind.RELEASED, keeps_attempt=True)


class Settlement(NamedTuple):
    """A job and what became of it. A tuple, because a fast lane makes twenty thousand a second."""

    job: Job
    outcome: Outcome
    duration_ms: int | None = None  # None: its handler never started, or nobody saw it end


@dataclass(frozen=True)
class Settler:
    """Who settles: the owner named in every WHERE, and under which cycle it is counted."""

    worker_id: str
    cycle_id: int
    counted_as: str  # the writer of the totals: one process writes its own rows only
    witnesses: dict[str, int] = field(default_factory=dict, compare=False)  # see mayfly.queue.batches
