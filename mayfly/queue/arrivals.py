"""When to query a lane for new jobs: after a fraction of the time between its last ones. Pure."""

from math import inf
from typing import NamedTuple

MIN_POLL_SECONDS = 0.005
MAX_STEADY_POLL_SECONDS = 0.025  # while jobs arrive
POLLS_PER_GAP = 3.5  # a job waits for a seventh of the time between two jobs
POLLS_PER_SILENCE = 40
MAX_GAP_SECONDS = 8.0  # a longer silence counts as this: after its end, jobs may arrive quickly
REMEMBERED = 0.75  # the weight of earlier jobs when one more has arrived


class Arrivals(NamedTuple):
    """How jobs arrive in one lane."""

    last_at: float  # monotonic: when the last job was seen; before the first one, since when it is awaited
    gap_seconds: float = 0.0  # the average time between recent jobs; 0: unknown

    def plus(self, jobs: int, now: float) -> "Arrivals":
        """After this many more jobs since `last_at`."""
        if jobs < 1:
            return self
        gap = min(now - self.last_at, MAX_GAP_SECONDS) / jobs
        return Arrivals(now, gap + (self.gap_seconds - gap) * REMEMBERED**jobs)

    def poll_seconds(self, now: float, longest: float) -> float:
        """How long to wait between two queries. A gap that has not ended yet is at least as long as the silence."""
        expected = max(self.gap_seconds, now - self.last_at)
        steady = min(expected / POLLS_PER_GAP, MAX_STEADY_POLL_SECONDS)
        return min(max(steady, expected / POLLS_PER_SILENCE, MIN_POLL_SECONDS), longest)


NONE_EXPECTED = Arrivals(-inf)  # such a lane is polled as rarely as the caller allows
