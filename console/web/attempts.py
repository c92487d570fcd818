"""How often somebody may try to log in. Pure: now is an argument."""

from typing import NamedTuple

MOST_KNOWN = 10_000
FORGOTTEN_SECONDS = 3600.0  # after the last failure
FIRST_WAIT, LONGEST_WAIT = 30.0, 900.0  # seconds


class Failures(NamedTuple):
    number: int
    last_at: float


class Attempts:
    """Some failures are free; each one after those doubles the wait, for an address as for an account.

    Who waits is refused even with the right password: otherwise he could go on guessing.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._failed: dict[str, Failures] = {}

    def wait(self, who: str, now: float) -> float:
        """Seconds until he may try again; 0 if he may now."""
        known = self._failed.get(who)
        if known is None or now - known.last_at > FORGOTTEN_SECONDS or known.number < self._free:
            return 0.0
        pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(10, known.number - self._free))
        return max(0.0, known.last_at + pause - now)

    def fail(self, who: str, now: float) -> None:
        known = self._failed.get(who, Failures(0, now))
        number = 0 if now - known.last_at > FORGOTTEN_SECONDS else known.number
        self._failed[who] = Failures(number + 1, now)
        if len(self._failed) > MOST_KNOWN:
            self._forget(now)

    def succeed(self, who: str) -> None:
        self._failed.pop(who, None)

    def _forget(self, now: float) -> None:
        """Those that no longer wait; if all do, the older half."""
        waiting = {who: each for who, each in self._failed.items() if self.wait(who, now)}
        newest = sorted(waiting.items(), key=lambda item: item[1].last_at)[-MOST_KNOWN // 2 :]
        self._failed = dict(newest)
