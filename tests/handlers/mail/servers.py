"""Real SMTP servers on this machine: with TLS and AUTH, grey lists and refusals, and with cables that are cut."""

import ssl
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from time import sleep
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from tests.receivers import free_port

USER, PASSWORD = "ann@shop.example", "r1ght/&:@"


@dataclass(frozen=True)
class Certificate:
    file: Path
    key: Path


def make_certificate(directory: Path) -> Certificate:
    """Its own authority, for 127.0.0.1."""
    made = Certificate(directory / "certificate.pem", directory / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    options = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(made.file), "-keyout", str(made.key)]
    subprocess.run([*command.split(), *options], check=True, capture_output=True)
    return made


@dataclass
class Post:
    """What came in, and how it is answered: lists of answers by recipient are used up, then all is well."""

    port: int = 0
    at_rcpt: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    at_data: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    hangs_up_on: set[str] = field(default_factory=set)  # after it has taken the message, without an answer
    takes_seconds: float = 0.0
    logins: list[bool] = field(default_factory=list)
    taken: list[tuple[str, EmailMessage]] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return Counter(recipient for recipient, _ in self.taken)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if self.at_rcpt[address]:
            return self.at_rcpt[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        [recipient] = envelope.rcpt_tos
        if self.at_data[recipient]:
            return self.at_data[recipient].pop(0)
        sleep(self.takes_seconds)
        message = BytesParser(policy=default).parsebytes(envelope.content)
        assert isinstance(message, EmailMessage)
        self.taken.append((recipient, message))
        if recipient in self.hangs_up_on:
            server.transport.abort()
        return "250 taken"

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        right = (given.login, given.password) == (USER.encode(), PASSWORD.encode())
        self.logins.append(right)
        return AuthResult(success=right, handled=False)


@contextmanager
def post_office(certificate: Certificate | None, *, tls: str = "none") -> Iterator[Post]:
    """With "tls" and "starttls" there is a login."""
    post = Post(free_port())
    options: dict[str, Any] = {}
    if tls != "none":
        assert certificate is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.file, certificate.key)
        options["authenticator"] = post.authenticate
        if tls == "tls":  # which aiosmtpd does not see, since it was there before: it cannot insist on it
            options |= {"ssl_context": context, "auth_require_tls": False}
        else:
            options |= {"tls_context": context, "require_starttls": True, "auth_required": True}
    controller = Controller(post, hostname="127.0.0.1", port=post.port, **options)
    controller.start()
    try:
        yield post
    finally:
        controller.stop()


@contextmanager
def cutting_office() -> Iterator[int]:
    """The port of one who asks for the message, and hangs up while it is being sent."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 cutting\r\n")
            while line := self.rfile.readline():
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    self.rfile.readline()
                    return
                self.wfile.write(b"250 OK\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
