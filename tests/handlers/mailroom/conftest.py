"""A mail room with an email that was sent to Bob."""

import pytest

from tests.handlers.mailroom.office import MailOffice


@pytest.fixture
def office(platform: str) -> MailOffice:
    return MailOffice(platform)
