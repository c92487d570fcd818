"""Mailboxes over IMAP: log in, select folders, find, flag and move messages. On imaplib: a dozen commands suffice."""

import imaplib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from handlers.mail.smtp import tls_context
from mayfly import Dead, Retry, setting

# Otherwise a user with the right to add accounts could send any setting to their own server.
CREDENTIAL = r"MAILBOX_[A-Z0-9_]{1,56}"
USUAL_PORTS = {"imap": 143, "imaps": 993}
SECONDS = 10.0  # for each reply
INBOX = "INBOX"
SPAM_NAMES = ("junk", "spam", "junk e-mail", "junk email", "bulk mail")
FOLDER = re.compile(rb'\((?P<flags>[^)]*)\) (?:"(?:[^"\\]|\\.)*"|NIL) (?P<name>.+)')


@dataclass(frozen=True)
class ImapServer:
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    tls: str  # "tls" from the start, "starttls", or "none"
    ca_file: str | None = None


def imap_server(credential: str | None) -> ImapServer:
    """The setting has one URL: imaps://ann%40shop.example:password@imap.shop.example."""
    if credential is None or not re.fullmatch(CREDENTIAL, credential):
        raise Dead(f"imap_credential={credential} must be the name of a setting that begins with MAILBOX_")
    parts = urlsplit(setting(credential, ""))
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    tls = "tls" if parts.scheme == "imaps" else options.get("tls", "starttls")
    try:
        port = parts.port or USUAL_PORTS[parts.scheme]
    except (KeyError, ValueError):
        port = 0
    if not (port and parts.hostname and parts.username and parts.password) or tls not in ("tls", "starttls", "none"):
        raise Dead(f"{credential} must be one URL like imaps://ann%40shop.example:password@imap.shop.example")
    user, password = unquote(parts.username), unquote(parts.password)
    return ImapServer(parts.hostname, port, user, password, tls, options.get("ca"))


@contextmanager
def logged_in(server: ImapServer) -> Iterator[imaplib.IMAP4]:
    """Every error of the server or the connection is temporary."""
    try:
        imap = _connect(server)
        try:
            _log_in(imap, server)
            yield imap
        finally:
            with suppress(OSError, imaplib.IMAP4.error):
                imap.logout()
    except (OSError, imaplib.IMAP4.error) as error:
        raise Retry(f"{server.host}: {type(error).__name__}: {error}") from error


def select_folder(imap: imaplib.IMAP4, folder: str) -> int:
    """Returns its UIDVALIDITY."""
    checked(imap.select(_quoted(folder)))
    return int((imap.response("UIDVALIDITY")[1] or [b"0"])[0] or 0)


def spam_folder(imap: imaplib.IMAP4) -> str | None:
    return spam_folder_in(checked(imap.list()))


def spam_folder_in(listing: Iterable[object]) -> str | None:
    """The folder with the attribute Junk (RFC 6154), or else with one of the usual names. Pure."""
    found = [match for each in listing if isinstance(each, bytes) and (match := FOLDER.fullmatch(each))]
    names = [_name(match["name"]) for match in found]
    marked = (name for name, match in zip(names, found, strict=True) if rb"\junk" in match["flags"].lower().split())
    usual = (name for name in names if re.split(r"[./]", name)[-1].lower() in SPAM_NAMES)
    return next(marked, None) or next(usual, None)


def find_message(imap: imaplib.IMAP4, message_id: str) -> str | None:
    """The UID of the newest message with this Message-ID in the selected folder."""
    [found] = checked(imap.uid("SEARCH", "HEADER", "Message-ID", _quoted(message_id)))
    uids: list[bytes] = (found or b"").split()
    return max(uids, key=int).decode() if uids else None


def add_flags(imap: imaplib.IMAP4, uid: str, *flags: str) -> None:
    checked(imap.uid("STORE", uid, "+FLAGS.SILENT", f"({' '.join(flags)})"))


def move_message(imap: imaplib.IMAP4, uid: str, folder: str) -> None:
    """Without MOVE (RFC 6851) it is copied and deleted; it is expunged if the server can expunge one message."""
    capabilities = checked(imap.capability())[-1].decode().upper().split()
    if "MOVE" in capabilities:
        checked(imap.uid("MOVE", uid, _quoted(folder)))
        return
    checked(imap.uid("COPY", uid, _quoted(folder)))
    add_flags(imap, uid, r"\Deleted")
    if "UIDPLUS" in capabilities:
        checked(imap.uid("EXPUNGE", uid))


def checked(answer: tuple[str, list[Any]]) -> list[Any]:
    status, content = answer
    if status != "OK":
        raise imaplib.IMAP4.error(str(content)[:200])
    return content


def _connect(server: ImapServer) -> imaplib.IMAP4:
    context = None if server.tls == "none" else tls_context(server.ca_file)
    if server.tls == "tls":
        return imaplib.IMAP4_SSL(server.host, server.port, ssl_context=context, timeout=SECONDS)
    imap = imaplib.IMAP4(server.host, server.port, timeout=SECONDS)
    if context is not None:
        imap.starttls(context)
    return imap


def _log_in(imap: imaplib.IMAP4, server: ImapServer) -> None:
    try:
        imap.login(server.user, server.password)
    except imaplib.IMAP4.error as error:
        raise Retry(f"{server.host}: the login was refused: {str(error)[:200]}") from None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _name(name: bytes) -> str:
    text = name.decode("ascii", "replace")
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
