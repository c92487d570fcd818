"""The only module that reads a clock. Times are the database's; guards use the monotonic clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

MAX_SILENT_SKEW = timedelta(seconds=1)  # a clock that is off by more is logged
COARSEST_RESOLUTION = timedelta(milliseconds=1)  # resolution of the databases' clocks: SQLite's is the lowest

_pinned: timedelta | None = None  # set by mayfly.testing while a test has stopped Python's clock

# Neither clock can be set, and all processes of a host share them. CLOCK_BOOTTIME also counts the time in which the
# machine was suspended. Read with clock_gettime, because freezegun must not stop a guard, and without a Python
# function in between, because a runner reads them five times per job.
monotonic: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
since_boot: Callable[[], float] = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def host_now() -> datetime:
    """The wall clock of this host, for logs. It may be wrong, and it may be set at any time."""
    return datetime.now(UTC)


class Clock(NamedTuple):
    """The database's clock: its time when it was measured, plus the time since then by a clock that cannot be set."""

    measured: datetime
    measured_at: float  # since boot
    measured_offset: timedelta = timedelta(0)  # the database's clock minus the host's wall clock

    @property
    def offset(self) -> timedelta:
        return self.measured_offset if _pinned is None else _pinned

    def now(self) -> datetime:
        if _pinned is not None:
            return host_now() + _pinned
        return self.measured + timedelta(seconds=since_boot() - self.measured_at)

    @property
    def is_skewed(self) -> bool:
        return abs(self.offset) > MAX_SILENT_SKEW

    def wall_clock_step(self) -> timedelta:
        """By how much the host's wall clock was set since the measurement; zero if by less than a second."""
        step = host_now() + self.offset - self.now()
        return step if abs(step) > MAX_SILENT_SKEW else timedelta(0)


def clock_from(database_now: datetime, asked_at: datetime, answered_at: datetime) -> Clock:
    """A database's clock, from its reply and the wall clock before and after. Call it right after the reply.

    A reply between request and receipt probably comes from the same clock: then the offset is zero. Assuming half a
    round trip would be wrong by many milliseconds on a busy machine, and a job that was enqueued just now would not
    be due. Any other reply is taken as the time half-way between request and receipt.
    """
    if _pinned is not None:
        return Clock(answered_at + _pinned, since_boot(), _pinned)
    if asked_at - COARSEST_RESOLUTION < database_now <= answered_at:
        return Clock(answered_at, since_boot())
    offset = database_now - (asked_at + (answered_at - asked_at) / 2)
    return Clock(answered_at + offset, since_boot(), offset)


class HostClock(Clock):
    """The host's wall clock, for tests of handlers that have no database."""

    def now(self) -> datetime:
        return host_now() + self.offset


def host_clock() -> HostClock:
    return HostClock(host_now(), since_boot())


def pin_offset(offset: timedelta | None) -> timedelta | None:
    """Set the offset of every Clock of this process; None restores their own. Returns the previous value."""
    global _pinned
    before, _pinned = _pinned, offset
    return before


def pause(seconds: float) -> None:
    time.sleep(seconds)


def pause_between(shortest: float, longest: float) -> None:
    """Sleep a random time, so that processes that collided once do not collide again."""
    from random import uniform  # only needed after a collision: an idle cycle must not import it

    pause(uniform(shortest, longest))  # noqa: S311 - not for security


def milliseconds(at: datetime) -> int:
    """Since the epoch, exact: float timestamps lose the last digits."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
