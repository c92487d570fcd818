"""Where a dead man's switch is told."""

import pytest

from mayfly.monitoring.channels import _below


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://hc-ping.com/uuid", "https://hc-ping.com/uuid/start"),
        ("https://hc-ping.com/uuid/", "https://hc-ping.com/uuid/start"),
        ("https://hc.example.com/key/mayfly?create=1", "https://hc.example.com/key/mayfly/start?create=1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/start"),
    ],
)
def test_the_word_stands_behind_the_path(url: str, told: str) -> None:
    """And before the query."""
    assert _below(url, "start") == told
