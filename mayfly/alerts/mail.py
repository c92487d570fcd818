"""Alerts as one mail."""

import re
import smtplib
import ssl
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import unquote, urlsplit

from mayfly.alerts.decide import Alert, Told
from mayfly.errors import Undelivered
from mayfly.timing import timing

PORTS = {"smtp": 25, "smtps": 465}
HERE = ("localhost", "127.0.0.1", "::1")


def send(url: str, message: EmailMessage) -> None:
    """Encrypted where the server can; a password never goes over the network in the open."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    try:
        with closing(_connect(parts.scheme, host, port)) as server:
            if parts.username is not None:
                if not (host in HERE or isinstance(server.sock, ssl.SSLSocket)):
                    raise Undelivered(f"{host} offers no encryption: the password was not sent")
                server.login(unquote(parts.username), unquote(parts.password or ""))
            server.send_message(message)
            server.quit()
    except (OSError, smtplib.SMTPException) as error:
        raise Undelivered(f"{host}: {type(error).__name__}: {error}") from error


def _connect(scheme: str, host: str, port: int) -> smtplib.SMTP:
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port, timeout=timing().request_seconds, context=ssl.create_default_context())
    server = smtplib.SMTP(host, port, timeout=timing().request_seconds)
    server.ehlo()
    if (
        server.has_extn("starttls") and host not in HERE
    ):  # on this machine nobody listens, and certificates are for others
        server.starttls(context=ssl.create_default_context())
        server.ehlo()
    return server


def default_sender(host: str) -> str:
    return f"mayfly@{re.sub(r'[^A-Za-z0-9.-]', '-', host)}"


def message_of(
    alerts: Sequence[Alert], sender: str, receivers: Sequence[str], host: str, now: datetime
) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = _printable(_subject(alerts))
    message["From"], message["To"] = sender, ", ".join(receivers)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{alerts[0].message_id}@mayfly.invalid>"
    message["Auto-Submitted"] = "auto-generated"
    lines = [f"{_word(each)}: {each.kind}: {_printable(each.detail)}" for each in alerts]
    message.set_content("\n\n".join([*lines, f"Told by Mayfly on {host}, once an hour at most for each of these."]))
    return message


def _subject(alerts: Sequence[Alert]) -> str:
    first = alerts[0]
    more = f" and {len(alerts) - 1} more" if len(alerts) > 1 else ""
    return f"[mayfly] {_word(first)}: {first.kind}: {first.subject}{more}"


def _word(alert: Alert) -> str:
    return "ALERT" if alert.state is Told.FIRING else "over"


def _printable(text: str) -> str:
    """On one line: what comes from a row must not become a head of the mail."""
    return "".join(each if each.isprintable() else " " for each in text)
