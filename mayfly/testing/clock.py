"""Let a frozen Python clock rule over the database's."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from mayfly.clock import pin_offset


@contextmanager
def pinned_offset(offset: timedelta = timedelta(0)) -> Iterator[None]:
    """Pin this process's distance to every database, whenever that was opened: `now` is Python's clock plus offset.

    freezegun stops Python's clock only, and a distance measured against a stopped clock would undo the freezing.
    What the database fills in by itself (created_at, a run_at that was left out) is still its own time, and
    guards and time-outs still count on the real monotonic clock.

        with freeze_time("2026-05-04 12:00") as frozen, pinned_offset():
            frozen.tick(3600)
    """
    before = pin_offset(offset)
    try:
        yield
    finally:
        pin_offset(before)
