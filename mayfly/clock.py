"""The one place that reads a clock. The database's time rules; guards count on the monotonic clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

SKEW_WORTH_TELLING = timedelta(seconds=1)
COARSEST = timedelta(milliseconds=1)  # of the databases' clocks: SQLite's

_pinned: timedelta | None = None  # see mayfly.testing: measuring means nothing while a test holds Python's clock


class Clock(NamedTuple):
    """The host's clock, moved by its measured distance to the database's."""

    measured: timedelta = timedelta(0)

    @property
    def offset(self) -> timedelta:
        return self.measured if _pinned is None else _pinned

    def now(self) -> datetime:
        return host_now() + self.offset

    @property
    def is_skewed(self) -> bool:
        return abs(self.offset) > SKEW_WORTH_TELLING


def clock_from(database_now: datetime, asked_at: datetime, answered_at: datetime) -> Clock:
    """Where the answer lies between question and receipt, both may well be one clock, and are taken for it.

    Half a round trip would be as good a guess between two machines; but on one that is busy it may be many
    milliseconds, and a job that was enqueued just now would not be due. Otherwise the answer was true half-way.
    """
    if _pinned is not None:
        return Clock(_pinned)
    if asked_at - COARSEST < database_now <= answered_at:
        return Clock()
    return Clock(database_now - (asked_at + (answered_at - asked_at) / 2))


def pin_offset(offset: timedelta | None) -> timedelta | None:
    """Let every Clock of this process have this offset, or again its own; what was pinned before."""
    global _pinned
    before, _pinned = _pinned, offset
    return before


def host_now() -> datetime:
    return datetime.now(UTC)


# Seconds that no one can set back. Read from the kernel: freezegun must not stop a guard. Without a frame of Python:
# a runner looks at it five times a job.
monotonic: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_MONOTONIC)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def pause_between(shortest: float, longest: float) -> None:
    """Seconds by chance: rivals that met once should not meet again."""
    from random import uniform  # most minutes meet no rival, and need not import it

    pause(uniform(shortest, longest))  # noqa: S311 - guards nothing


def milliseconds(at: datetime) -> int:
    """Since the epoch, exact: float timestamps lose the last digits."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
