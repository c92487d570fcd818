"""The rows of sent emails, through real SMTP servers."""

from collections.abc import Iterator
from typing import Any

import pytest

from handlers.mail.accounts import limits_of, read_accounts
from handlers.mail.delivery import deliver
from handlers.mail.payloads import Mail
from handlers.mailroom.campaign_mail import send
from handlers.mailroom.payloads import CampaignEmail
from mayfly import Job, enqueue, handler
from mayfly.testing import drain
from tests.handlers.mail.servers import Post, post_office
from tests.handlers.mailroom.office import NOON, MailOffice
from tests.handlers.mailroom.shapes import BOB
from tests.handlers.mailroom.test_bounces import add_campaign
from tests.handlers.rows import execute, insert

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
DELIVERIES = "SELECT tenant_id, recipient, sender, message_id, status, response FROM app_mail_deliveries"


@pytest.fixture
def post(office: MailOffice) -> Iterator[Post]:
    """An SMTP server, and handlers that send through it."""
    with post_office(None) as opened:
        pool = read_accounts(f"smtp://127.0.0.1:{opened.port}?from=ann@shop.example&tls=none")

        @handler("post", takes=limits_of(pool), ack="each", max_attempts=3)
        def post_mail(job: Job, mail: Mail) -> dict[str, Any]:
            return deliver(job, mail, pool)

        @handler("post_campaign", takes=limits_of(pool), ack="each", max_attempts=3)
        def post_campaign_mail(job: Job, email: CampaignEmail) -> dict[str, Any]:
            return send(job, email, pool)

        yield opened


def send_one(office: MailOffice, **fields: Any) -> list[dict[str, Any]]:
    enqueue("post", {"to": "Bob@example.com", "subject": "Hello", "text": "Dear Bob", **fields})
    return office.results("post", drain(advance=True, raises=False))


@pytest.mark.every_database
def test_each_sent_email_has_a_row(office: MailOffice, post: Post) -> None:
    """The job returns its id and the Message-ID that the recipient sees."""
    [result] = send_one(office, tenant_id="acme")

    [(_, message)] = post.taken
    message_id = message["Message-ID"].strip("<>")
    assert office.rows(DELIVERIES) == [("acme", BOB, "ann@shop.example", message_id, "sent", "250 taken")]
    [(delivery_id,)] = office.rows("SELECT id FROM app_mail_deliveries")
    assert (result["delivery_id"], result["message_id"]) == (delivery_id, message_id)
    assert office.rows("SELECT COUNT(*) FROM app_mail_deliveries WHERE sent_at IS NOT NULL") == [(1,)]


@SQLITE
def test_a_repeated_email_has_one_row(office: MailOffice, post: Post) -> None:
    """The second job returns the same ids."""
    first, second = send_one(office, key="welcome:7"), send_one(office, key="welcome:7")

    assert (first, office.count("app_mail_deliveries")) == (second, 1)


@SQLITE
@pytest.mark.parametrize("key", ["welcome:7", "k" * 150])
def test_two_tenants_may_use_one_key(office: MailOffice, post: Post, key: str) -> None:
    """Each sends its email once."""
    for _ in range(2):
        for tenant in ("acme", "bolt", "default"):
            send_one(office, key=key, tenant_id=tenant)

    assert len(post.taken) == 3
    assert office.rows("SELECT tenant_id FROM app_mail_deliveries ORDER BY id") == [
        ("acme",),
        ("bolt",),
        ("default",),
    ]


@SQLITE
def test_bulk_mail_is_cancelled_if_its_own_tenant_has_suppressed_the_address(office: MailOffice, post: Post) -> None:
    suppression = {"tenant_id": "acme", "address": BOB, "reason": "complained", "created_at": NOON}
    insert(office.url, "app_suppressions", suppression)

    for tenant in ("acme", "bolt"):
        send_one(office, tenant_id=tenant, unsubscribe="https://shop.example/leave")

    assert office.rows("SELECT tenant_id FROM app_mail_deliveries") == [("bolt",)]


@SQLITE
@pytest.mark.parametrize(
    ("reply", "status"), [("550 5.1.1 no such user", "bounced"), ("554 5.7.1 spam", "failed"), ("452 later", "sent")]
)
def test_a_refused_email_has_a_row_with_the_reason(office: MailOffice, post: Post, reply: str, status: str) -> None:
    """A mailbox that does not exist is a bounce. After a temporary failure the email is sent."""
    post.at_rcpt["Bob@example.com"] = [reply]

    send_one(office)

    [row] = office.rows("SELECT status, bounce_type, response FROM app_mail_deliveries")
    expected = "250 taken" if status == "sent" else reply
    assert row == (status, "hard" if status == "bounced" else None, expected)


@SQLITE
def test_bounces_and_replies_come_to_addresses_with_the_token_of_the_email(
    office: MailOffice, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VERP: the sender of the envelope; Reply-To, unless the payload has one."""
    monkeypatch.setenv("BOUNCE_ADDRESS", "bounces@mail.shop.example")
    monkeypatch.setenv("REPLY_ADDRESS", "reply@shop.example")

    send_one(office)
    send_one(office, reply_to="eve@example.com")

    tokens = [row[0] for row in office.rows("SELECT token FROM app_mail_deliveries ORDER BY id")]
    assert post.senders == [f"bounces+{each}@mail.shop.example" for each in tokens]
    assert [message["Reply-To"] for _, message in post.taken] == [
        f"reply+{tokens[0]}@shop.example",
        "eve@example.com",
    ]


@SQLITE
def test_message_ids_cannot_be_computed_without_the_secret(
    office: MailOffice, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_one(office, key="one")
    monkeypatch.setenv("MAIL_TOKEN_SECRET", "s3cret")
    enqueue("post", {"to": "eve@example.com", "subject": "Hello", "text": "Dear Eve", "key": "two"})
    drain(advance=True, raises=False)

    first, second = (message["Message-ID"] for _, message in post.taken)
    assert first != second
    assert [row[0] for row in office.rows("SELECT status FROM app_mail_deliveries")] == ["sent", "sent"]


@pytest.mark.every_database
@pytest.mark.usefixtures("_bulk_mail")
def test_an_email_of_a_campaign_is_sent_from_its_template(office: MailOffice, post: Post) -> None:
    """With the fields of the contact and the personalizations; once per contact and template."""
    add_campaign(office)
    template = {"template_key": "spring", "subject": "Hello {{ name }}", "created_at": NOON}
    insert(office.url, "app_templates", {**template, "text_body": "Your code: {{ code }} {{ unsubscribe }}"})
    email = {"campaign_id": 3, "recipient_id": 4, "email_template": "spring", "personalizations": {"code": "x7"}}
    for _ in range(2):
        enqueue("post_campaign", email)

    drain(raises=True)

    [(recipient, message)] = post.taken
    assert (recipient, message["Subject"], "Your code: x7 https" in message.get_content()) == (BOB, "Hello Bob", True)
    assert office.rows("SELECT campaign_id, contact_id, status FROM app_mail_deliveries") == [(3, 4, "sent")]


@SQLITE
@pytest.mark.usefixtures("_bulk_mail")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE app_campaigns SET status = 'PAUSED'", "the campaign spring is PAUSED"),
        ("UPDATE app_enrolments SET stop_reason = 'bounced'", "the contact 4 is not contacted: bounced"),
        ("UPDATE app_contacts SET banned = 1", "the contact 4 is not contacted: banned"),
        ("UPDATE app_contacts SET email = NULL", "the contact 4 does not exist, or has no email address"),
        (
            "UPDATE app_campaigns SET tenant_id = 'acme'",
            "the campaign 3 does not belong to the tenant default",
        ),
        (
            "UPDATE app_contacts SET tenant_id = 'acme'",
            "the contact 4 does not exist, or has no email address",
        ),
        ("DELETE FROM app_campaigns", "There is no campaign 3; `mayfly campaigns list` lists them."),
    ],
)
def test_an_email_is_not_sent_to_a_contact_that_must_not_get_it(
    office: MailOffice, post: Post, change: str, reason: str
) -> None:
    """The outcome of the job says why."""
    add_campaign(office)
    execute(office.url, change)
    enqueue("post_campaign", {"campaign_id": 3, "recipient_id": 4, "email_template": "spring"})

    drained = drain(raises=False)

    assert (str(drained.runs[0].reason), post.taken) == (reason, [])
