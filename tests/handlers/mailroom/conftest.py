"""A mail room, with a stopped clock for tests of days and retries."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from tests.handlers.mailroom.office import MailOffice
from tests.handlers.mailroom.sent_mail import NOON, SentMail


@pytest.fixture
def office(platform: str) -> MailOffice:
    return MailOffice(platform)


@pytest.fixture
def clock(platform: str) -> Iterator[FrozenDateTimeFactory]:
    with freeze_time(NOON, real_asyncio=True) as frozen:
        assert isinstance(frozen, FrozenDateTimeFactory)
        yield frozen


@pytest.fixture
def mail(platform: str, clock: FrozenDateTimeFactory) -> Iterator[SentMail]:
    with closing(SentMail(platform)) as made:
        yield made
