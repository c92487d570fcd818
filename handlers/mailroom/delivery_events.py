"""Apply the events of providers to deliveries, each once: an event and its status are changed in one transaction."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, update

from handlers.mailroom.bounces import Bounce, record_bounce
from handlers.mailroom.deliveries import find_delivery, mark
from handlers.mailroom.followups import report_contact
from handlers.mailroom.parsing import short_id
from handlers.mailroom.payloads import ProviderEvents
from handlers.mailroom.provider_events import BOUNCED, COMPLAINED, DEFERRED, DELIVERED, UNSUBSCRIBED
from handlers.mailroom.reports import BouncedRecipient
from handlers.mailroom.tables import HARD, RECEIVED, SOFT, provider_events
from handlers.suppressions import canonical
from mayfly import Job

APPLIED, ORPHAN, REPEATED = "applied", "orphan", "repeated"


def process(job: Job, wanted: ProviderEvents) -> dict[str, int]:
    """Returns how many events were applied, belong to no email of ours, or were applied by another job."""
    numbers, now = sorted(wanted.events), job.now  # in one order, so that two jobs do not deadlock
    outcomes = job.write(lambda connection: [_process_one(connection, each, now) for each in numbers])
    return {each: outcomes.count(each) for each in (APPLIED, ORPHAN, REPEATED)}


def _process_one(connection: Connection, number: int, now: datetime) -> str:
    e = provider_events.c
    event = connection.execute(select(provider_events).where(e.id == number).with_for_update()).first()
    if event is None or event.status != RECEIVED:
        return REPEATED
    message_id = event.details["message_id"]
    delivery = find_delivery(connection, event.tenant_id, (short_id(message_id),)) if message_id else None
    _apply(connection, event, delivery, now)
    status = ORPHAN if delivery is None else APPLIED
    done = update(provider_events).where(e.id == number)
    connection.execute(done.values(status=status, delivery_id=None if delivery is None else delivery.id))
    return status


def _apply(connection: Connection, event: Row[Any], delivery: Row[Any] | None, now: datetime) -> None:
    """A bounce or a complaint of an unknown email is recorded, too."""
    if event.kind in (BOUNCED, DEFERRED):
        record_bounce(connection, _bounce(event, delivery), delivery, now)
    elif event.kind in (DELIVERED, COMPLAINED) and delivery is not None:
        mark(connection, delivery, event.kind, event.occurred_at, now)
    address = event.details["recipient"] if delivery is None else delivery.recipient
    if event.kind in (COMPLAINED, UNSUBSCRIBED) and address:
        report_contact(connection, event.tenant_id, canonical(address), event.kind)


def _bounce(event: Row[Any], delivery: Row[Any] | None) -> Bounce:
    """Providers report each of their own tries: they count as one soft bounce of the email."""
    is_hard, details = event.kind == BOUNCED, event.details
    key = event.event_key if is_hard or delivery is None else f"deferred:{delivery.id}"
    failure = BouncedRecipient(
        details["recipient"] or None, HARD if is_hard else SOFT, details["code"], details["reason"]
    )
    ids = (short_id(details["message_id"]),) if details["message_id"] else ()
    return Bounce(event.tenant_id, key, failure, ids)
