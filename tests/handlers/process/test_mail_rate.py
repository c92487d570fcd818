"""How many inbound messages are stored and parsed per minute."""

import time
from collections.abc import Callable, Iterator

import pytest

from mayfly.testing import using_database
from tests.handlers.mailroom.office import MailOffice
from tests.handlers.mailroom.shapes import message
from tests.handlers.process.installation import HandlersInstallation

MESSAGES, MESSAGE_BYTES = 10_000, 5_000


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_the_rate_of_inbound_messages_is_measured(installation: HandlersInstallation) -> None:
    """Taken in one after the other, each in its own transaction; then processed by two runners in real cycles."""
    office = MailOffice(installation.url)
    installation.settings = {"MAX_WORKERS": "2"}

    stored = seconds_of(lambda: take_in_all(office))
    parsed = seconds_of(lambda: process_all(installation))

    rates = (
        f"stored in {stored:.1f} s ({MESSAGES / stored:.0f}/s), parsed in {parsed:.1f} s ({MESSAGES / parsed:.0f}/s)"
    )
    print(f"{MESSAGES:,} messages of {MESSAGE_BYTES:,} bytes: {rates}")
    assert office.count("app_mail_messages") == MESSAGES


def seconds_of(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def raw_messages() -> Iterator[bytes]:
    for number in range(MESSAGES):
        head = message(f"Dear Ann, this is number {number}. ", message_id=f"<{number}@example.com>")
        yield head + b"I would like to know more about your offer.\r\n" * ((MESSAGE_BYTES - len(head)) // 45)


def take_in_all(office: MailOffice) -> None:
    with using_database(office.url):
        for raw in raw_messages():
            office.take_in(raw)


def process_all(installation: HandlersInstallation) -> None:
    while installation.statuses().keys() & {"pending", "processing"}:
        assert installation.dispatch().returncode == 0
