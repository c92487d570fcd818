"""Process bounces: of a report that was received as a message, or as a provider reported it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from handlers.mailroom.blobs import read_blob
from handlers.mailroom.deliveries import facts_of, find_delivery
from handlers.mailroom.followups import report_contact
from handlers.mailroom.parsing import ParsedMail, parse_mail, short_id
from handlers.mailroom.payloads import BounceReport
from handlers.mailroom.reports import BouncedRecipient, MailReport, bounce_of
from handlers.mailroom.tables import (
    BOUNCED,
    COMPLAINED,
    DELIVERED,
    HARD,
    MAX_REASON_LENGTH,
    OPEN,
    PROCESSED,
    RECEIVED,
    SENT,
    SOFT,
    bounces,
    contents,
    deliveries,
    messages,
)
from handlers.mailroom.tenant_webhooks import publish
from handlers.suppressions import BOUNCED as SUPPRESSED_AS
from handlers.suppressions import canonical, suppress_on
from mayfly import Dead, Job

MAX_SOFT_BOUNCES, SOFT_BOUNCE_DAYS = 3, 30  # the third within 30 days counts as hard
ORPHAN = "orphan"


@dataclass(frozen=True)
class Bounce:
    """One recipient of one report. The same key is counted once."""

    tenant_id: str
    key: str
    failure: BouncedRecipient
    original_ids: tuple[str, ...]
    report_id: int | None = None  # of app_mail_messages

    @property
    def bounce_key(self) -> str:
        return sha256(f"{self.key}\0{self.failure.address or ''}".encode()).hexdigest()


def process(job: Job, report: BounceReport) -> dict[str, int]:
    if report.report is not None:
        return _process_message(job, report.tenant_id, report.report)
    assert report.key is not None
    failure = BouncedRecipient(
        report.address and canonical(report.address), report.kind, report.code, report.reason[:MAX_REASON_LENGTH]
    )
    ids = (short_id(report.message_id),) if report.message_id else ()
    bounce = Bounce(report.tenant_id, report.key, failure, ids)
    return job.write(lambda connection: _counts([record_bounce(connection, bounce, None, job.now)]))


def _process_message(job: Job, tenant_id: str, report_id: int) -> dict[str, int]:
    query = (
        select(messages, contents.c.raw_hash, contents.c.text_body, contents.c.headers)
        .join_from(messages, contents, contents.c.id == messages.c.content_id)
        .where(messages.c.id == report_id, messages.c.tenant_id == tenant_id)
    )
    row = job.read(lambda connection: connection.execute(query).first())
    if row is None:
        raise Dead(f"there is no message {report_id} of the tenant {tenant_id} in app_mail_messages")
    parsed = bounce_of(_mail_of(job, row))

    def work(connection: Connection) -> dict[str, int]:
        """The row is locked, so that a repeated job counts nothing."""
        locked = select(messages.c.status).where(messages.c.id == report_id).with_for_update()
        if connection.scalar(locked) != RECEIVED:
            return {"repeated": 1}
        outcomes = _record_report(connection, row, parsed, job.now)
        done = update(messages).where(messages.c.id == report_id)
        connection.execute(done.values(status=PROCESSED, processed_at=job.now))
        return _counts(outcomes)

    return job.write(work)


def _mail_of(job: Job, row: Row[Any]) -> ParsedMail:
    if row.raw_hash is not None:
        return parse_mail(job.read(lambda connection: read_blob(connection, row.tenant_id, row.raw_hash)))
    head = "".join(f"{name}: {value}\n" for name, value in row.headers)
    return parse_mail(f"From: {row.from_address}\nSubject: {row.subject}\n{head}\n{row.text_body}".encode())


def _record_report(connection: Connection, row: Row[Any], parsed: MailReport, now: datetime) -> list[str]:
    known = select(deliveries).where(deliveries.c.id == row.delivery_id)
    delivery = connection.execute(known).first() if row.delivery_id is not None else None
    if delivery is None:
        delivery = find_delivery(connection, row.tenant_id, parsed.original_ids)
    return [
        record_bounce(
            connection, Bounce(row.tenant_id, row.message_key, each, parsed.original_ids, row.id), delivery, now
        )
        for each in parsed.failures
    ]


def record_bounce(connection: Connection, bounce: Bounce, delivery: Row[Any] | None, now: datetime) -> str:
    """Part of the caller's transaction. Returns hard, soft or orphan, or `repeated`."""
    b = bounces.c
    known = select(b.id).where(b.tenant_id == bounce.tenant_id, b.bounce_key == bounce.bounce_key)
    if connection.execute(known).first() is not None:
        return "repeated"
    if delivery is None:
        delivery = find_delivery(connection, bounce.tenant_id, bounce.original_ids)
    failure, address = bounce.failure, bounce.failure.address if delivery is None else delivery.recipient
    row = {
        "tenant_id": bounce.tenant_id, "bounce_key": bounce.bounce_key, "message_id": bounce.report_id,
        "delivery_id": None if delivery is None else delivery.id,
        "original_id": bounce.original_ids[0] if bounce.original_ids else None, "address": address,
        "kind": failure.kind, "code": failure.code, "reason": failure.reason, "bounced_at": now,
    }  # fmt: skip
    connection.execute(insert(bounces).values(**row))
    if delivery is None:
        return ORPHAN
    is_hard = (
        failure.kind == HARD
        or _soft_bounces(connection, bounce.tenant_id, delivery.recipient, now) >= MAX_SOFT_BOUNCES
    )
    kind = HARD if is_hard else SOFT
    _change_delivery(connection, delivery, failure, kind, now)
    facts = {**facts_of(delivery), "kind": kind, "code": failure.code, "reason": failure.reason}
    publish(connection, bounce.tenant_id, "mail.bounced", f"mail.bounced:{bounce.bounce_key}", facts, now)
    if is_hard:
        suppress_on(connection, bounce.tenant_id, delivery.recipient, SUPPRESSED_AS, now, failure.reason)
        report_contact(connection, bounce.tenant_id, delivery.recipient, "bounced")
    return kind


def _soft_bounces(connection: Connection, tenant_id: str, address: str, now: datetime) -> int:
    """With the one that was just inserted."""
    b = bounces.c
    since = now - timedelta(days=SOFT_BOUNCE_DAYS)
    query = select(func.count()).where(
        b.tenant_id == tenant_id,
        b.address == address,
        b.bounced_at >= since,
        b.kind == SOFT,
        b.delivery_id.is_not(None),
    )
    return int(connection.execute(query).scalar_one())


def _change_delivery(
    connection: Connection, delivery: Row[Any], failure: BouncedRecipient, kind: str, now: datetime
) -> None:
    """A hard bounce is final; after a soft one the email may still arrive."""
    d = deliveries.c
    values = {"bounced_at": now, "bounce_type": kind, "bounce_reason": failure.reason, "changed_at": now}
    if kind == HARD:
        values["status"] = BOUNCED
    statuses = (OPEN, SENT, DELIVERED, COMPLAINED)
    connection.execute(update(deliveries).where(d.id == delivery.id, d.status.in_(statuses)).values(**values))


def _counts(outcomes: Sequence[str]) -> dict[str, int]:
    return {each: outcomes.count(each) for each in sorted(set(outcomes))}


def orphans(connection: Connection, limit: int) -> list[Row[Any]]:
    """Bounces of emails that are not known, the newest first."""
    query = select(bounces).where(bounces.c.delivery_id.is_(None)).order_by(bounces.c.id.desc()).limit(limit)
    return list(connection.execute(query))
