"""Bounces: matched with the email, counted, and what follows from them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from freezegun import freeze_time

from mayfly import enqueue
from mayfly.cli import mayfly
from tests.handlers.mailroom.office import MailOffice
from tests.handlers.mailroom.shapes import BOB, OURS, SHAPES, Dsn
from tests.handlers.rows import insert

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
DELIVERY = "SELECT status, bounce_type, bounce_reason FROM app_mail_deliveries"
FULL = Dsn(status="5.2.2", diagnostic="smtp; 552 5.2.2 Mailbox full")
DAY_ONE = datetime(2026, 5, 4, 12, tzinfo=UTC)


def add_campaign(office: MailOffice) -> None:
    """Campaign 3 with contact 4, which is Bob, and another one."""
    now = "2026-05-01 00:00:00"
    campaign = {"id": 3, "name": "spring", "status": "ACTIVE", "zone": "UTC", "created_at": now}
    insert(office.url, "app_campaigns", campaign)
    contact = {"lead_group_id": 1, "zone": "UTC", "fields": "{}"}
    insert(office.url, "app_contacts", {**contact, "id": 4, "email": BOB, "name": "Bob"})
    insert(office.url, "app_contacts", {**contact, "id": 5, "email": "eve@example.com", "name": "Eve"})
    for contact_id in (4, 5):
        insert(office.url, "app_enrolments", {"campaign_id": 3, "contact_id": contact_id})
        execution = {"campaign_id": 3, "step_id": 2, "contact_id": contact_id, "status": "PLANNED"}
        insert(office.url, "app_step_executions", execution)


@pytest.mark.every_database
def test_a_hard_bounce_suppresses_the_address_and_ends_its_campaigns(office: MailOffice) -> None:
    """The delivery has type, reason and time; pending messages to the contact are skipped; others are not."""
    add_campaign(office)
    office.send(campaign_id=3, contact_id=4)

    office.receive(SHAPES["dsn"].raw())

    reason = "smtp; 550 5.1.1 <bob@example.com>: Recipient address rejected: User unknown"
    assert office.rows(DELIVERY) == [("bounced", "hard", reason)]
    assert office.rows("SELECT COUNT(*) FROM app_mail_deliveries WHERE bounced_at IS NOT NULL") == [(1,)]
    assert office.rows("SELECT address, reason, detail FROM app_suppressions") == [(BOB, "bounced", reason)]
    assert office.rows("SELECT contact_id, stop_reason FROM app_enrolments ORDER BY contact_id") == [
        (4, "bounced"), (5, None),
    ]  # fmt: skip
    statuses = "SELECT contact_id, status, reason FROM app_step_executions ORDER BY contact_id"
    assert office.rows(statuses) == [(4, "SKIPPED", "bounced"), (5, "PLANNED", None)]
    assert office.rows("SELECT status FROM app_mail_messages") == [("processed",)]


@SQLITE
@pytest.mark.parametrize("shape", ["postfix in text", "qmail", "exim", "yahoo", "dsn with headers only"])
def test_a_bounce_in_any_dialect_finds_its_email(office: MailOffice, shape: str) -> None:
    """By the Message-ID of the returned email."""
    office.send()

    office.receive(SHAPES[shape].raw(), sender=SHAPES[shape].sender)

    assert office.rows("SELECT status, bounce_type FROM app_mail_deliveries") == [("bounced", "hard")]


@SQLITE
def test_a_bounce_is_found_by_its_return_address(office: MailOffice) -> None:
    """Some servers return neither the email nor its Message-ID. The recipient is the one that we sent to."""
    office.send()
    raw = Dsn(returned="", recipient="rfc822; forwarded@elsewhere.example").raw()

    office.receive(raw, recipient=f"bounces+{OURS.partition('@')[0]}@shop.example")

    assert office.rows("SELECT address, kind, delivery_id FROM app_mail_bounces") == [(BOB, "hard", 1)]
    assert office.rows("SELECT address FROM app_suppressions") == [(BOB,)]


@pytest.mark.every_database
def test_the_third_soft_bounce_within_30_days_is_hard(office: MailOffice) -> None:
    """Those that are older do not count."""
    statuses = []
    for number, day in enumerate((0, 31, 40, 50)):
        with freeze_time(DAY_ONE + timedelta(days=day), tick=True):
            office.send(f"{number}@shop.example", id=number + 1)
            returned = f"Content-Type: message/rfc822\n\nMessage-ID: <{number}@shop.example>\n\nDear Bob\n"
            office.receive(
                Dsn(FULL.action, FULL.status, FULL.diagnostic, returned=returned, more=(f"X: {day}",)).raw()
            )
        statuses.append(
            office.rows(f"SELECT status, bounce_type FROM app_mail_deliveries WHERE id = {number + 1}")[0]
        )

    assert statuses == [("sent", "soft")] * 3 + [("bounced", "hard")]
    assert office.rows("SELECT address, reason FROM app_suppressions") == [(BOB, "bounced")]


def test_a_hard_bounce_concerns_one_tenant(office: MailOffice) -> None:
    """The same address and campaign of another tenant do not change."""
    add_campaign(office)  # of the tenant `default`
    office.send(tenant_id="acme")
    office.send("2@shop.example", id=2)

    office.receive(SHAPES["dsn"].raw(), tenant_id="acme")

    assert office.rows("SELECT tenant_id, status FROM app_mail_deliveries ORDER BY id") == [
        ("acme", "bounced"), ("default", "sent"),
    ]  # fmt: skip
    assert office.rows("SELECT tenant_id, address FROM app_suppressions") == [("acme", BOB)]
    assert office.rows("SELECT contact_id FROM app_enrolments WHERE stopped_at IS NOT NULL") == []


@SQLITE
def test_a_delay_is_not_a_bounce(office: MailOffice) -> None:
    """The server tries again."""
    office.send()

    office.receive(SHAPES["dsn of a delay"].raw())

    assert (office.rows(DELIVERY), office.count("app_mail_bounces")) == ([("sent", None, None)], 0)


@pytest.mark.every_database
def test_a_bounce_of_an_unknown_email_is_an_orphan(office: MailOffice) -> None:
    """It is listed, and suppresses nothing: it may be forged."""
    office.receive(SHAPES["dsn"].raw())

    listed = CliRunner().invoke(mayfly, ["mailroom", "orphans"])

    assert office.rows("SELECT delivery_id, address, kind, original_id FROM app_mail_bounces") == [
        (None, BOB, "hard", OURS)
    ]
    assert office.count("app_suppressions") == 0
    assert f"default  {BOB}  hard 5.1.1" in listed.output
    assert f"message {OURS}: smtp; 550 5.1.1" in listed.output


REPORTED: dict[str, Any] = {
    "key": "mailgun:7", "message_id": f"<{OURS}>", "kind": "hard", "code": "5.1.1", "reason": "no such user",
}  # fmt: skip


@pytest.mark.every_database
def test_a_bounce_that_is_reported_twice_counts_once(office: MailOffice) -> None:
    """By a provider with its event, or in a message."""
    office.send()
    for _ in range(2):
        enqueue("process_bounce", REPORTED)
        office.take_in(SHAPES["dsn"].raw())

    office.drain()

    assert office.rows("SELECT COUNT(*) FROM app_mail_bounces") == [(2,)]
    assert office.rows("SELECT status FROM app_mail_deliveries") == [("bounced",)]


@SQLITE
def test_a_repeated_job_counts_a_report_once(office: MailOffice) -> None:
    """As after a crash between its transaction and its end."""
    office.send()
    office.receive(SHAPES["dsn of a full mailbox"].raw())
    [(message_id,)] = office.rows("SELECT id FROM app_mail_messages")

    enqueue("process_bounce", {"report": message_id})
    drained = office.drain()

    assert office.results("process_bounce", drained) == [{"repeated": 1}]
    assert office.count("app_mail_bounces") == 1
