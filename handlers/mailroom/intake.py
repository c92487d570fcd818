"""Take in a raw message: store it and enqueue its job, in one transaction. Nothing is parsed here.

`python -m handlers.mailroom.intake` reads one from stdin, for a pipe of a mail server; see scripts/inbound.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, select

from handlers.mailroom.blobs import blob_of, store_blob
from handlers.mailroom.deliveries import token_in
from handlers.mailroom.tables import accounts, deliveries
from handlers.payloads import DEFAULT_TENANT, Tenant
from handlers.scope import Scope
from handlers.suppressions import canonical
from mayfly import MayflyError, database, enqueue, setting

USUAL_MAX_BYTES = 50 << 20
MAX_ADDRESS_LENGTH = 320


class BadMailSize(MayflyError):
    sentence = "MAIL_MAX_BYTES={} must be a number of bytes above 0."


class BadTenant(MayflyError):
    sentence = (
        "--tenant {!r} must be 1–64 letters, digits, dots, hyphens or underscores, the first a letter or digit."
    )


class MessageTooLarge(MayflyError):
    sentence = "The message has more than {:,} bytes (MAIL_MAX_BYTES)."


@dataclass(frozen=True)
class Envelope:
    """What the transport knows about a message. Without a tenant, the recipient decides."""

    recipient: str | None = None
    sender: str | None = None  # empty for bounces; None if it is not known
    tenant_id: str | None = None
    account_id: int | None = None
    is_cut: bool = False  # the message is only the beginning of a larger one


def take_in(scope: Scope, raw: bytes, envelope: Envelope) -> None:
    """When this returns, the message is committed. Taking it in again does no harm."""
    if len(raw) > max_bytes():
        raise MessageTooLarge(max_bytes())
    blob, now = blob_of(raw), scope.now

    def work(connection: Connection) -> None:
        tenant_id, account_id = _owner(connection, envelope)
        store_blob(connection, tenant_id, blob, now)
        payload: dict[str, Any] = {"tenant_id": tenant_id, "raw_hash": blob.blob_hash}
        known = {
            "email_account_id": account_id,
            "recipient": _short(envelope.recipient),
            "sender": _short(envelope.sender),
        }
        payload |= {name: value for name, value in known.items() if value is not None}
        payload |= {"is_cut": True} if envelope.is_cut else {}
        enqueue("process_inbound_email", payload, connection=connection)

    scope.write(work)


def max_bytes() -> int:
    text = setting("MAIL_MAX_BYTES", str(USUAL_MAX_BYTES))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise BadMailSize(text)
    return int(text)


def _short(address: str | None) -> str | None:
    """On one line, as payloads require it."""
    return None if address is None else "".join(filter(str.isprintable, address))[:MAX_ADDRESS_LENGTH]


def _owner(connection: Connection, envelope: Envelope) -> tuple[str, int | None]:
    """The tenant and account: as given, or of the recipient's account, or of the email that is answered."""
    if envelope.tenant_id is not None and envelope.account_id is not None:
        return envelope.tenant_id, envelope.account_id
    found = _account_of(connection, envelope)
    if found is not None:
        return found
    if envelope.tenant_id is not None:
        return envelope.tenant_id, envelope.account_id
    token = token_in(envelope.recipient or "")
    tenant_id = token and connection.scalar(select(deliveries.c.tenant_id).where(deliveries.c.token == token))
    return tenant_id or DEFAULT_TENANT, envelope.account_id


def _account_of(connection: Connection, envelope: Envelope) -> tuple[str, int] | None:
    a = accounts.c
    address = canonical(envelope.recipient or "").strip("<>")
    local, _, domain = address.rpartition("@")
    query = select(a.tenant_id, a.id).where(a.address.in_((address, f"{local.partition('+')[0]}@{domain}")))
    if envelope.tenant_id is not None:
        query = query.where(a.tenant_id == envelope.tenant_id)
    if envelope.account_id is not None:
        query = select(a.tenant_id, a.id).where(a.id == envelope.account_id)
    row = connection.execute(query).first()
    return None if row is None else (row.tenant_id, row.id)


# --- the program ------------------------------------------------------------------------------------------


def main(arguments: Sequence[str], stdin: BinaryIO) -> int:
    """Returns an exit code of sysexits.h. With 75 a mail server tries again; with others it returns the message.

    Everything but a message that is too large can be fixed on this host, wrong arguments too. So no mail is lost.
    """
    try:
        given = _arguments(arguments)
        limit = max_bytes()
        raw = stdin.read(limit + 1)
        take_in(database(), raw, Envelope(given.recipient, given.sender, _tenant(given.tenant), given.account))
    except MessageTooLarge as error:
        sys.stderr.write(f"{error}\n")
        return os.EX_DATAERR
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a bug or a typo must not return mail to its senders
        if isinstance(error, SystemExit) and not error.code:
            return os.EX_OK  # --help
        sys.stderr.write(f"not stored, try again later: {type(error).__name__}: {error}"[:500] + "\n")
        return os.EX_TEMPFAIL
    return os.EX_OK


def _arguments(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("scripts/inbound", description="Store a message from stdin and enqueue its processing.")
    parser.add_argument("--recipient", help="of the envelope: ${original_recipient} in Postfix")
    parser.add_argument("--sender", help="of the envelope: ${sender} in Postfix; empty for bounces")
    parser.add_argument("--tenant", help="by default the recipient decides")
    parser.add_argument("--account", type=int, help="the id of a row in app_mail_accounts")
    return parser.parse_args(arguments)


def _tenant(text: str | None) -> str | None:
    try:
        return None if text is None else TypeAdapter(Tenant).validate_python(text)
    except ValidationError:
        raise BadTenant(text) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer))
