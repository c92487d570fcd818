"""Let days pass: each job runs when it is due, and the recurring jobs run as scheduled."""

from collections.abc import Iterator
from datetime import timedelta

from freezegun.api import FrozenDateTimeFactory

from mayfly import enqueue
from mayfly.testing import Drained, Run, drain

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MANY = 1_000_000


def pass_time(clock: FrozenDateTimeFactory, duration: timedelta) -> Drained:
    """All jobs that are due within this time."""
    drained = drain(advance=duration, raises=False, most=MANY)
    clock.tick(duration)
    return drained


def pass_days(clock: FrozenDateTimeFactory, days: int = 1) -> list[Run]:
    """With the recurring jobs."""
    return [run for _ in range(days) for run in _day(clock)]


def _day(clock: FrozenDateTimeFactory) -> Iterator[Run]:
    enqueue("process_followups")
    enqueue("reset_warmup", delay=DAY / 4)
    enqueue("process_followups", delay=DAY / 2)
    enqueue("close_campaigns", delay=DAY - HOUR)
    yield from pass_time(clock, DAY).runs
