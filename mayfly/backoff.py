"""How long a failed job waits before it is tried again. Pure: chance is an argument."""

from dataclasses import dataclass

SPREAD = 0.1  # jobs that failed together, come back a little apart


@dataclass(frozen=True)
class Backoff:
    base_seconds: float = 1.0
    cap_seconds: float = 3600.0

    def delay(self, attempt: int, jitter: float = 0.0) -> float:
        """Seconds after the given attempt: min(2^attempt × base, cap), longer by up to a tenth with jitter 1."""
        doubled = self.base_seconds * 2.0 ** min(attempt, 62)  # beyond that floats only get silly
        return min(doubled, self.cap_seconds) * (1 + SPREAD * jitter)
