"""Polling of a real Dovecot: new messages are stored, then flagged; nothing is stored twice."""

import imaplib
import json
from collections.abc import Iterator
from secrets import token_hex
from urllib.parse import quote

import pytest

from mayfly import enqueue
from mayfly.testing import drain
from tests.databases import Databases
from tests.handlers.mailroom.office import NOON, MailOffice
from tests.handlers.mailroom.shapes import message
from tests.handlers.rows import execute, insert
from tests.servers import Dovecot
from tests.servers.dovecot import PASSWORD


@pytest.fixture(scope="session")
def dovecot(databases: Databases) -> Dovecot:
    return databases.dovecot()


class Mailbox:
    """Ann's mailbox, as her mail program sees it."""

    def __init__(self, port: int, user: str) -> None:
        self._imap = imaplib.IMAP4("127.0.0.1", port, timeout=10)
        self._imap.login(user, PASSWORD)
        self._imap.select("INBOX")

    def deliver(self, raw: bytes) -> None:
        assert self._imap.append("INBOX", "", "", raw)[0] == "OK"

    def seen(self) -> int:
        self._imap.noop()
        return len(self._imap.search(None, "SEEN")[1][0].split())

    def close(self) -> None:
        self._imap.logout()


@pytest.fixture
def mailbox(dovecot: Dovecot, office: MailOffice, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    user = f"{token_hex(4)}@shop.example"  # a new mailbox for each test
    url = f"imap://{quote(user)}:{quote(PASSWORD, safe='')}@127.0.0.1:{dovecot.port}?tls=none"
    monkeypatch.setenv("MAILBOX_ANN", url)
    account = {"id": 7, "tenant_id": "acme", "address": user, "imap_credential": "MAILBOX_ANN", "is_active": 1}
    insert(office.url, "app_mail_accounts", {**account, "created_at": NOON})
    opened = Mailbox(dovecot.port, user)
    yield opened
    opened.close()


@pytest.mark.slow
@pytest.mark.every_database
def test_new_messages_are_stored_and_then_flagged(office: MailOffice, mailbox: Mailbox) -> None:
    """Each once, also by a later poll; for the tenant of the account."""
    for number in range(3):
        mailbox.deliver(message(f"Number {number}", message_id=f"<{number}@example.com>"))
    enqueue("poll_mailboxes")
    drain(raises=True)
    first = (mailbox.seen(), office.count("app_mail_messages"))
    mailbox.deliver(message("Number 3", message_id="<3@example.com>"))

    enqueue("poll_mailboxes")
    drained = drain(raises=True)

    assert (first, mailbox.seen(), office.count("app_mail_messages")) == ((3, 3), 4, 4)
    assert office.results("poll_mailboxes", drained) == [{"accounts": 1}, {"stored": 1}]
    assert office.rows("SELECT DISTINCT tenant_id, email_account_id FROM app_mail_messages") == [("acme", 7)]


@pytest.mark.slow
def test_a_folder_with_a_new_uidvalidity_is_read_again(office: MailOffice, mailbox: Mailbox) -> None:
    """Its numbers mean other messages now. Those that are known are found and not stored twice."""
    mailbox.deliver(message())
    enqueue("poll_mailboxes", {"email_account_id": 7})
    drain(raises=True)
    execute(office.url, "UPDATE app_mail_mailboxes SET uid_validity = 1, last_uid = 4000")
    mailbox.deliver(message("two", message_id="<two@example.com>"))

    enqueue("poll_mailboxes", {"email_account_id": 7})
    drained = drain(raises=True)

    assert office.results("poll_mailboxes", drained) == [{"stored": 2}]
    assert office.count("app_mail_messages") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("room", "defects"), [(0, []), (-1, ["message was cut"])])
def test_a_message_above_the_limit_is_cut_and_flagged(
    office: MailOffice, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, room: int, defects: list[str]
) -> None:
    """Even if its beginning is a valid message. One with exactly as many bytes is stored as it is."""
    raw = message("Dear Ann\n" * 100)
    monkeypatch.setenv("MAIL_MAX_BYTES", str(len(raw) + room))
    mailbox.deliver(raw)

    enqueue("poll_mailboxes", {"email_account_id": 7})
    drain(raises=True)

    [(size, found)] = office.rows("SELECT size_bytes, defects FROM app_mail_contents")
    assert (size, json.loads(found)) == (len(raw) + room, defects)


@pytest.mark.slow
def test_a_refused_login_is_retried(
    office: MailOffice, mailbox: Mailbox, dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has neither user nor password."""
    monkeypatch.setenv("MAILBOX_ANN", f"imap://ann:wr0ng@127.0.0.1:{dovecot.port}?tls=none")

    enqueue("poll_mailboxes", {"email_account_id": 7})
    drained = drain(raises=False)

    assert str(drained.runs[0].reason).startswith("127.0.0.1: the login was refused")
    assert "wr0ng" not in str(drained.runs[0].reason)
