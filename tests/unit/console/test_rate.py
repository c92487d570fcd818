"""How often somebody may ask: a burst, then the rate, each for himself."""

from console.rate_limit import MAX_CLIENTS, RateLimiter


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    """Ten seconds' worth at once; the next when there is room for it."""
    rate = RateLimiter(2)
    first = [rate.wait("ann", now=0.0) for _ in range(20)]

    assert first == [0.0] * 20
    assert rate.wait("ann", now=0.0) == 0.5
    assert rate.wait("ann", now=0.5) == 0.0
    assert rate.wait("ann", now=0.5) == 0.5


def test_nobody_waits_because_of_another() -> None:
    """A bucket each."""
    rate = RateLimiter(1)
    for _ in range(11):
        rate.wait("ann", now=0.0)

    assert rate.wait("bob", now=0.0) == 0.0


def test_who_is_silent_is_forgotten() -> None:
    """Addresses are many, memory is not."""
    rate = RateLimiter(1)
    for number in range(MAX_CLIENTS + 5):
        rate.wait(f"address {number}", now=float(number))

    assert len(rate._left) < 100
