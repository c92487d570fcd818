"""The URLs of the heartbeat."""

import pytest

from mayfly.monitoring.channels import _below


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://hc-ping.com/uuid", "https://hc-ping.com/uuid/start"),
        ("https://hc-ping.com/uuid/", "https://hc-ping.com/uuid/start"),
        ("https://hc.example.com/key/mayfly?create=1", "https://hc.example.com/key/mayfly/start?create=1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/start"),
    ],
)
def test_the_suffix_follows_the_path(url: str, expected: str) -> None:
    """It stands before the query."""
    assert _below(url, "start") == expected
