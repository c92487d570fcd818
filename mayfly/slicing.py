"""Decide whether there is time for another step of a long job. Pure."""

MARGIN_SECONDS = 1.0  # beyond the longest step so far: to end in good order
WHOLE_WINDOW = 0.9  # a job that had this share of the window would not be helped by another one
SLICES_ALLOWED = 20  # in a row, without a changed checkpoint
MOVED = -1  # in `stalled`: this run has changed the checkpoint, so that its slice is counted as none


def is_near(left_seconds: float, longest_step: float) -> bool:
    """Whether another step, as long as the longest of this run, might be interrupted in its middle."""
    return left_seconds < longest_step + MARGIN_SECONDS
