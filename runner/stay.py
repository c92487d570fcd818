"""A runner of a lane that lingers does not leave an empty lane at once: what comes next starts without a fork."""

from mayfly.clock import monotonic, pause
from mayfly.timing import timing
from runner.claims import Claims
from runner.guard import Guard

IDLE_SECONDS = 1.0  # between two looks, at most
STEP_SECONDS = 0.05  # a stop is noticed after this


class Stay:
    def __init__(self, claims: Claims, guard: Guard, until: float, interval: float) -> None:
        self._claims = claims
        self._guard = guard
        self._until = until
        self._interval = interval

    def brings_more(self) -> bool:
        """Wait in the empty lane; whether something is due there by now."""
        leaves_at = min(self._until, monotonic() + timing().idle_runner_seconds)
        wait = self._interval
        while self._rest(min(wait, leaves_at - monotonic())):
            if self._claims.has_due():
                return True
            wait = max(self._interval, min(2 * wait, IDLE_SECONDS))
        return False

    def _rest(self, seconds: float) -> bool:
        """Whether another look is worth it after that."""
        until = monotonic() + seconds
        while self._guard.may_start and (left := until - monotonic()) > 0:
            pause(min(left, STEP_SECONDS))
        return seconds > 0 and self._guard.may_start
