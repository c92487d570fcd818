"""How often somebody may ask. Pure: now is an argument."""

BURST_SECONDS = 10.0  # so much of his rate somebody may use at once: hundreds of workers begin together
MAX_CLIENTS = 10_000  # who has not asked for as long as a burst takes to come back need not be known


class RateLimiter:
    """A bucket for each who asks, filled at the rate, as large as a burst."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._full = per_second * BURST_SECONDS
        self._left: dict[str, tuple[float, float]] = {}  # what was left, and when

    def wait(self, who: str, now: float) -> float:
        """Seconds until he may ask again; 0 if he may now, and has."""
        left, at = self._left.get(who, (self._full, now))
        left = min(self._full, left + (now - at) * self._per_second)
        if left < 1:
            return (1 - left) / self._per_second
        self._left[who] = (left - 1, now)
        if len(self._left) > MAX_CLIENTS:
            self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        self._left = {who: (left, at) for who, (left, at) in self._left.items() if now - at < BURST_SECONDS}
