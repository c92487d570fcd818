"""Decide how many jobs the next claim asks for. Pure: values in, values out."""

LARGEST_CLAIM = 1000
HOLD_SECONDS = 0.5  # what a runner holds is about this much of its own work
WORTH_GIVING_WAY = 10  # jobs: fewer nobody notices
GIVE_WAY = 9  # times as long as it took to put them off: a lane takes a tenth of one runner's time
MOST_GIVEN_SECONDS = 2.0


def next_claim(size: int, jobs: int, seconds: float) -> int:
    """Double while a full claim would take less than half of what may be held, halve when it takes more than all."""
    expected = seconds / jobs * size
    if expected > HOLD_SECONDS:
        return max(1, size // 2)
    if expected < HOLD_SECONDS / 2:
        return min(LARGEST_CLAIM, size * 2)
    return size


def way_given(seconds: float, runners: int) -> float:
    """How long to rest after a claim of which nothing could run: a million of them must not slow other lanes down.

    The longer, the more runners the lane has: what they take together is what others feel.
    """
    return min(GIVE_WAY * seconds * runners, MOST_GIVEN_SECONDS)
