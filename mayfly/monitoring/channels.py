"""Send alerts and heartbeats: webhook, mail, and the heartbeat URL.

One attempt each, with a timeout; a failure raises Undelivered. A new alert channel is an entry of CHANNELS and its
settings.
"""

import base64
import hashlib
import hmac
import re
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from mayfly import json_text
from mayfly.errors import Undelivered
from mayfly.process import exits, timing
from mayfly.settings import Settings

if TYPE_CHECKING:
    from mayfly.monitoring.alerts import Alert

USER_AGENT = "mayfly"


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Raises Undelivered unless the status is 2xx. Follows no redirects. Errors never contain the URL, a secret."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timing().request_seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, {"User-Agent": USER_AGENT, **headers})
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise Undelivered(f"{parts.hostname}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise Undelivered(f"{parts.hostname} answered {status}")


MAX_BODY_BYTES = 10_000  # healthchecks.io truncates longer bodies
STARTED = "start"


def send_start(url: str) -> None:
    post(_below(url, STARTED), b"", {"Content-Type": "text/plain"})


def send_end(url: str, exit_code: int, text: str) -> None:
    """A success is posted to the URL itself, a failure to the URL with the exit code appended."""
    where = url if exit_code == exits.SUCCESS else _below(url, str(exit_code))
    post(where, text.encode()[:MAX_BODY_BYTES], {"Content-Type": "text/plain; charset=utf-8"})


def _below(url: str, name: str) -> str:
    """The URL with another path segment; the query stays at the end."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def by_webhook(settings: Settings, alerts: "Sequence[Alert]", now: datetime) -> "Iterator[Alert]":
    """One message per alert. The first failure ends it: the others would probably time out too."""
    url, secret = settings.alert_webhook_url, settings.alert_webhook_secret
    if url is None or secret is None:
        return
    for alert in alerts:
        body = webhook_body(alert, settings.host_name, now)
        signed = signed_headers(secret.get_secret_value(), alert.message_id, body, now)
        post(url.get_secret_value(), body, {"Content-Type": "application/json", **signed})
        yield alert


def webhook_body(alert: "Alert", host: str, now: datetime) -> bytes:
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
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def by_mail(settings: Settings, alerts: "Sequence[Alert]", now: datetime) -> "Iterator[Alert]":
    if not settings.alert_mail_to:
        return
    sender = settings.alert_mail_from or default_sender(settings.host_name)
    message = mail_message(alerts, sender, settings.alert_mail_to, settings.host_name, now)
    send_mail(settings.alert_smtp_url.get_secret_value(), message)
    yield from alerts


class Channel(NamedTuple):
    send: "Callable[[Settings, Sequence[Alert], datetime], Iterator[Alert]]"  # yields those that were delivered
    receiver: Callable[[Settings], object]  # for `mayfly doctor`; falsy if not configured


def host_of(url: str) -> str:
    """Without path and query, which may be secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"at {host}" + (" (not encrypted)" if parts.scheme == "http" else "")


CHANNELS = {
    "webhook": Channel(
        by_webhook, lambda given: given.alert_webhook_url and host_of(given.alert_webhook_url.get_secret_value())
    ),
    "mail": Channel(by_mail, lambda given: given.alert_mail_to and f"to {', '.join(given.alert_mail_to)}"),
}


def send_mail(url: str, message: EmailMessage) -> None:
    """Encrypted if the server supports it; a password is never sent in clear text to another machine."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    try:
        with closing(_connect(parts.scheme, host, port)) as server:
            if parts.username is not None:
                if not (host in LOOPBACK or isinstance(server.sock, ssl.SSLSocket)):
                    raise Undelivered(f"{host} does not support encryption: the password was not sent")
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
    if server.has_extn("starttls") and host not in LOOPBACK:  # no certificate is valid for localhost
        server.starttls(context=ssl.create_default_context())
        server.ehlo()
    return server


def default_sender(host: str) -> str:
    return f"mayfly@{re.sub(r'[^A-Za-z0-9.-]', '-', host)}"


def mail_message(
    alerts: "Sequence[Alert]", sender: str, receivers: Sequence[str], host: str, now: datetime
) -> EmailMessage:
    message = EmailMessage()
    first, more = alerts[0], f" and {len(alerts) - 1} more" if len(alerts) > 1 else ""
    message["Subject"] = _printable(f"[mayfly] {_word(first)}: {first.kind}: {first.subject}{more}")
    message["From"], message["To"] = sender, ", ".join(receivers)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{first.message_id}@mayfly.invalid>"
    message["Auto-Submitted"] = "auto-generated"
    lines = [f"{_word(each)}: {each.kind}: {_printable(each.detail)}" for each in alerts]
    message.set_content("\n\n".join([*lines, f"Sent by Mayfly on {host}, at most once per hour for each alert."]))
    return message


def _word(alert: "Alert") -> str:
    return "ALERT" if alert.is_firing else "RECOVERED"


def _printable(text: str) -> str:
    """On one line: text of a job must not become a mail header."""
    return "".join(each if each.isprintable() else " " for each in text)
