"""Decide what an answer means for the job that asked. Pure: now is an argument."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from mayfly import Dead, Retry, Snooze

# Of all that is the caller's fault, these alone may pass: too slow, too early, too often.
PASSING = (408, 425, 429)
TOO_MANY = 429
LONGEST_WAIT = 86_400.0  # seconds; who asks for more is asked again tomorrow
SHORTEST_WAIT = 1.0
SHOWN = 200  # characters of what was answered


def what_to_do(who: str, status: int, retry_after: str | None, body: bytes, now: datetime) -> Exception | None:
    """What to raise; None if all is well.

    One who says when he has room again (429) is asked then, and no attempt is spent: nothing was wrong with the job.
    Whatever else may pass is tried again, after the time that was asked for or the usual one. The rest is final.
    """
    if 200 <= status < 300:
        return None
    wait = wait_seconds(retry_after, now)
    if status == TOO_MANY and wait is not None:
        return Snooze(after=wait)
    said = f"{who} answered {status}{_shown(body)}"
    if status in PASSING or status >= 500:
        return Retry(said, after=wait)
    return Dead(said)


def wait_seconds(retry_after: str | None, now: datetime) -> float | None:
    """Of a header that has seconds or a date; None for one that has neither, or is missing."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        seconds = (at - now).total_seconds()
    return min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT)


def _shown(body: bytes) -> str:
    text = " ".join(body[: 4 * SHOWN].decode("utf-8", "replace").split())[:SHOWN]
    return f": {text}" if text else ""
