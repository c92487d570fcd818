"""Events of providers: signatures, duplicates, and what they do to deliveries."""

import json
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.mailroom.event_intake import EVENTS_PER_JOB, UnknownProvider, take_in_events
from handlers.mailroom.provider_events import KINDS, PROVIDERS, BadRequest, read_events
from handlers.mailroom.signatures import BadSignature
from handlers.mailroom.tables import bounces, deliveries, provider_events, webhook_deliveries, webhook_endpoints
from mayfly import database, enqueue
from mayfly.testing import drain, enqueued_jobs
from tests.handlers.mailroom.provider_requests import REQUESTS, SETTINGS, Happened, SignedRequest, sendgrid
from tests.handlers.mailroom.sent_mail import NOON, SentMail

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
OURS = "1@shop.example"  # the first delivery


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


def take_in(provider: str, request: SignedRequest, tenant: str = "default") -> int:
    return take_in_events(database(), tenant, provider, request.headers, request.body)


def process() -> list[Any]:
    """The results of the jobs of events."""
    return [run.result for run in drain(lanes=["webhook"]).runs if run.job.type == "process_webhook"]


def contact_events() -> list[tuple[str, str]]:
    return [(each.payload["address"], each.payload["event"]) for each in enqueued_jobs("record_contact_event")]


@SQLITE
@pytest.mark.parametrize("provider", REQUESTS)
@pytest.mark.parametrize(
    ("kind", "columns", "reported"),
    [
        ("delivered", {"status": "delivered", "delivered_at": NOON}, []),
        ("bounced", {"status": "bounced", "bounce_type": "hard", "bounced_at": NOON}, ["bounced"]),
        ("deferred", {"status": "sent", "bounce_type": "soft"}, []),
        ("complained", {"status": "complained", "complained_at": NOON}, ["complained"]),
        ("unsubscribed", {"status": "sent"}, ["unsubscribed"]),
    ],
)
def test_an_event_changes_the_delivery_of_its_email(
    mail: SentMail, provider: str, kind: str, columns: dict[str, Any], reported: list[str]
) -> None:
    """In the format of each provider; what stops a contact is reported to its campaigns."""
    mail.delivery(recipient="bob@example.com")

    take_in(provider, REQUESTS[provider](NOON, Happened(kind, OURS)))
    results = process()

    [row] = mail.rows(deliveries)
    [event] = mail.rows(provider_events)
    assert results == [{"applied": 1, "orphan": 0, "repeated": 0}]
    assert {name: getattr(row, name) for name in columns} == columns
    assert contact_events() == [("bob@example.com", each) for each in reported]
    assert (event.status, event.delivery_id, event.provider, event.kind) == ("applied", 1, provider, kind)


@pytest.mark.every_database
def test_a_repeated_event_changes_nothing(mail: SentMail) -> None:
    """The same request, or the event in another request, before and after it is processed. On every database."""
    mail.delivery(recipient="bob@example.com")
    mail.insert(
        webhook_endpoints,
        {"id": 1, "tenant_id": "default", "url": "http://127.0.0.1", "credential": "WEBHOOK_X", "created_at": NOON},
    )
    bounced, other = Happened("bounced", OURS), Happened("delivered", OURS, key="event-2")

    for request in (sendgrid(NOON, bounced), sendgrid(NOON, other, bounced)):
        take_in("sendgrid", request)
    process()
    take_in("sendgrid", sendgrid(NOON, bounced))
    process()

    assert [row.status for row in mail.rows(provider_events)] == ["applied", "applied"]
    assert len(mail.rows(bounces)) == 1
    assert contact_events() == [("bob@example.com", "bounced")]
    assert sorted(row.event_type for row in mail.rows(webhook_deliveries)) == ["mail.bounced", "mail.delivered"]
    assert [(row.status, row.delivered_at) for row in mail.rows(deliveries)] == [("bounced", NOON)]


@SQLITE
def test_an_event_is_applied_once(mail: SentMail) -> None:
    """Although its job runs again, as after a kill."""
    mail.delivery(recipient="bob@example.com")
    take_in("mailgun", REQUESTS["mailgun"](NOON, Happened("unsubscribed", OURS)))
    [event] = mail.rows(provider_events)

    first = process()
    enqueue("process_webhook", {"events": [event.id]})
    again = process()

    assert [first, again] == [
        [{"applied": 1, "orphan": 0, "repeated": 0}], [{"applied": 0, "orphan": 0, "repeated": 1}],
    ]  # fmt: skip
    assert contact_events() == [("bob@example.com", "unsubscribed")]


@SQLITE
def test_the_tries_of_a_provider_are_one_soft_bounce(mail: SentMail) -> None:
    """Three deferrals of one email do not make it hard; soft bounces of three emails do."""
    for number in range(1, 4):
        mail.delivery(recipient="bob@example.com")
        for attempt in range(3):
            key = f"event-{number}-{attempt}"
            take_in("mailgun", REQUESTS["mailgun"](NOON, Happened("deferred", f"{number}@shop.example", key=key)))
        process()

        kinds = [row.bounce_type for row in mail.rows(deliveries)]
        assert kinds == (["soft"] * number if number < 3 else ["soft", "soft", "hard"])


@pytest.mark.every_database
def test_an_event_of_an_unknown_email_is_an_orphan(mail: SentMail) -> None:
    """It is kept. A complaint is respected nevertheless; another tenant's email is unknown. On every database."""
    mail.delivery(tenant_id="other")

    for number, kind in enumerate(("delivered", "bounced", "complained")):
        take_in("standard", REQUESTS["standard"](NOON, Happened(kind, OURS, key=f"event-{number}")))
    process()

    assert [row.status for row in mail.rows(provider_events)] == ["orphan"] * 3
    assert [row.status for row in mail.rows(deliveries)] == ["sent"]
    assert contact_events() == [("bob@example.com", "complained")]


@SQLITE
def test_many_events_are_divided_among_jobs(mail: SentMail) -> None:
    """One request of SendGrid may have a thousand."""
    mail.deliveries(2 * EVENTS_PER_JOB + 1)
    events = [Happened("delivered", f"{number}@shop.example", key=f"e{number}") for number in range(1, 202)]

    stored = take_in("sendgrid", sendgrid(NOON, *events))
    results = process()

    assert (stored, [each["applied"] for each in results]) == (201, [100, 100, 1])
    assert {row.status for row in mail.rows(deliveries)} == {"delivered"}


# --- signatures -------------------------------------------------------------------------------------------


def altered(request: SignedRequest) -> SignedRequest:
    """The body of Mailgun is not signed, but the signature is in it."""
    return request._replace(body=request.body.replace(b'"signature": "', b'"signature": "0').replace(b"bob", b"eve"))


def unsigned(request: SignedRequest) -> SignedRequest:
    return SignedRequest({}, request.body.replace(b'"signature": {', b'"other": {'))


@SQLITE
@pytest.mark.parametrize("provider", REQUESTS)
@pytest.mark.parametrize("change", [altered, unsigned, lambda request: request._replace(body=b"\xff{")])
def test_a_request_without_a_valid_signature_is_refused(mail: SentMail, provider: str, change: Any) -> None:
    """Altered, unsigned, or garbage. Nothing is stored."""
    mail.delivery()

    with pytest.raises(BadSignature):
        take_in(provider, change(REQUESTS[provider](NOON, Happened("bounced", OURS))))

    assert (mail.rows(provider_events), enqueued_jobs()) == ([], [])


@SQLITE
@pytest.mark.parametrize("provider", REQUESTS)
@pytest.mark.parametrize("hours", [-13, 13])
def test_a_recorded_request_is_refused(mail: SentMail, provider: str, hours: int) -> None:
    """Signed long ago, or for the future."""
    request = REQUESTS[provider](NOON + timedelta(hours=hours), Happened("bounced", OURS))

    with pytest.raises(BadSignature):
        take_in(provider, request)


@SQLITE
def test_a_provider_needs_its_key(mail: SentMail, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting, or the known providers. A tenant's own key comes first."""
    request = REQUESTS["mailgun"](NOON, Happened("bounced", OURS))
    monkeypatch.setenv("MAILGUN_SIGNING_KEY_ACME_DE", "another key")

    with pytest.raises(BadSignature):
        take_in("mailgun", request, "acme.de")
    monkeypatch.delenv("MAILGUN_SIGNING_KEY")
    with pytest.raises(UnknownProvider, match="integration not configured: MAILGUN_SIGNING_KEY"):
        take_in("mailgun", request)
    with pytest.raises(UnknownProvider, match="the known ones are mailgun, sendgrid, standard"):
        take_in("postmark", request)


@pytest.mark.parametrize("provider", PROVIDERS)
@given(body=st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["event", "event-data", "data", "type", "id", "timestamp", "smtp-id", "email"])
                      | st.text(max_size=3), inner, max_size=5),
    max_leaves=12,
))  # fmt: skip
def test_any_signed_body_is_events_or_an_error(provider: str, body: Any) -> None:
    """No other exception, whatever a provider sends."""
    try:
        found = read_events(PROVIDERS[provider], {"webhook-id": "e1"}, json.dumps(body).encode())
    except BadRequest:
        found = []

    assert {each.kind for each in found} <= set(KINDS)


@SQLITE
def test_events_in_any_order_have_the_same_result(mail: SentMail) -> None:
    """Of one email: delivered, bounced, complained, in all requests and jobs."""
    results = set()
    for seed in range(6):
        mail.clear(deliveries, provider_events, bounces)
        number = mail.delivery(recipient="bob@example.com")
        happened = [Happened(kind, f"{number}@shop.example", key=f"{seed}-{kind}") for kind in KINDS]
        Random(seed).shuffle(happened)
        for each in happened:
            take_in("sendgrid", sendgrid(NOON, each))
            process()
        [row] = mail.rows(deliveries)
        results.add((row.delivered_at, row.bounced_at, row.bounce_type, row.complained_at))

    assert results == {(NOON, NOON, "hard", NOON)}
