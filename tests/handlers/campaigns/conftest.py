"""A platform with a stopped clock, message servers that share it, and the rows of campaigns."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from mayfly.clock import host_clock
from tests.handlers.campaigns.servers import MessageServers, message_servers
from tests.handlers.campaigns.world import World

MONDAY = "2026-05-04 08:00:00"  # UTC: 10:00 in Berlin


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageServers]:
    with message_servers(lambda: host_clock().now()) as opened:
        for name, value in opened.settings.items():
            monkeypatch.setenv(name, value)
        yield opened


@pytest.fixture
def clock(platform: str, servers: MessageServers) -> Iterator[FrozenDateTimeFactory]:
    """Stopped at ten on a Monday morning in Berlin."""
    with freeze_time(MONDAY, real_asyncio=True) as frozen:
        assert isinstance(frozen, FrozenDateTimeFactory)
        yield frozen


@pytest.fixture
def world(platform: str, clock: FrozenDateTimeFactory) -> Iterator[World]:
    with closing(World(platform)) as made:
        yield made
