"""Let days pass: each job runs when it is due, and the recurring jobs run as scheduled."""

from collections.abc import Callable, Iterator
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


def pass_days(clock: FrozenDateTimeFactory, days: int = 1, at_noon: Callable[[], object] = lambda: None) -> list[Run]:
    """Half days, each with the recurring jobs. `at_noon` is called in the middle of each day."""
    return [run for each in range(2 * days) for run in _half_day(clock, at_noon if each % 2 else lambda: None)]


def _half_day(clock: FrozenDateTimeFactory, before: Callable[[], object]) -> Iterator[Run]:
    before()
    enqueue("process_followups")
    enqueue("reset_warmup", delay=DAY / 4)
    enqueue("close_campaigns", delay=DAY / 2 - HOUR)
    yield from pass_time(clock, DAY / 2).runs
