"""Addresses on which the console may listen without TLS."""

import pytest

from console.__main__ import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback_addresses_are_recognized(host: str) -> None:
    """In every notation."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.0.0.1.nip.io"]
)
def test_other_addresses_are_not_loopback(host: str) -> None:
    """A name may resolve to any host."""
    assert not is_loopback(host)
