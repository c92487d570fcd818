"""Accounts in warm-up, and mail servers between them: SMTP that delivers into the mailboxes of Dovecot."""

import imaplib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any
from urllib.parse import quote

from aiosmtpd.controller import Controller

from handlers.mailroom.tables import accounts, warmups
from tests.handlers.mailroom.sent_mail import SentMail
from tests.receivers import free_port
from tests.servers.dovecot import PASSWORD, SPAM_FOLDER, Dovecot

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("ann", "bob", "eve")


def add_accounts(mail: SentMail, names: tuple[str, ...] = NAMES, **warmup: Any) -> None:
    """Numbers 1, 2, 3 of one tenant, with the settings MAILBOX_ANN and MAILBOX_ANN_IMAP and so on."""
    usual = {"start_per_day": 5, "increase_per_day": 2, "max_per_day": 40, "reply_percent": 30, "flag_percent": 20,
             "zone": "UTC", "is_active": 1, "started_at": LONG_AGO}  # fmt: skip
    for number, name in enumerate(names, 1):
        common = {"tenant_id": "default", "is_active": 1, "created_at": LONG_AGO}
        credentials = {
            "smtp_credential": f"MAILBOX_{name.upper()}",
            "imap_credential": f"MAILBOX_{name.upper()}_IMAP",
        }
        mail.insert(accounts, {"id": number, "address": f"{name}@shop.example", **common, **credentials})
        mail.insert(warmups, {"email_account_id": number, "tenant_id": "default", **usual, **warmup})


def settings(smtp_port: int, imap_port: int = 1, names: tuple[str, ...] = NAMES) -> dict[str, str]:
    found = {}
    for name in names:
        address = f"{name}@shop.example"
        found[f"MAILBOX_{name.upper()}"] = f"smtp://127.0.0.1:{smtp_port}?from={address}&tls=none"
        user, password = quote(address, safe=""), quote(PASSWORD, safe="")
        found[f"MAILBOX_{name.upper()}_IMAP"] = f"imap://{user}:{password}@127.0.0.1:{imap_port}?tls=none"
    return found


class Mailbox:
    """One user's mailbox, as a mail program sees it."""

    def __init__(self, server: Dovecot, address: str) -> None:
        self._imap = imaplib.IMAP4("127.0.0.1", server.port, timeout=30)
        self._imap.login(address, PASSWORD)

    def close(self) -> None:
        self._imap.logout()

    def add(self, folder: str, message: bytes) -> None:
        assert self._imap.append(folder, "", "", message)[0] == "OK"

    def clear(self) -> None:
        for folder in ("INBOX", SPAM_FOLDER):
            [count] = self._imap.select(folder)[1]
            if count != b"0":
                self._imap.store("1:*", "+FLAGS.SILENT", r"(\Deleted)")
                self._imap.expunge()

    def messages(self, folder: str) -> list[tuple[EmailMessage, set[str]]]:
        """Each with its flags."""
        self._imap.select(folder, readonly=True)
        found = []
        for number in self._imap.search(None, "ALL")[1][0].split():
            part = self._imap.fetch(number.decode(), "(FLAGS BODY.PEEK[])")[1][0]
            assert isinstance(part, tuple)
            head, content = part
            message = BytesParser(policy=default).parsebytes(content)
            assert isinstance(message, EmailMessage)
            found.append((message, {each.decode() for each in imaplib.ParseFlags(head)}))
        return found


@contextmanager
def delivering_to(server: Dovecot, folders: dict[str, str]) -> Iterator[int]:
    """The port of an SMTP server that delivers to the folder of each recipient."""

    class Handler:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
            [recipient] = envelope.rcpt_tos
            mailbox = Mailbox(server, recipient)
            mailbox.add(folders[recipient], envelope.content)
            mailbox.close()
            return "250 delivered"

    controller = Controller(Handler(), hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        yield int(controller.port)
    finally:
        controller.stop(no_assert=True)
