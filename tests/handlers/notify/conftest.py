"""People with subscriptions, and the servers behind them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.handlers.notify.browsers import CURVE, encoded, public_bytes
from tests.handlers.providers import Provider, provider
from tests.handlers.rows import insert

CREATED_AT = "2026-05-04 12:00:00"
PERSON = 7
Subscribe = Callable[..., Provider]


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> str:
    """The public key of the configured private one; local servers may be called."""
    key = ec.generate_private_key(CURVE)
    private = key.private_numbers().private_value.to_bytes(32)
    monkeypatch.setenv("VAPID_PRIVATE_KEY", encoded(private))
    monkeypatch.setenv("VAPID_SUBJECT", "mailto:ops@shop.example")
    monkeypatch.setenv("PRIVATE_HOSTS", "ntfy.lan 127.0.0.1")
    return encoded(public_bytes(key))


@pytest.fixture
def subscribe(platform: str, sender: str) -> Iterator[Subscribe]:
    """Add a subscription to the person; returns its server."""
    with ExitStack() as servers:

        def add(kind: str, number: int = 1, **columns: str) -> Provider:
            given = servers.enter_context(provider())
            url = f"{given.url}/s3cret/t0pic"
            row = {"id": number, "person_id": PERSON, "kind": kind, "url": url, "created_at": CREATED_AT}
            insert(platform, "app_subscriptions", {**row, **columns})
            return given

        yield add
