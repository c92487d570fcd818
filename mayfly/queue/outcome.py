"""What becomes of a job: the exceptions with which a handler decides it, and the outcome that is written. Pure."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from mayfly.job import Job

Seconds = float | int | timedelta
RESULT_LIMIT = 64 << 10  # bytes of JSON
MAX_WAIT_SECONDS = 100 * 365 * 86_400  # more is a mistake, and Python's dates do not go much further


class JobControl(Exception):
    """Raised by a handler to decide what becomes of its job."""


class Retry(JobControl):
    """Run again, after the given time or the usual backoff. The attempt is spent."""

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
        self.waiting_for: str | None = None  # set by what postponed it


class Cancel(JobControl):
    """There is nothing left to do: the job ends as cancelled, with the reason."""


class Dead(JobControl):
    """A retry cannot help: the job ends as dead, with the reason."""


def seconds(given: Seconds) -> float:
    """As a number; checked here, where the handler gets the error, and not when its outcome is written."""
    number = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not abs(number) <= MAX_WAIT_SECONDS:  # written so that NaN is refused too
        raise ValueError(f"{number:g} seconds: must be a number, and within a hundred years")
    return number


class OutcomeKind(StrEnum):
    """The words under which outcomes are counted."""

    __hash__ = str.__hash__  # Enum's is Python code, and a fast lane hashes 20,000 per second

    DONE = "done"
    FAILED = "failed"  # will be retried
    TIMED_OUT = "timed out"  # the same, by a time limit
    DEAD = "dead"
    CANCELLED = "cancelled"
    SNOOZED = "snoozed"
    RELEASED = "released"  # never started, or interrupted through no fault of its own
    SLICED = "sliced"  # ended at a checkpoint; the next cycle continues from there
    CRASHED = "crashed"  # its process died while running it; will be retried alone


@dataclass(frozen=True, slots=True)
class Outcome:
    """What settling writes to one job."""

    kind: OutcomeKind
    run_at: datetime | None = None  # None: unchanged
    result: str | None = None  # JSON text
    error: str | None = None
    fingerprint: str | None = None
    keeps_attempt: bool = False  # the attempt raised at the claim is given back
    interrupted: bool = False
    counts_release: bool = False  # the database or the dispatcher failed while it ran
    crashed: bool = False
    suspect: bool = False
    attempt_ending: OutcomeKind | None = None  # FAILED, TIMED_OUT or CRASHED: adds a row to mayfly_attempts
    waiting_for: str | None = None  # why it was postponed until run_at: a pause, a limit


FINAL_KINDS = (OutcomeKind.DONE, OutcomeKind.DEAD, OutcomeKind.CANCELLED)
DONE = Outcome(OutcomeKind.DONE)
RELEASED = Outcome(OutcomeKind.RELEASED, keeps_attempt=True)


class Settlement(NamedTuple):
    """A job and its outcome. A tuple, because a fast lane makes 20,000 per second."""

    job: Job
    outcome: Outcome
    duration_ms: int | None = None  # None: its handler never started, or its end was not observed


@dataclass(frozen=True)
class Settler:
    """The owner named in every WHERE clause, and the cycle under which its jobs are counted."""

    worker_id: str
    cycle_id: int
    totals_key: str  # worker_id of its rows in mayfly_totals: each process writes only its own
    known_live_jobs: dict[str, int] = field(default_factory=dict, compare=False)  # see mayfly.queue.count
