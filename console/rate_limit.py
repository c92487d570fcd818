"""Rate limits for requests and for failed logins. Pure: `now` is an argument."""

from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

BURST_SECONDS = 10.0  # worth of requests in one burst: hundreds of workers may start together
MAX_CLIENTS = 10_000

FORGET_AFTER_SECONDS = 3600.0  # after the last failed login
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 30.0, 900.0
IPV6_PREFIX_LENGTH = 64  # of the network that one client has


class RateLimiter:
    """One token bucket per client, filled at the rate; its size is one burst."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._capacity = per_second * BURST_SECONDS
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, and the time of that count

    def wait(self, client: str, now: float) -> float:
        """Take one token and return 0, or return the seconds until there is one."""
        left, at = self._buckets.get(client, (self._capacity, now))
        left = min(self._capacity, left + (now - at) * self._per_second)
        if left < 1:
            return (1 - left) / self._per_second
        self._buckets[client] = (left - 1, now)
        if len(self._buckets) > MAX_CLIENTS:
            self._forget_full(now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """Drop full buckets: a new bucket is full too."""
        self._buckets = {
            client: (left, at) for client, (left, at) in self._buckets.items() if now - at < BURST_SECONDS
        }


class Failures(NamedTuple):
    number: int
    last_at: float


class LoginAttempts:
    """Failed logins per key. After the first `free` failures each further one doubles the wait.

    During the wait even the right password is refused, or an attacker could continue to guess.
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
        """Keep only the keys that must still wait; if there are too many of them, the newest."""
        waiting = {key: each for key, each in self._failed.items() if self.wait(key, now)}
        newest = sorted(waiting.items(), key=lambda item: item[1].last_at)[-MAX_CLIENTS // 2 :]
        self._failed = dict(newest)


def network_of(address: str) -> str:
    """What failed logins are counted for: an IPv4 address, or the network of an IPv6 address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or IPv6Network((parsed, IPV6_PREFIX_LENGTH), strict=False))
