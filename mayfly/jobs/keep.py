"""Since when rows are kept. Pure."""

from datetime import UTC, datetime, timedelta

STEPS = 100
# The spans of mayfly_history in seconds, each a multiple of the one before it. What no chart shows any more goes,
# the longest as the cycles do; by whole days: an idle minute that has something to prune is no idle one.
MINUTE, QUARTER, TWO_HOURS, EIGHT_HOURS = 60, 900, 7200, 28_800
SPANS = (MINUTE, QUARTER, TWO_HOURS, EIGHT_HOURS)
CHARTED = {
    MINUTE: timedelta(hours=2),
    QUARTER: timedelta(days=1, hours=1),
    TWO_HOURS: timedelta(days=7, hours=4),
}
DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cutoff(now: datetime, days: float) -> datetime:
    """What is older may go.

    It moves in steps of a hundredth of the time that is kept: an hour and a half for a week. If it moved with
    every minute, every cycle would find just the row that the same minute of that day had left.
    """
    kept = timedelta(days=days)
    step = max(kept / STEPS, timedelta.resolution)
    return _EPOCH + (now - kept - _EPOCH) // step * step


def uncharted(now: datetime, span: int) -> datetime:
    """Shorter spans of mayfly_history that began before are of no use to anybody."""
    return _EPOCH + (now - CHARTED[span] - _EPOCH) // DAY * DAY
