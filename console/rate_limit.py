"""How often a client may send requests, and how often it may fail to log in. Pure: `now` is an argument."""

from typing import NamedTuple

BURST_SECONDS = 10.0  # of the rate that may be used at once: hundreds of workers start together
MAX_CLIENTS = 10_000

FORGET_AFTER_SECONDS = 3600.0  # after the last failed login
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 30.0, 900.0


class RateLimiter:
    """A token bucket per client, filled at the rate, as large as a burst."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._capacity = per_second * BURST_SECONDS
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, and when that was

    def wait(self, client: str, now: float) -> float:
        """Take one token, and return 0; or the seconds until there is one."""
        left, at = self._buckets.get(client, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._per_second)
        if left < 1:
            return (1 - left) / self._per_second
        self._buckets[client] = (left - 1, now)
        if len(self._buckets) > MAX_CLIENTS:
            self._forget_full(now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """A full bucket is the same as none."""
        self._buckets = {
            client: (left, at) for client, (left, at) in self._buckets.items() if now - at < BURST_SECONDS
        }


class Failures(NamedTuple):
    number: int
    last_at: float


class LoginAttempts:
    """Failed logins per address or account. The first `free` cost nothing; each further one doubles the wait.

    During the wait even the right password is refused, otherwise guessing could go on.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._failed: dict[str, Failures] = {}

    def wait(self, key: str, now: float) -> float:
        """Seconds until the next attempt is allowed; 0 if it is allowed now."""
        known = self._failed.get(key)
        if known is None or now - known.last_at > FORGET_AFTER_SECONDS or known.number < self._free:
            return 0.0
        wait = min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(10, known.number - self._free))
        return max(0.0, known.last_at + wait - now)

    def fail(self, key: str, now: float) -> None:
        known = self._failed.get(key, Failures(0, now))
        number = 0 if now - known.last_at > FORGET_AFTER_SECONDS else known.number
        self._failed[key] = Failures(number + 1, now)
        if len(self._failed) > MAX_CLIENTS:
            self._forget(now)

    def succeed(self, key: str) -> None:
        self._failed.pop(key, None)

    def _forget(self, now: float) -> None:
        """Keep only those that still wait; if all do, the newer half."""
        waiting = {key: each for key, each in self._failed.items() if self.wait(key, now)}
        newest = sorted(waiting.items(), key=lambda item: item[1].last_at)[-MAX_CLIENTS // 2 :]
        self._failed = dict(newest)
