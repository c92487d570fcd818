"""How often somebody may try to log in."""

from console.web import sessions
from console.web.sessions import LoginAttempts


def test_some_failures_are_free_and_then_each_doubles_the_wait() -> None:
    """Up to a quarter of an hour."""
    known = LoginAttempts(free=2)
    waits = []
    for _ in range(9):
        waits.append(known.wait("ann", 0))
        known.fail("ann", 0)

    assert waits == [0, 0, 30, 60, 120, 240, 480, 900, 900]
    assert known.wait("bob", 0) == 0


def test_a_wait_ends_and_a_success_forgets() -> None:
    """And so does an hour without a failure."""
    known = LoginAttempts(free=1)
    known.fail("ann", 100)

    assert [known.wait("ann", at) for at in (110, 129, 130)] == [20, 1, 0]
    known.fail("ann", 130)
    assert known.wait("ann", 131) == 59
    known.succeed("ann")
    assert known.wait("ann", 131) == 0
    known.fail("ann", 200)
    known.fail("ann", 200 + sessions.FORGET_AFTER_SECONDS + 1)
    assert known.wait("ann", 200 + sessions.FORGET_AFTER_SECONDS + 1) == 30


def test_a_crowd_is_not_remembered_for_ever() -> None:
    """Those who wait stay known longest."""
    known = LoginAttempts(free=2)
    for _ in range(3):
        known.fail("waits", 50)
    for number in range(sessions.MAX_ADDRESSES):
        known.fail(f"address {number}", 0)

    assert known.wait("waits", 60) > 0
    assert len(known._failed) < sessions.MAX_ADDRESSES
