"""When the windows of a rate begin and end. Pure: now is an argument."""

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


def window_end(now: datetime, span: str, zone: str = "UTC") -> datetime:
    """When the window that `now` lies in ends, and the next one opens.

    Seconds, minutes and hours are those of UTC; days, weeks and months begin at midnight in the zone, or, where the
    clocks are put forward over midnight, at that moment.
    """
    if span in ALIGNED:
        return _EPOCH + ((now - _EPOCH) // ALIGNED[span] + 1) * ALIGNED[span]
    there = _zone(zone)
    today = now.astimezone(there).date()
    return next(
        begin
        for first in (_next_first(today, span), _next_first(_next_first(today, span), span))
        for fold in (0, 1)  # a midnight that comes twice begins its day once
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


MIN_RETRY_SECONDS = 1.0  # a slot is freed when a job ends, and nobody knows when that is
JOBS_PER_STEP = 100  # those who wait for slots come back a hundred at a time, not all at once
STEP_SECONDS = 0.1
MAX_RETRY_SECONDS = 600.0
MAX_WAIT = timedelta(hours=1)  # no further ahead are jobs spread over windows to come: the limit may be raised


class RateWindow(NamedTuple):
    """What a row says; that of a limit on how many at a time says no more than `most`."""

    most: int = 0
    used: int = 0
    opens_at: datetime | None = None  # when it ends and the next one opens; None: there was none yet


class Refusal(NamedTuple):
    """What stands in the way."""

    need: LimitKey
    opens_at: datetime | None = None  # None: a slot, which is free when somebody else's job has ended

    def turn(self, now: datetime, position: int, jitter: float) -> datetime:
        """When a job should ask again before which so many others were put off by the same key.

        A million that all come back in the same minute would all have to be put off again, minute after minute: so
        each comes when a window has room for it, as far as windows that begin within the hour can tell.
        """
        if self.opens_at is None:
            later = min(position // JOBS_PER_STEP * STEP_SECONDS, MAX_RETRY_SECONDS)
            return now + timedelta(seconds=MIN_RETRY_SECONDS + jitter + later)
        width = ALIGNED.get(self.need.limit.span, MAX_WAIT)
        windows = min(position // self.need.limit.most, MAX_WAIT // width - 1)
        return self.opens_at + windows * width

    def reason(self, turn: datetime, now: datetime) -> str:
        """As the job's `waiting_for`."""
        key, limit = self.need
        if self.opens_at is None:
            rest = f": {limit.most} of {limit.most} in use"
        else:
            rest = f" opens at {turn:{_digits(turn, now)}} UTC"
        return f"limit {key[: KEY_LENGTH - len(rest) - len('limit ')]}{rest}"


def _digits(at: datetime, now: datetime) -> str:
    day = "" if at.date() == now.date() else "%Y-%m-%d "
    return f"{day}%H:%M:%S" if at.second else f"{day}%H:%M"


@dataclass
class Availability:
    """What there is of each key: read under its lock, changed by what is granted, then written back."""

    windows: dict[tuple[str, str], RateWindow] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)  # slots of other runners
    ours: Counter[str] = field(default_factory=Counter)  # slots that our running jobs use

    def decide(self, wishes: Sequence[LimitRequest], now: datetime, in_turn: bool = False) -> list[Refusal | None]:
        """For each wish what stands in its way, or None if all of it is granted.

        Of jobs that run one after the other (`in_turn`) only one at a time uses a slot: it is enough for all of them.
        """
        shared: set[str] | None = set() if in_turn else None
        return [self._decide(wish, now, shared) for wish in wishes]

    def _decide(self, wish: LimitRequest, now: datetime, shared: set[str] | None) -> Refusal | None:
        denials = [each for need in wish if (each := self._denial(need, now, shared)) is not None]
        if denials:
            return max(denials, key=lambda each: each.opens_at or now)
        for need in wish:
            self._grant(need, shared)
        return None

    def _denial(self, need: LimitKey, now: datetime, shared: set[str] | None) -> Refusal | None:
        key, limit = need
        if limit.span == AT_ONCE:
            free = limit.most - self.others[key] - self.ours[key]
            return None if free > 0 or (shared and key in shared) else Refusal(need)
        window = self.windows.get(need.place, RateWindow())
        if window.opens_at is None or window.opens_at <= now:
            window = self.windows[need.place] = RateWindow(limit.most, 0, window_end(now, limit.span, limit.zone))
        return None if window.used < limit.most else Refusal(need, window.opens_at)

    def _grant(self, need: LimitKey, shared: set[str] | None) -> None:
        if need.limit.span != AT_ONCE:
            window = self.windows[need.place]
            self.windows[need.place] = window._replace(used=window.used + 1)
        elif shared is None:
            self.ours[need.key] += 1
        elif need.key not in shared:
            shared.add(need.key)
            self.ours[need.key] += 1
