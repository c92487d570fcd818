"""Webhooks of tenants: signed, retried for three days, not sent to private addresses, disabled if they fail."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from freezegun.api import FrozenDateTimeFactory
from sqlalchemy import Connection
from standardwebhooks import Webhook

from handlers.mailroom.tables import webhook_deliveries, webhook_endpoints
from handlers.mailroom.tenant_webhooks import publish
from mayfly import database
from mayfly.testing import Drained, drain, enqueued_jobs
from tests.handlers.mailroom.sent_mail import NOON, SentMail
from tests.handlers.providers import Provider, provider

SECRET, OLD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_ACME", SECRET)
    monkeypatch.setenv("PRIVATE_HOSTS", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[Provider]:
    with provider() as given:
        yield given


def endpoint(mail: SentMail, url: str, number: int = 1, tenant: str = "acme", **columns: Any) -> int:
    usual = {"tenant_id": tenant, "url": url, "credential": "WEBHOOK_ACME", "created_at": NOON}
    mail.insert(webhook_endpoints, {"id": number, **usual, **columns})
    return number


def happen(key: str = "e1", kind: str = "mail.bounced", tenant: str = "acme") -> None:
    scope = database()
    data = {"recipient": "bob@example.com"}
    scope.write(lambda connection: publish(connection, tenant, kind, key, data, scope.now))


def delivered(advance: bool | timedelta = False) -> Drained:
    return drain(advance=advance, raises=False)


@pytest.mark.every_database
def test_an_event_is_delivered_once_to_each_endpoint(mail: SentMail, server: Provider) -> None:
    """That wants it and belongs to the tenant. On every database."""
    endpoint(mail, f"{server.url}/a?b=c")
    endpoint(mail, f"{server.url}/other", 2, tenant="other")
    endpoint(mail, f"{server.url}/bounces", 3, events=["mail.bounced"])
    endpoint(mail, f"{server.url}/replies", 4, events=["mail.replied"])
    endpoint(mail, f"{server.url}/off", 5, disabled_at=NOON)

    for _ in range(2):
        happen()
        delivered()

    assert sorted(each.path for each in server.requests) == ["/a?b=c", "/bounces"]
    for request in server.requests:
        content = Webhook(SECRET).verify(request.body, dict(request.headers.items()))
        assert content == {
            "type": "mail.bounced", "timestamp": NOON.isoformat(), "data": {"recipient": "bob@example.com"},
        }  # fmt: skip
        assert (request.headers["webhook-id"], request.headers["Content-Type"]) == ("e1", "application/json")
    rows = mail.rows(webhook_deliveries)
    assert [(row.endpoint_id, row.status, row.response, row.delivered_at) for row in rows] == [
        (number, "delivered", "127.0.0.1 returned 200", NOON) for number in (1, 3)
    ]


def test_a_secret_can_be_replaced(mail: SentMail, server: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the setting has both, receivers may know either."""
    monkeypatch.setenv("WEBHOOK_ACME", f"{SECRET} {OLD_SECRET}")
    endpoint(mail, server.url)
    happen()

    delivered()

    [request] = server.requests
    for each in (SECRET, OLD_SECRET):
        assert Webhook(each).verify(request.body, dict(request.headers.items()))["type"] == "mail.bounced"


@pytest.mark.parametrize("status", [301, 400, 401, 404, 422, 500, 503])
def test_any_error_is_retried_with_the_same_id(mail: SentMail, server: Provider, status: int) -> None:
    """Receivers may be misconfigured for a while. The signature is new, since receivers refuse old ones."""
    endpoint(mail, server.url)
    happen()
    server.status = status
    failed = delivered()
    failing = mail.rows(webhook_endpoints)[0]
    server.status = 204

    retried = delivered(advance=True)

    first, second = server.requests
    [row] = mail.rows(webhook_endpoints)
    assert (failed.outcomes, retried.outcomes) == ({"failed": 1}, {"done": 1})
    assert (failing.failing_since, failing.failures, failing.retry_at) == (NOON, 1, NOON + MINUTE)
    assert (row.failing_since, row.failures, row.retry_at) == (None, 0, None)
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_an_endpoint_that_fails_delays_its_other_events(mail: SentMail, server: Provider) -> None:
    """They are not tried, and use no attempt; those of other endpoints are delivered."""
    endpoint(mail, server.url)
    happen("e1")
    server.status = 503
    delivered()
    with provider() as healthy:
        endpoint(mail, healthy.url, 2)
        for key in ("e2", "e3"):
            happen(key)

        waiting = delivered()

        assert (waiting.outcomes, len(healthy.requests), len(server.requests)) == ({"snoozed": 2, "done": 2}, 2, 1)
    server.status = 200
    delivered(advance=True)
    assert [row.status for row in mail.rows(webhook_deliveries)] == ["delivered"] * 5


def test_an_event_is_tried_for_three_days(mail: SentMail, server: Provider) -> None:
    """The last try is at least three days after the first one, and most are within the first day."""
    endpoint(mail, server.url, contact="ops@acme.example")
    happen()
    server.status = 500

    delivered(advance=timedelta(days=5))

    tries = [int(each.headers["webhook-timestamp"]) for each in server.requests]
    assert 3 * 86_400 <= tries[-1] - tries[0] < 3.5 * 86_400
    assert len([each for each in tries if each - tries[0] < 86_400]) >= 10
    assert [row.status for row in mail.rows(webhook_deliveries)] == ["failed"]


def test_an_endpoint_that_keeps_failing_is_disabled_with_a_notice(
    mail: SentMail, server: Provider, clock: FrozenDateTimeFactory
) -> None:
    """After three days without a success: one email to its contact, one dead job for the operators."""
    endpoint(mail, f"{server.url}/s3cret", contact="ops@acme.example")
    server.status = 500
    for day in range(4):
        happen(f"e{day}")
        delivered(advance=DAY)
        clock.tick(DAY)
    happen("e9")

    delivered(advance=DAY)

    [row] = mail.rows(webhook_endpoints)
    jobs = enqueued_jobs("deliver_webhook")
    reasons = [each.last_error or "" for each in jobs if each.status == "dead"]
    [notice] = enqueued_jobs("send_email")
    assert row.disabled_reason.startswith("it has failed since 2026-05-04 12:00 UTC: 127.0.0.1 returned 500")
    assert {each.status for each in jobs} == {"dead", "cancelled"}
    assert len([each for each in reasons if each.startswith("endpoint 1 of the tenant acme was disabled: ")]) == 1
    assert notice.payload["to"] == "ops@acme.example"
    assert "s3cret" not in str(notice.payload)
    assert mail.rows(webhook_deliveries)[-1].event_key == "e3"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"url": "ftp://shop.example"}, "its URL must begin with http:// or https:// and name a host"),
        ({"credential": "DATABASE_URL"}, "its credential must be the name of a setting that begins with WEBHOOK_"),
    ],
)
def test_an_endpoint_that_cannot_work_is_disabled_at_once(
    mail: SentMail, server: Provider, columns: dict[str, Any], reason: str
) -> None:
    """Nothing is sent, and no setting is revealed."""
    endpoint(mail, **{"url": server.url, "contact": "ops@acme.example", **columns})
    happen()

    drained = delivered()

    [row] = mail.rows(webhook_endpoints)
    assert drained.outcomes["dead"] == 1
    assert (row.disabled_reason, server.requests) == (reason, [])
    assert len(enqueued_jobs("send_email")) == 1


def test_private_addresses_are_refused(mail: SentMail, server: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a name leads to them: the address of the connection counts. PRIVATE_HOSTS names exceptions."""
    monkeypatch.delenv("PRIVATE_HOSTS")
    endpoint(mail, f"http://localhost:{server.port}/x")
    happen()

    delivered()

    assert mail.rows(webhook_endpoints)[0].disabled_reason == "localhost is not a public address"
    assert server.requests == []


@pytest.mark.every_database
def test_an_endpoint_that_is_gone_is_disabled_at_once(mail: SentMail, server: Provider) -> None:
    """410, as Standard Webhooks defines it. Events that are waiting are cancelled."""
    endpoint(mail, server.url)
    happen("e1")
    happen("e2")
    server.status = 410

    drained = delivered()

    assert (drained.outcomes, len(server.requests)) == ({"dead": 1, "cancelled": 1}, 1)
    assert mail.rows(webhook_endpoints)[0].disabled_reason == "127.0.0.1 returned 410: the endpoint is gone"


def test_frequent_events_do_not_delay_others(mail: SentMail, server: Provider) -> None:
    """Those that were enqueued before them."""
    endpoint(mail, server.url)
    for key, kind in (("e1", "mail.delivered"), ("e2", "mail.replied"), ("e3", "mail.delivered")):
        happen(key, kind)

    delivered()

    assert [each.headers["webhook-id"] for each in server.requests] == ["e2", "e1", "e3"]


def test_a_mistake_of_the_operator_disables_no_endpoint(
    mail: SentMail, server: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is dead with the reason, and can be retried. The secret is not shown."""
    monkeypatch.setenv("WEBHOOK_ACME", "s3cret!")
    endpoint(mail, server.url, contact="ops@acme.example")
    happen()

    drained = delivered()

    assert drained.runs[-1].reason == "the secret of a webhook must be base64, with or without the prefix whsec_"
    assert (drained.outcomes, mail.rows(webhook_endpoints)[0].disabled_at, server.requests) == ({"dead": 1}, None, [])
    assert mail.rows(webhook_deliveries)[0].status == "open"


def test_a_missing_secret_cancels_the_job(mail: SentMail, server: Provider) -> None:
    """The endpoint stays as it is: the operator has not configured it yet, and retries the job later."""
    endpoint(mail, server.url, credential="WEBHOOK_LATER")
    happen()

    drained = delivered()

    assert drained.runs[-1].reason == "integration not configured: WEBHOOK_LATER"
    assert (drained.outcomes, mail.rows(webhook_endpoints)[0].disabled_at) == ({"cancelled": 1}, None)


def test_an_event_belongs_to_the_transaction_that_publishes_it(mail: SentMail, server: Provider) -> None:
    """If that is rolled back, neither a row nor a job is left."""
    endpoint(mail, server.url)
    scope = database()

    def work(connection: Connection) -> None:
        publish(connection, "acme", "mail.bounced", "e1", {}, scope.now)
        raise ValueError("the bounce is not valid")

    with pytest.raises(ValueError, match="not valid"):
        scope.write(work)

    assert (enqueued_jobs(), mail.rows(webhook_deliveries)) == ([], [])
