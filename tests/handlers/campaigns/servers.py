"""Local servers that speak SMTP and the protocols of Gmail and Twilio, and keep every message that they accept."""

import json
import time
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.parser import BytesHeaderParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from aiosmtpd.controller import Controller

from tests.receivers import free_port


class Received(NamedTuple):
    channel: str
    to: str
    sender: str
    text: str
    at: datetime
    message_id: str = ""


class Fault(NamedTuple):
    """Instead of the answer: a status with headers, or none. `accepts`: the message is taken nevertheless."""

    status: int = 0  # 0: no answer, the connection is closed
    headers: tuple[tuple[str, str], ...] = ()
    accepts: bool = False
    silent_seconds: float = 0.0  # before the answer, longer than a client waits
    error: Any = "fault"


@dataclass
class MessageServers:
    """The accepted messages of all servers, and the faults that they inject."""

    now: Callable[[], datetime]
    smtp_port: int = 0
    http_port: int = 0
    received: list[Received] = field(default_factory=list)
    on_message: Callable[[Received], None] = lambda _message: None
    fault: Callable[[str], Fault | None] = lambda _path: None  # for each HTTP request that sends
    smtp_reply: Callable[[str], str | None] = lambda _recipient: None  # for each RCPT
    token_requests: list[dict[str, str]] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)  # refresh tokens
    tokens: dict[str, str] = field(default_factory=dict)  # access token: sender
    expires_in: int = 3600
    before_token: Callable[[], None] = lambda: None
    _lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the handlers, with the credentials of all senders."""
        return {
            "UNSUBSCRIBE_URL": "https://shop.example/unsubscribe?who={token}",
            "UNSUBSCRIBE_SECRET": "s3cret",
            "GMAIL_URL": self.url,
            "GOOGLE_TOKEN_URL": self.url,
            "TWILIO_URL": self.url,
            "SENDER_SMTP": f"smtp://127.0.0.1:{self.smtp_port}?from=any@shop.example&tls=none",
            "SENDER_TWILIO": "AC1:token",
            **{
                f"SENDER_GMAIL_{number}": json.dumps(
                    {"client_id": "app", "client_secret": "app-s3cret", "refresh_token": f"refresh-{number}"}
                )
                for number in range(1, 10)
            },
        }

    def accept(self, channel: str, to: str, sender: str, text: str, message_id: str = "") -> None:
        message = Received(channel, to, sender, text, self.now(), message_id)
        with self._lock:
            self.received.append(message)
        self.on_message(message)

    def to(self, recipient: str) -> list[str]:
        return [each.text for each in self.received if each.to == recipient]

    @property
    def by_recipient(self) -> dict[str, list[Received]]:
        found: dict[str, list[Received]] = defaultdict(list)
        for each in self.received:
            found[each.to].append(each)
        return found


class _SmtpHandler:
    def __init__(self, servers: MessageServers) -> None:
        self._servers = servers

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name, as below
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        reply = self._servers.smtp_reply(address)
        if reply is None:
            envelope.rcpt_tos.append(address)
        return reply or "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        message = BytesHeaderParser().parsebytes(envelope.content)
        [recipient] = envelope.rcpt_tos
        subject, message_id = str(message["Subject"]), str(message["Message-ID"])
        self._servers.accept("email", recipient, str(message["From"]), subject, message_id)
        return "250 taken"


class _HttpHandler(BaseHTTPRequestHandler):
    server: "_HttpServer"
    wbufsize = -1  # an answer is one packet

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with suppress(OSError):  # the caller may have been killed
            if self.path == "/token":
                self._token({name: values[0] for name, values in parse_qs(body.decode()).items()})
            elif self.path == "/gmail/v1/users/me/messages/send":
                self._gmail(json.loads(body))
            else:
                self._twilio({name: values[0] for name, values in parse_qs(body.decode()).items()})

    def _token(self, form: dict[str, str]) -> None:
        servers = self.server.servers
        servers.token_requests.append(form)
        servers.before_token()
        if form["refresh_token"] in servers.revoked:
            return self._answer(400, {"error": "invalid_grant"})
        token = f"access-{len(servers.token_requests)}"
        servers.tokens[token] = form["refresh_token"]
        return self._answer(200, {"access_token": token, "expires_in": servers.expires_in})

    def _gmail(self, body: dict[str, str]) -> None:
        token = self.headers["Authorization"].removeprefix("Bearer ")
        if self.server.servers.tokens.get(token) is None:
            return self._answer(401, {"error": "invalid token"})
        message = BytesHeaderParser().parsebytes(urlsafe_b64decode(body["raw"]))
        to, sender, subject = (str(message[name]) for name in ("To", "From", "Subject"))
        return self._send("email", to, sender, subject, {"id": "m1"}, str(message["Message-ID"]))

    def _twilio(self, form: dict[str, str]) -> None:
        channel = "voicemail" if self.path.endswith("/Calls.json") else "sms"
        text = form.get("Body") or form["Twiml"]
        self._send(channel, form["To"], form["From"], text, {"sid": "SM1"})

    def _send(
        self, channel: str, to: str, sender: str, text: str, answer: dict[str, str], message_id: str = ""
    ) -> None:
        fault = self.server.servers.fault(self.path)
        if fault is None or fault.accepts:
            self.server.servers.accept(channel, to, sender, text, message_id)
        if fault is None:
            self._answer(200, answer)
        elif fault.silent_seconds:
            time.sleep(fault.silent_seconds)
        elif fault.status:
            self._answer(fault.status, {"error": fault.error}, fault.headers)
        else:
            self.connection.close()

    def _answer(self, status: int, answer: dict[str, Any], headers: tuple[tuple[str, str], ...] = ()) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def log_date_time_string(self) -> str:
        return ""


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, servers: MessageServers) -> None:
        super().__init__(("127.0.0.1", 0), _HttpHandler)
        self.servers = servers

    def handle_error(self, *_: object) -> None:
        """A caller that was killed is no error."""


@contextmanager
def message_servers(now: Callable[[], datetime]) -> Iterator[MessageServers]:
    servers = MessageServers(now, free_port())
    controller = Controller(_SmtpHandler(servers), hostname="127.0.0.1", port=servers.smtp_port)
    controller.start()
    try:
        with _HttpServer(servers) as http:
            servers.http_port = http.server_port
            Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
            yield servers
            http.shutdown()
    finally:
        controller.stop(no_assert=True)
