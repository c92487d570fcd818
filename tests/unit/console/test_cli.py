"""Where the console may listen without a proxy that speaks TLS."""

import pytest

from console.cli import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_the_loopback_is_known(host: str) -> None:
    """However it is written."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.0.0.1.nip.io"]
)
def test_nothing_else_is_taken_for_it(host: str) -> None:
    """A name may be anybody's."""
    assert not is_loopback(host)
