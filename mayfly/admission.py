"""Decide whether a claimed job is run at all, or what becomes of it instead. Pure: now is an argument."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mayfly.job import Job
from mayfly.outcome import Kind, Outcome

if TYPE_CHECKING:
    from mayfly.jobs.pauses import Pause


def turned_away(job: Job, pause: "Pause | None", now: datetime, missing: Sequence[str] = ()) -> Outcome | None:
    """None if it is to be run. Somebody's wish that it end comes first, then its term, then what only puts it off.

    `missing` are settings that its handler requires. They come last: who has paused a type may be about to set them.
    """
    special = job.special
    if special is not None and special.cancel_reason is not None:
        return Outcome(Kind.CANCELLED, error=special.cancel_reason, keeps_attempt=True)
    if special is not None and special.expires_at is not None and special.expires_at <= now:
        reason = f"expired: not started by {special.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        return Outcome(Kind.CANCELLED, error=reason, keeps_attempt=True)
    if pause is not None and pause.holds(now):
        until = pause.put_off_until(now)
        return Outcome(Kind.SNOOZED, run_at=until, keeps_attempt=True, waiting_for=pause.waiting_for)
    if missing:
        reason = f"integration not configured: {', '.join(missing)}"
        return Outcome(Kind.CANCELLED, error=reason, keeps_attempt=True)
    return None
