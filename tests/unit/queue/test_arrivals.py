"""How often a lane is polled, given how its jobs have arrived."""

from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.arrivals import MAX_STEADY_POLL_SECONDS, MIN_POLL_SECONDS, Arrivals

LONGEST = 1.0
seconds = st.floats(0, 1000)
job_counts = st.integers(1, 1000)


def steady(gap_seconds: float, jobs: int = 20) -> Arrivals:
    """One job each `gap_seconds`; the last one at that many gaps."""
    arrivals = Arrivals(0.0)
    for number in range(1, jobs + 1):
        arrivals = arrivals.plus(1, number * gap_seconds)
    return arrivals


@given(seconds, seconds, seconds, st.floats(MIN_POLL_SECONDS, 5))
def test_an_interval_is_within_its_bounds(last_at: float, gap: float, silence: float, longest: float) -> None:
    """Never shorter than 5 ms, never longer than POLL_INTERVAL."""
    interval = Arrivals(last_at, gap).poll_seconds(last_at + silence, longest)

    assert MIN_POLL_SECONDS <= interval <= longest


@given(st.floats(0, 8), seconds, seconds)
def test_a_longer_silence_never_means_more_polls(gap: float, one: float, other: float) -> None:
    """The interval only grows until the next job."""
    arrivals = Arrivals(0.0, gap)
    shorter, longer = sorted((one, other))

    assert arrivals.poll_seconds(shorter, LONGEST) <= arrivals.poll_seconds(longer, LONGEST)


@given(st.floats(0.001, 0.8))
def test_steady_jobs_wait_for_a_fraction_of_their_gap(gap: float) -> None:
    """Up to 25 ms while jobs arrive, and about four polls per job or fewer."""
    arrivals = steady(gap)

    interval = arrivals.poll_seconds(arrivals.last_at, LONGEST)

    assert interval <= MAX_STEADY_POLL_SECONDS
    assert interval >= min(gap * 0.2, MAX_STEADY_POLL_SECONDS)


def test_sparse_jobs_are_polled_for_six_times_a_second_at_most() -> None:
    """One job every seven seconds: also just after a job."""
    arrivals = steady(7.0)

    assert arrivals.poll_seconds(arrivals.last_at, LONGEST) >= 1 / 6


@given(st.floats(0, 8))
def test_a_silent_lane_is_polled_at_the_longest_interval(gap: float) -> None:
    """After a minute, however its jobs arrived before."""
    assert Arrivals(0.0, gap).poll_seconds(60.0, LONGEST) == LONGEST


@given(seconds, seconds, job_counts)
def test_the_gap_moves_towards_the_last_one(gap: float, passed: float, jobs: int) -> None:
    """It is between the old estimate and the new gap, which counts as eight seconds at most."""
    seen = min(passed, 8.0) / jobs

    arrivals = Arrivals(0.0, gap).plus(jobs, passed)

    assert arrivals.last_at == passed
    assert min(gap, seen) - 1e-9 <= arrivals.gap_seconds <= max(gap, seen) + 1e-9


def test_no_jobs_change_nothing() -> None:
    """A count of finished jobs may be the same as the last one."""
    assert Arrivals(1.0, 2.0).plus(0, 5.0) == Arrivals(1.0, 2.0)
