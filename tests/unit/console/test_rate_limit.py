"""How often a client may send requests, and how often it may fail to log in."""

import pytest

from console.rate_limit import FORGET_AFTER_SECONDS, MAX_CLIENTS, LoginAttempts, RateLimiter, network_of


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    """Ten seconds' worth at once, then one request whenever the bucket has a token."""
    limiter = RateLimiter(2)
    burst = [limiter.wait("ann", now=0.0) for _ in range(20)]

    assert burst == [0.0] * 20
    assert limiter.wait("ann", now=0.0) == 0.5
    assert limiter.wait("ann", now=0.5) == 0.0
    assert limiter.wait("ann", now=0.5) == 0.5


def test_clients_do_not_share_a_bucket() -> None:
    """One client over its rate does not delay another."""
    limiter = RateLimiter(1)
    for _ in range(11):
        limiter.wait("ann", now=0.0)

    assert limiter.wait("bob", now=0.0) == 0.0


def test_full_buckets_are_forgotten() -> None:
    """Memory is bounded, however many addresses send requests."""
    limiter = RateLimiter(1)
    for number in range(MAX_CLIENTS + 5):
        limiter.wait(f"address {number}", now=float(number))

    assert len(limiter._buckets) < 100


def test_some_failed_logins_are_free_and_then_each_doubles_the_wait() -> None:
    """Up to 15 minutes; other accounts do not wait."""
    attempts = LoginAttempts(free=2)
    waits = []
    for _ in range(9):
        waits.append(attempts.wait("ann", 0))
        attempts.fail("ann", 0)

    assert waits == [0, 0, 30, 60, 120, 240, 480, 900, 900]
    assert attempts.wait("bob", 0) == 0


def test_a_successful_login_resets_the_failures() -> None:
    """So does an hour without a failure."""
    attempts = LoginAttempts(free=1)
    attempts.fail("ann", 100)

    assert [attempts.wait("ann", at) for at in (110, 129, 130)] == [20, 1, 0]
    attempts.fail("ann", 130)
    assert attempts.wait("ann", 131) == 59
    attempts.succeed("ann")
    assert attempts.wait("ann", 131) == 0
    attempts.fail("ann", 200)
    attempts.fail("ann", 200 + FORGET_AFTER_SECONDS + 1)
    assert attempts.wait("ann", 200 + FORGET_AFTER_SECONDS + 1) == 30


def test_the_number_of_remembered_failures_is_bounded() -> None:
    """Those that still wait are kept longest."""
    attempts = LoginAttempts(free=2)
    for _ in range(3):
        attempts.fail("waits", 50)
    for number in range(MAX_CLIENTS):
        attempts.fail(f"address {number}", 0)

    assert attempts.wait("waits", 60) > 0
    assert len(attempts._failed) < MAX_CLIENTS


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_the_addresses_of_an_ipv6_network_count_as_one(address: str, network: str) -> None:
    """One client has a whole /64 and could use a new address for each attempt."""
    assert network_of(address) == network
