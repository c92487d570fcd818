"""One POST, once: no redirects, no retries, and an end to the waiting."""

import base64
import hashlib
import hmac
import re
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import unquote, urlsplit, urlunsplit

from mayfly import json_text
from mayfly.errors import Undelivered
from mayfly.monitoring.alerts import Alert, AlertState
from mayfly.process import exits
from mayfly.process.timing import timing

AGENT = "mayfly"


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Raises Undelivered unless the answer is one of success. The URL is a secret: it is in no error."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timing().request_seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, {"User-Agent": AGENT, **headers})
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise Undelivered(f"{parts.hostname}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise Undelivered(f"{parts.hostname} answered {status}")


MAX_BODY_LENGTH = 10_000  # bytes; more is cut off there anyway
STARTED = "start"


def send_start(url: str) -> None:
    post(_below(url, STARTED), b"", {"Content-Type": "text/plain"})


def send_end(url: str, exit_code: int, text: str) -> None:
    """The URL itself means success; a failure is told by its exit code."""
    where = url if exit_code == exits.SUCCESS else _below(url, str(exit_code))
    post(where, text.encode()[:MAX_BODY_LENGTH], {"Content-Type": "text/plain; charset=utf-8"})


def _below(url: str, name: str) -> str:
    """A query stays behind the path."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def send_webhook(url: str, secret: str, alert: Alert, host: str, now: datetime) -> None:
    body = webhook_body(alert, host, now)
    post(url, body, {"Content-Type": "application/json", **signed_headers(secret, alert.message_id, body, now)})


def webhook_body(alert: Alert, host: str, now: datetime) -> bytes:
    data = {
        "fingerprint": alert.fingerprint,
        "kind": alert.kind,
        "subject": alert.subject,
        "detail": alert.detail,
        "times": alert.times,
        "first_at": alert.first_at.isoformat(),
        "last_at": alert.last_at.isoformat(),
        "told_by": host,
    }
    message = {"type": f"mayfly.alert.{alert.state}", "timestamp": now.isoformat(), "data": data}
    return json_text.encode(message).encode()


def signed_headers(secret: str, message_id: str, body: bytes, now: datetime) -> dict[str, str]:
    timestamp = str(int(now.timestamp()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    signature = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


PORTS = {"smtp": 25, "smtps": 465}
HERE = ("localhost", "127.0.0.1", "::1")


def send_mail(url: str, message: EmailMessage) -> None:
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


def mail_message(
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
    return "ALERT" if alert.state is AlertState.FIRING else "over"


def _printable(text: str) -> str:
    """On one line: what comes from a row must not become a head of the mail."""
    return "".join(each if each.isprintable() else " " for each in text)
