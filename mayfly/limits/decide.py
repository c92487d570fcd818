"""Decide who is granted what, and when those who are not should ask again. Pure: values in, values out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from mayfly.limits.limit import AT_ONCE, Need, Wish
from mayfly.limits.windows import ALIGNED, window_end
from mayfly.schema import KEY_LENGTH

SOON_SECONDS = 1.0  # a slot is freed when a job ends, and nobody knows when that is
JOBS_PER_STEP = 100  # those who wait for slots come back a hundred at a time, not all at once
STEP_SECONDS = 0.1
LONGEST_SECONDS = 600.0
HORIZON = timedelta(hours=1)  # no further ahead are jobs spread over windows to come: the limit may be raised


class Window(NamedTuple):
    """What a row says; that of a limit on how many at a time says no more than `most`."""

    most: int = 0
    used: int = 0
    opens_at: datetime | None = None  # when it ends and the next one opens; None: there was none yet


class Denial(NamedTuple):
    """What stands in the way."""

    need: Need
    opens_at: datetime | None = None  # None: a slot, which is free when somebody else's job has ended

    def turn(self, now: datetime, position: int, jitter: float) -> datetime:
        """When a job should ask again before which so many others were put off by the same key.

        A million that all come back in the same minute would all have to be put off again, minute after minute: so
        each comes when a window has room for it, as far as windows that begin within the hour can tell.
        """
        if self.opens_at is None:
            later = min(position // JOBS_PER_STEP * STEP_SECONDS, LONGEST_SECONDS)
            return now + timedelta(seconds=SOON_SECONDS + jitter + later)
        width = ALIGNED.get(self.need.limit.span, HORIZON)
        windows = min(position // self.need.limit.most, HORIZON // width - 1)
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
class Room:
    """What there is of each key: read under its lock, changed by what is granted, then written back."""

    windows: dict[tuple[str, str], Window] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)  # slots of other runners
    ours: Counter[str] = field(default_factory=Counter)  # slots that our running jobs use

    def decide(self, wishes: Sequence[Wish], now: datetime, in_turn: bool = False) -> list[Denial | None]:
        """For each wish what stands in its way, or None if all of it is granted.

        Of jobs that run one after the other (`in_turn`) only one at a time uses a slot: it is enough for all of them.
        """
        shared: set[str] | None = set() if in_turn else None
        return [self._decide(wish, now, shared) for wish in wishes]

    def _decide(self, wish: Wish, now: datetime, shared: set[str] | None) -> Denial | None:
        denials = [each for need in wish if (each := self._denial(need, now, shared)) is not None]
        if denials:
            return max(denials, key=lambda each: each.opens_at or now)
        for need in wish:
            self._grant(need, shared)
        return None

    def _denial(self, need: Need, now: datetime, shared: set[str] | None) -> Denial | None:
        key, limit = need
        if limit.span == AT_ONCE:
            free = limit.most - self.others[key] - self.ours[key]
            return None if free > 0 or (shared and key in shared) else Denial(need)
        window = self.windows.get(need.place, Window())
        if window.opens_at is None or window.opens_at <= now:
            window = self.windows[need.place] = Window(limit.most, 0, window_end(now, limit.span, limit.zone))
        return None if window.used < limit.most else Denial(need, window.opens_at)

    def _grant(self, need: Need, shared: set[str] | None) -> None:
        if need.limit.span != AT_ONCE:
            window = self.windows[need.place]
            self.windows[need.place] = window._replace(used=window.used + 1)
        elif shared is None:
            self.ours[need.key] += 1
        elif need.key not in shared:
            shared.add(need.key)
            self.ours[need.key] += 1
