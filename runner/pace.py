"""Decide how many jobs the next claim asks for. Pure: values in, values out."""

LARGEST_CLAIM = 1000
HOLD_SECONDS = 0.5  # what a runner holds is about this much of its own work


def next_claim(size: int, jobs: int, seconds: float) -> int:
    """Double while a full claim would take less than half of what may be held, halve when it takes more than all."""
    expected = seconds / jobs * size
    if expected > HOLD_SECONDS:
        return max(1, size // 2)
    if expected < HOLD_SECONDS / 2:
        return min(LARGEST_CLAIM, size * 2)
    return size
