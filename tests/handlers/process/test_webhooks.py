"""Webhooks with runners that are killed at random: nothing is lost, nothing happens twice."""

from collections import Counter
from contextlib import closing

import pytest

from handlers.mailroom.event_intake import take_in_events
from handlers.mailroom.tables import bounces, deliveries, provider_events, webhook_deliveries, webhook_endpoints
from handlers.mailroom.tenant_webhooks import publish
from mayfly import database
from mayfly.testing import using_database
from tests.handlers.mailroom.provider_requests import SETTINGS as KEYS
from tests.handlers.mailroom.provider_requests import Happened, sendgrid
from tests.handlers.mailroom.sent_mail import NOON, SentMail
from tests.handlers.process.random_kills import drain_under_kills, rows_of
from tests.handlers.providers import provider
from tests.process.installation import Installation

SETTINGS = {
    **KEYS,
    "PRIVATE_HOSTS": "127.0.0.1",
    "WEBHOOK_ACME": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "BACKOFF_BASE": "0.01",
}
EVENTS_PER_REQUEST = 10


def deliver_under_kills(installation: Installation, events: int, kills: int) -> None:
    """To two endpoints: each event arrives at each of them; a duplicate has the same id and follows a kill."""
    installation.settings = {**SETTINGS, "BATCH_SIZE": "5", "MAX_WORKERS": "2"}
    with provider() as one, provider() as other, closing(SentMail(installation.url)) as mail:
        one.mode = other.mode = "slowly"
        for number, server in enumerate((one, other), 1):
            row = {"id": number, "tenant_id": "acme", "url": server.url, "credential": "WEBHOOK_ACME"}
            mail.insert(webhook_endpoints, {**row, "created_at": NOON})
        with using_database(installation.url):
            for number in range(events):
                key = f"mail.bounced:{number}"
                database().write(
                    lambda connection: publish(connection, "acme", "mail.bounced", key, {"n": number}, NOON)  # noqa: B023
                )

        killed = drain_under_kills(installation, lambda: len(one.requests) + len(other.requests), kills=kills)

        found = [Counter(each.headers["webhook-id"] for each in server.requests) for server in (one, other)]
        rows = mail.rows(webhook_deliveries)
    assert (killed, installation.statuses()) == (kills, {"done": 2 * events})
    assert {row.status for row in rows} == {"delivered"}
    assert [len(each) for each in found] == [events, events]
    assert sum(each.total() - events for each in found) <= 8 * kills  # eight calls at a time


def process_under_kills(installation: Installation, emails: int, kills: int) -> None:
    """Each event is applied once, with everything that follows from it."""
    installation.settings = {**SETTINGS, "BATCH_SIZE": "1", "MAX_WORKERS": "2"}
    with provider() as server, closing(SentMail(installation.url)) as mail:
        row = {"id": 1, "tenant_id": "default", "url": server.url, "credential": "WEBHOOK_ACME", "created_at": NOON}
        mail.insert(webhook_endpoints, row)
        mail.deliveries(emails)
        take_in_twice(installation, emails)

        killed = drain_under_kills(
            installation,
            rows_of(installation, "SELECT COUNT(*) FROM app_mail_events WHERE status = 'applied'"),
            kills=kills,
        )

        ids = {each.headers["webhook-id"] for each in server.requests}
        assert (killed, len(ids), set(installation.statuses())) == (kills, emails, {"done"})
        assert Counter(row.status for row in mail.rows(provider_events)) == {"applied": emails}
        assert Counter((row.status, row.bounce_type) for row in mail.rows(deliveries)) == {
            ("bounced", "hard"): emails
        }
        assert len(mail.rows(bounces)) == len(mail.rows(webhook_deliveries)) == emails
    types = installation.rows("SELECT type, COUNT(*) FROM mayfly_jobs GROUP BY type")
    assert {row[0]: row[1] for row in types} == {
        "deliver_webhook": emails, "process_webhook": emails // EVENTS_PER_REQUEST, "record_contact_event": emails,
    }  # fmt: skip


def take_in_twice(installation: Installation, emails: int) -> None:
    """Providers repeat a request whose response they have not read."""
    with using_database(installation.url), pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        scope = database()
        for begin in range(0, emails, EVENTS_PER_REQUEST):
            numbers = range(begin + 1, begin + 1 + EVENTS_PER_REQUEST)
            happened = [Happened("bounced", f"{each}@shop.example", key=f"e{each}") for each in numbers]
            request = sendgrid(scope.now, *happened)
            for _ in range(2):
                take_in_events(scope, "default", "sendgrid", request.headers, request.body)


def test_random_kills_lose_no_webhook(embedded: Installation) -> None:
    """On SQLite, a few events."""
    deliver_under_kills(embedded, events=12, kills=2)


def test_random_kills_apply_each_event_once(embedded: Installation) -> None:
    """On SQLite, a few events."""
    process_under_kills(embedded, emails=60, kills=2)


@pytest.mark.slow
@pytest.mark.every_database
def test_many_kills_lose_no_webhook(installation: Installation) -> None:
    """On every database."""
    deliver_under_kills(installation, events=60, kills=6)


@pytest.mark.slow
@pytest.mark.every_database
def test_many_kills_apply_each_event_once(installation: Installation) -> None:
    """On every database."""
    process_under_kills(installation, emails=1000, kills=10)
