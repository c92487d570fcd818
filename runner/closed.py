"""What a runner knows of limited keys without asking: which are used up, and which its own jobs keep moving."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mayfly.limits.decide import Denial
from mayfly.limits.limit import Wish
from mayfly.outcome import Kind, Outcome

BELIEVED = timedelta(seconds=0.25)  # how long a key whose slots are all in use is not asked for again
FLOW_SECONDS = 0.5  # as much work as a runner holds: a key that stands still for longer is not waited for


@dataclass
class Closed:
    """A key that is known to be used up, and those that were put off for it."""

    denial: Denial
    at: datetime
    jitter: float
    until: datetime  # not asked for again before
    put_off: int = 0

    @property
    def key(self) -> str:
        return self.denial.need.key

    @property
    def is_of_slots(self) -> bool:
        """Free again when a job ends, whoever's that is; a window is not until its time has come."""
        return self.denial.opens_at is None

    def next_turn(self) -> Outcome:
        turn = self.denial.turn(self.at, self.put_off, self.jitter)
        self.put_off += 1
        waiting_for = self.denial.reason(turn, self.at)
        return Outcome(Kind.SNOOZED, run_at=turn, keeps_attempt=True, waiting_for=waiting_for)


class ClosedKeys:
    """By their place in the table."""

    def __init__(self) -> None:
        self._closed: dict[tuple[str, str], Closed] = {}

    def find(self, wish: Wish, now: datetime) -> Closed | None:
        """What is known to stand in the way of that."""
        for need in wish:
            closed = self._closed.get(need.place)
            if closed is not None and closed.denial.need == need and now < closed.until:
                return closed
        return None

    def close(self, denial: Denial, now: datetime, dice: Callable[[], float]) -> Closed:
        """A window that is used up stays so until the next one opens; of slots nobody knows."""
        known = self._closed.get(denial.need.place)
        is_same = known is not None and known.denial == denial
        if known is not None and is_same and now < known.until:
            return known
        put_off = known.put_off if known is not None and is_same else 0
        closed = Closed(denial, now, dice(), denial.opens_at or now + BELIEVED, put_off)
        self._closed[denial.need.place] = closed
        return closed

    def ask_again(self, wish: Wish) -> None:
        """A job of ours that had this has ended."""
        for need in wish:
            closed = self._closed.get(need.place)
            if closed is not None and closed.is_of_slots:
                closed.until = closed.at

    def open(self, wish: Wish) -> None:
        for need in wish:
            self._closed.pop(need.place, None)


class Flow:
    """When a slot of each key was last taken or put down, of those keys alone that our own jobs use."""

    def __init__(self) -> None:
        self._moved_at: dict[str, float] = {}

    def note(self, keys: Iterable[str], now: float) -> None:
        self._moved_at |= dict.fromkeys(keys, now)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._moved_at.pop(key, None)

    def goes_on(self, key: str, now: float) -> bool:
        return now < self._moved_at.get(key, 0.0) + FLOW_SECONDS
