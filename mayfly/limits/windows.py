"""Decide whether a limit can be acquired: ends of rate windows, available units, when to try again. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from mayfly.limits.limit import AT_ONCE, LimitKey, LimitRequest
from mayfly.schema.tables import KEY_LENGTH

ALIGNED = {"second": timedelta(seconds=1), "minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def window_end(now: datetime, span: str, zone: str) -> datetime:
    """The end of the window that contains `now`, which is the start of the next one.

    Seconds, minutes and hours are those of UTC. Days, weeks and months begin at midnight in the zone; if daylight
    saving skips midnight, at that moment.
    """
    if span in ALIGNED:
        return _EPOCH + ((now - _EPOCH) // ALIGNED[span] + 1) * ALIGNED[span]
    there = _zone(zone)
    today = now.astimezone(there).date()
    return next(
        begin
        for first in (_next_first(today, span), _next_first(_next_first(today, span), span))
        for fold in (0, 1)  # midnight may occur twice; the day begins at the first
        if (begin := datetime(first.year, first.month, first.day, fold=fold, tzinfo=there).astimezone(UTC)) > now
    )


def _next_first(today: date, span: str) -> date:
    """The first day of the next day, week (from Monday) or month."""
    if span == "day":
        return today + timedelta(days=1)
    if span == "week":
        return today + timedelta(days=7 - today.weekday())
    return (today.replace(day=1) + timedelta(days=32)).replace(day=1)


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


MIN_RETRY_SECONDS = 1.0  # it is not known when a slot will be released
JOBS_PER_STEP = 100  # jobs that wait for slots become due a hundred at a time, not all at once
STEP_SECONDS = 0.1
MAX_RETRY_SECONDS = 600.0
MAX_WAIT = timedelta(hours=1)  # jobs are spread over the windows of one hour only: the limit may be raised


class RateWindow(NamedTuple):
    """A row of mayfly_limits; for a concurrency limit only `most` is used."""

    most: int = 0
    used: int = 0
    opens_at: datetime | None = None  # when the next window opens; None: there was none yet


class Refusal(NamedTuple):
    """The exhausted key of a request."""

    limit_key: LimitKey
    opens_at: datetime | None = None  # None for a slot: it is free when another job has ended

    def retry_at(self, now: datetime, position: int, jitter: float) -> datetime:
        """When the job that was snoozed as number `position` for this key should try again.

        If a million jobs became due in the same minute, nearly all of them would be snoozed again, every minute. So
        each becomes due in the window that has room for it, up to an hour ahead.
        """
        if self.opens_at is None:
            later = min(position // JOBS_PER_STEP * STEP_SECONDS, MAX_RETRY_SECONDS)
            return now + timedelta(seconds=MIN_RETRY_SECONDS + jitter + later)
        width = ALIGNED.get(self.limit_key.limit.span, MAX_WAIT)
        windows = min(position // max(1, self.limit_key.limit.most), MAX_WAIT // width - 1)
        return self.opens_at + windows * width

    def reason(self, retry_at: datetime, now: datetime) -> str:
        """For the job's column `waiting_for`."""
        key, limit = self.limit_key
        if self.opens_at is None:
            rest = f": {limit.most} of {limit.most} in use"
        else:
            day = "" if retry_at.date() == now.date() else "%Y-%m-%d "
            time = "%H:%M:%S" if retry_at.second else "%H:%M"
            rest = f" opens at {retry_at:{day}{time}} UTC"
        return f"limit {key[: KEY_LENGTH - len(rest) - len('limit ')]}{rest}"


@dataclass
class Availability:
    """The units in use of each key: read under its lock, changed by `decide`, then written back."""

    windows: dict[tuple[str, str], RateWindow] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)  # slots of other runners
    ours: Counter[str] = field(default_factory=Counter)  # slots of this runner's jobs

    def decide(
        self, requests: Sequence[LimitRequest], now: datetime, sequential: bool = False
    ) -> list[Refusal | None]:
        """For each request its refusal, or None if all of its keys were acquired.

        Jobs that run one after the other (`sequential`) share one slot.
        """
        shared: set[str] | None = set() if sequential else None
        decided = []
        for request in requests:
            refusals = [each for key in request if (each := self._refusal(key, now, shared)) is not None]
            for key in request if not refusals else ():
                self._acquire(key, shared)
            decided.append(max(refusals, key=lambda each: each.opens_at or now, default=None))
        return decided

    def _refusal(self, limit_key: LimitKey, now: datetime, shared: set[str] | None) -> Refusal | None:
        key, limit = limit_key
        if limit.span == AT_ONCE:
            free = limit.most - self.others[key] - self.ours[key]
            return None if free > 0 or (shared and key in shared) else Refusal(limit_key)
        window = self.windows.get(limit_key.row_key, RateWindow())
        if window.opens_at is None or window.opens_at <= now:
            window = RateWindow(limit.most, 0, window_end(now, limit.span, limit.zone))
            self.windows[limit_key.row_key] = window
        return None if window.used < limit.most else Refusal(limit_key, window.opens_at)

    def _acquire(self, limit_key: LimitKey, shared: set[str] | None) -> None:
        key, limit = limit_key
        if limit.span != AT_ONCE:
            window = self.windows[limit_key.row_key]
            self.windows[limit_key.row_key] = window._replace(used=window.used + 1)
        elif shared is None:
            self.ours[key] += 1
        elif key not in shared:
            shared.add(key)
            self.ours[key] += 1
