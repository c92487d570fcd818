"""What follows from an inbound message, in the transaction that stores it: replies and complaints stop campaigns."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from handlers.mailroom.deliveries import REPLIED, mark
from handlers.mailroom.parsing import ParsedMail
from handlers.mailroom.reports import complaint_of
from handlers.mailroom.tables import BOUNCE, COMPLAINED, COMPLAINT, REPLY
from handlers.suppressions import canonical
from mayfly import enqueue, setting

HIGH = 0  # priority: the next message of a sequence may be due soon


def start_followups(
    connection: Connection,
    message_type: str,
    message_id: int,
    tenant_id: str,
    mail: ParsedMail,
    delivery: Row[Any] | None,
    now: datetime,
) -> None:
    """Automatic replies change nothing."""
    if message_type == BOUNCE:
        enqueue("process_bounce", {"tenant_id": tenant_id, "report": message_id}, connection=connection)
    if delivery is None:
        return
    if message_type == REPLY and is_credible(mail.from_address, delivery.recipient):
        mark(connection, delivery, REPLIED, now, now)
        report_contact(connection, tenant_id, delivery.recipient, "replied")
    if message_type == COMPLAINT and complaint_of(mail) is not None:
        mark(connection, delivery, COMPLAINED, now, now)
        report_contact(connection, tenant_id, delivery.recipient, "complained")


def is_credible(from_address: str, recipient: str) -> bool:
    """Whether a reply comes from the recipient.

    With MAIL_TOKEN_SECRET only the recipient knows the Message-ID, and may answer from another address.
    """
    author, domain = canonical(from_address), recipient.rpartition("@")[2]
    return bool(setting("MAIL_TOKEN_SECRET", "")) or author == recipient or author.endswith(f"@{domain}")


def report_contact(connection: Connection, tenant_id: str, address: str, event: str) -> None:
    """Stops the campaigns of the tenant's contact, and suppresses the address unless it has replied."""
    payload = {"tenant_id": tenant_id, "address": address, "event": event}
    enqueue("record_contact_event", payload, priority=HIGH, connection=connection)
