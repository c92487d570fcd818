"""Since when rows are kept. Pure."""

from datetime import UTC, datetime, timedelta

STEPS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cutoff(now: datetime, days: float) -> datetime:
    """What is older may go.

    It moves in steps of a hundredth of the time that is kept: an hour and a half for a week. If it moved with
    every minute, every cycle would find just the row that the same minute of that day had left.
    """
    kept = timedelta(days=days)
    step = max(kept / STEPS, timedelta.resolution)
    return _EPOCH + (now - kept - _EPOCH) // step * step
