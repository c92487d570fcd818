"""Process one inbound message: store its content, attachments and row, and start what follows from it.

Everything is written in one transaction, guarded by the unique key of the message: a repeated job finds the rows.
"""

import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, insert, select

from handlers.mailroom.attachments import AttachmentRules
from handlers.mailroom.blobs import Blob, blob_of, read_blob, store_blob
from handlers.mailroom.deliveries import find_delivery, token_in
from handlers.mailroom.followups import start_followups
from handlers.mailroom.parsing import (
    MAX_HEADERS,
    MAX_SUBJECT_LENGTH,
    ParsedAttachment,
    ParsedMail,
    address_in,
    addresses_in,
    clean,
    fill_bodies,
    parse_mail,
    short_id,
)
from handlers.mailroom.payloads import InboundEmail
from handlers.mailroom.reports import original_ids, type_of
from handlers.mailroom.retention import content_age
from handlers.mailroom.tables import (
    BOUNCE,
    COMPLAINT,
    INBOUND,
    PLAIN,
    PROCESSED,
    RECEIVED,
    REPLY,
    WARMUP,
    attachments,
    contents,
    messages,
    warmup_mails,
)
from mayfly import Dead, Job

MAX_KEY_ID_LENGTH = 150  # of the Message-ID in a storage key
MILLISECOND = timedelta(milliseconds=1)
OF_KEY = select(contents.c.id).where(contents.c.storage_key == bindparam("key"))


@dataclass(frozen=True)
class Received:
    """A parsed message and how it came."""

    tenant_id: str
    account_id: int | None
    direction: str
    type: str
    mail: ParsedMail
    tokens: tuple[str, ...]  # of the plus-addresses that it was sent to
    raw_hash: str | None
    size_bytes: int

    @property
    def message_key(self) -> str:
        """Equal for copies of a message to one account. Another text under the same Message-ID is another message."""
        return sha256(f"{self.account_id or 0}:{self.direction}:{self.mail.fingerprint}".encode()).hexdigest()


def process(job: Job, email: InboundEmail) -> dict[str, Any]:
    received = _from_raw(job, email) if email.raw_hash is not None else _from_fields(email)
    rules, age = AttachmentRules.from_settings(), content_age()
    files = [(each, rules.refusal_of(each)) for each in received.mail.attachments]
    blobs = [None if refusal else blob_of(each.content) for each, refusal in files]

    def work(connection: Connection) -> dict[str, Any]:
        known = _find(connection, received)
        if known is not None:
            return {**_result(known), "duplicate": True}
        now = job.now
        key = _free_key(connection, received, now)
        content_id = _insert_content(connection, received, key, now, age)
        for position, ((each, refusal), blob) in enumerate(zip(files, blobs, strict=True)):
            if blob is not None:
                store_blob(connection, received.tenant_id, blob, now)
            row = _attachment_row(each, refusal, blob)
            common = {"tenant_id": received.tenant_id, "content_id": content_id, "position": position}
            connection.execute(insert(attachments).values(**common, **row))
        row = _insert_message(connection, received, content_id, now)
        return {"storage_key": key, "content_id": content_id, **row}

    # Repeated if another runner has just stored this message, or one with the same storage key.
    return job.write(work)


# --- how a message comes ----------------------------------------------------------------------------------


def _from_raw(job: Job, email: InboundEmail) -> Received:
    assert email.raw_hash is not None
    tenant_id, raw_hash = email.tenant_id, email.raw_hash
    raw = job.read(lambda connection: read_blob(connection, tenant_id, raw_hash))
    mail = parse_mail(raw)
    if email.is_cut:
        mail = replace(mail, defects=(*mail.defects, "message was cut"))
    addresses = (email.recipient or "", *mail.to_addresses, mail.header("delivered-to"), mail.header("x-original-to"))
    return Received(
        tenant_id=email.tenant_id,
        account_id=email.email_account_id,
        direction=email.direction,
        type=email.type or type_of(mail, email.sender),
        mail=mail,
        tokens=_tokens(addresses),
        raw_hash=raw_hash,
        size_bytes=len(raw),
    )


def _from_fields(email: InboundEmail) -> Received:
    mail = _mail_of_fields(email)
    size = len(mail.text.encode()) + len(mail.html.encode()) + sum(len(each.content) for each in mail.attachments)
    return Received(
        tenant_id=email.tenant_id,
        account_id=email.email_account_id,
        direction=email.direction,
        type=email.type or type_of(mail, email.sender),
        mail=mail,
        tokens=_tokens((email.recipient or "", *mail.to_addresses)),
        raw_hash=None,
        size_bytes=size,
    )


def _mail_of_fields(email: InboundEmail) -> ParsedMail:
    """As if it had been parsed. Headers are kept as they are; their case does not matter."""
    defects: list[str] = []
    headers = tuple((clean(name), clean(" ".join(value.split()))) for name, value in email.headers.items())
    known = {name.lower(): value for name, value in headers}
    text, html, generated = fill_bodies(clean(email.body or ""), clean(email.html or ""), defects)
    replies = _bare_ids(known.get("in-reply-to", ""))
    identity = email.message_id or known.get("message-id") or ""
    if not identity:
        defects.append("no Message-ID")
        identity = (
            f"{sha256(repr((email.from_, email.to, email.subject, text, html)).encode()).hexdigest()}@missing.invalid"
        )
    return ParsedMail(
        message_id=short_id(identity),
        in_reply_to=replies[0] if replies else None,
        references=_bare_ids(known.get("references", "")),
        from_address=address_in(email.from_ or ""),
        to_addresses=addresses_in([email.to] if isinstance(email.to, str) else email.to),
        subject=clean(" ".join(email.subject.split()))[:MAX_SUBJECT_LENGTH],
        text=text,
        html=html,
        generated=generated,
        headers=headers[:MAX_HEADERS],
        attachments=tuple(
            ParsedAttachment(each.name, each.type, _content_of(each.content)) for each in email.attachments
        ),
        defects=tuple(defects),
    )


def _content_of(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except BadBase64:
        raise Dead("the content of an attachment is not base64") from None


def _bare_ids(text: str) -> tuple[str, ...]:
    return tuple(short_id(each) for each in text.split())


def _tokens(addresses: Sequence[str]) -> tuple[str, ...]:
    found = (token_in(each) for text in addresses for each in (text, *addresses_in([text])))
    return tuple(dict.fromkeys(each for each in found if each is not None))


# --- rows -------------------------------------------------------------------------------------------------


def _find(connection: Connection, received: Received) -> Row[Any] | None:
    m = messages.c
    return connection.execute(
        select(messages, contents.c.storage_key)
        .join_from(messages, contents, contents.c.id == m.content_id)
        .where(m.tenant_id == received.tenant_id, m.message_key == received.message_key)
    ).first()


def _result(row: Row[Any]) -> dict[str, Any]:
    return {"storage_key": row.storage_key, "content_id": row.content_id, "message_id": row.id, "type": row.type}


def _insert_content(connection: Connection, received: Received, key: str, now: datetime, age: timedelta) -> int:
    mail = received.mail
    row = {
        "tenant_id": received.tenant_id,
        "storage_key": key,
        "raw_hash": received.raw_hash,
        "text_body": mail.text,
        "html_body": mail.html,
        "generated": mail.generated,
        "headers": [list(each) for each in mail.headers],
        "defects": list(mail.defects),
        "size_bytes": received.size_bytes,
        "created_at": now,
        "expires_at": now + age,
    }
    return inserted_id(connection, contents, row)


def inserted_id(connection: Connection, table: Table, row: dict[str, Any]) -> int:
    key = connection.execute(insert(table).values(**row)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _free_key(connection: Connection, received: Received, now: datetime) -> str:
    """Of two messages with the same Message-ID in the same millisecond, one gets the key of the next millisecond."""
    at = now
    while connection.execute(OF_KEY, {"key": storage_key(received, at)}).first() is not None:
        at += MILLISECOND
    return storage_key(received, at)


def storage_key(received: Received, now: datetime) -> str:
    """email_<message id>_<ms>; ids from outside are shortened and cleaned."""
    safe = re.sub(r"[^A-Za-z0-9.@+=-]", "_", received.mail.message_id)[:MAX_KEY_ID_LENGTH]
    return f"email_{safe}_{int(now.timestamp() * 1000)}"


def _attachment_row(attachment: ParsedAttachment, refusal: str | None, blob: Blob | None) -> dict[str, Any]:
    return {
        "name": attachment.name,
        "content_type": attachment.content_type,
        "size_bytes": len(attachment.content),
        "blob_hash": None if blob is None else blob.blob_hash,
        "refusal": refusal,
    }


def _insert_message(connection: Connection, received: Received, content_id: int, now: datetime) -> dict[str, Any]:
    mail = received.mail
    is_report = received.type in (BOUNCE, COMPLAINT)
    known_ids = (
        original_ids(mail) if is_report else [*([mail.in_reply_to] if mail.in_reply_to else ()), *mail.references]
    )
    delivery = None
    if received.direction == INBOUND:
        delivery = find_delivery(connection, received.tenant_id, known_ids, received.tokens)
    # Some mail programs drop In-Reply-To; the address shows that it is a reply.
    message_type = REPLY if received.type == PLAIN and delivery is not None else received.type
    if received.account_id is not None and _is_of_warmup(connection, received):
        message_type = WARMUP
    row = {
        "tenant_id": received.tenant_id,
        "message_key": received.message_key,
        "email_account_id": received.account_id,
        "content_id": content_id,
        "direction": received.direction,
        "type": message_type,
        "message_id": mail.message_id,
        "in_reply_to": mail.in_reply_to,
        "thread_key": _thread_key(connection, received.tenant_id, mail),
        "from_address": mail.from_address,
        "to_addresses": list(mail.to_addresses),
        "subject": mail.subject,
        "delivery_id": None if delivery is None else delivery.id,
        "campaign_id": None if delivery is None else delivery.campaign_id,
        "contact_id": None if delivery is None else delivery.contact_id,
        "status": RECEIVED if message_type == BOUNCE else PROCESSED,
        "received_at": now,
        "processed_at": None if message_type == BOUNCE else now,
    }
    message_id = inserted_id(connection, messages, row)
    if received.direction == INBOUND:
        start_followups(connection, message_type, message_id, received.tenant_id, mail, delivery, now)
    return {"message_id": message_id, "type": message_type}


def _is_of_warmup(connection: Connection, received: Received) -> bool:
    w = warmup_mails.c
    query = select(w.id).where(w.message_id == received.mail.message_id, w.to_account_id == received.account_id)
    return connection.execute(query).first() is not None


def _thread_key(connection: Connection, tenant_id: str, mail: ParsedMail) -> str:
    """The first Message-ID of the conversation, so that messages may arrive in any order."""
    if mail.references:
        return mail.references[0]
    if mail.in_reply_to is None:
        return mail.message_id
    m = messages.c
    parent = select(m.thread_key).where(m.tenant_id == tenant_id, m.message_id == mail.in_reply_to)
    return connection.scalar(parent.limit(1)) or mail.in_reply_to
