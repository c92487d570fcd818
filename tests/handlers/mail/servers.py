"""Real SMTP servers on this machine: TLS, AUTH, greylisting, refusals, lost connections."""

import asyncio
import ssl
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from queue import Queue
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from tests.receivers import free_port

USER, PASSWORD = "ann@shop.example", "r1ght/&:@"


@dataclass(frozen=True)
class Certificate:
    file: Path
    key: Path


def make_certificate(directory: Path) -> Certificate:
    """A self-signed certificate for 127.0.0.1."""
    made = Certificate(directory / "certificate.pem", directory / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    options = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(made.file), "-keyout", str(made.key)]
    subprocess.run([*command.split(), *options], check=True, capture_output=True)
    return made


@dataclass
class Stop:
    """Suspends the server within a dialogue until the test continues it."""

    moment: str
    client_port: int
    recipient: str | None
    is_over: Event = field(default_factory=Event)


@dataclass
class Post:
    """The received mails, and the replies: a list per recipient, then 250."""

    port: int = 0
    at_rcpt: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    at_data: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    hangs_up_on: set[str] = field(default_factory=set)  # after it has accepted the message, without an answer
    # EHLO, MAIL, RCPT, DATA (requested), taken, QUIT: in this order, each in the next dialogue that reaches it.
    stop_at: list[str] = field(default_factory=list)
    stops: "Queue[Stop]" = field(default_factory=Queue)
    logins: list[bool] = field(default_factory=list)
    taken: list[tuple[str, EmailMessage]] = field(default_factory=list)
    senders: list[str] = field(default_factory=list)  # of their envelopes
    transports: list[Any] = field(default_factory=list)  # of connections; two with STARTTLS
    end_connections: Callable[[], None] = lambda: None

    @property
    def counts(self) -> Counter[str]:
        return Counter(recipient for recipient, _ in self.taken)

    async def reach(self, moment: str, session: Any, recipient: str | None = None) -> None:
        if self.stop_at[:1] == [moment]:
            stop = Stop(self.stop_at.pop(0), session.peer[1], recipient)
            self.stops.put(stop)
            await asyncio.to_thread(stop.is_over.wait, 30)

    async def handle_EHLO(  # noqa: N802 - aiosmtpd's name, as below
        self, _server: Any, session: Any, _envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name, session.taken_for = hostname, None
        await self.reach("EHLO", session)
        return responses

    async def handle_MAIL(self, _server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        await self.reach("MAIL", session)
        return "250 OK"

    async def handle_QUIT(self, _server: Any, session: Any, _envelope: Any) -> str:  # noqa: N802
        await self.reach("QUIT", session, session.taken_for)
        return "221 Bye"

    async def handle_RCPT(  # noqa: N802
        self, _server: Any, session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        await self.reach("RCPT", session, address)
        if self.at_rcpt[address]:
            return self.at_rcpt[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        [recipient] = envelope.rcpt_tos
        if self.at_data[recipient]:
            return self.at_data[recipient].pop(0)
        message = BytesParser(policy=default).parsebytes(envelope.content)
        assert isinstance(message, EmailMessage)
        self.taken.append((recipient, message))
        self.senders.append(envelope.mail_from)
        session.taken_for = recipient  # because the envelope is discarded with the answer
        await self.reach("taken", session, recipient)
        if recipient in self.hangs_up_on:
            server.transport.abort()
        return "250 taken"

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        right = (given.login, given.password) == (USER.encode(), PASSWORD.encode())
        self.logins.append(right)
        return AuthResult(success=right, handled=False)


class _Server(SMTP):
    """Also suspends at DATA, where aiosmtpd has no hook, and lists its connections."""

    def connection_made(self, transport: Any) -> None:
        self.event_handler.transports.append(transport)
        super().connection_made(transport)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        recipients = self.envelope.rcpt_tos if self.envelope is not None else []
        await self.event_handler.reach("DATA", self.session, next(iter(recipients), None))
        await super().smtp_DATA(arg)


class _Controller(Controller):
    def factory(self) -> SMTP:
        return _Server(self.handler, **self.SMTP_kwargs)


@contextmanager
def post_office(certificate: Certificate | None, *, tls: str = "none", port: int = 0) -> Iterator[Post]:
    """ "tls" and "starttls" require a login."""
    post = Post(port or free_port())
    options: dict[str, Any] = {}
    if tls != "none":
        assert certificate is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.file, certificate.key)
        options["authenticator"] = post.authenticate
        if tls == "tls":  # aiosmtpd does not see TLS that was there before, so it cannot require it
            options |= {"ssl_context": context, "auth_require_tls": False}
        else:
            options |= {"tls_context": context, "require_starttls": True, "auth_required": True}
    controller = _Controller(post, hostname="127.0.0.1", port=post.port, **options)

    def end_connections() -> None:
        """In the thread of the server: its event loop does not notice what another one does."""
        asyncio.run_coroutine_threadsafe(_end_connections(post), controller.loop).result(10)

    post.end_connections = end_connections
    controller.start()
    try:
        yield post
    finally:
        end_connections()
        controller.stop()


async def _end_connections(post: Post) -> None:
    """Clients keep a connection for a moment after their last mail; aiosmtpd does not close it."""
    for transport in post.transports:
        transport.abort()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@contextmanager
def cutting_office() -> Iterator[int]:
    """The port of a server that closes the connection while the message is being sent."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 cutting\r\n")
            while line := self.rfile.readline():
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    self.rfile.readline()
                    return
                self.wfile.write(b"250 OK\r\n")

    with _serving(Handler) as port:
        yield port


@contextmanager
def busy_office() -> Iterator[int]:
    """The port of a server that answers 421."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"421 too many connections\r\n")

    with _serving(Handler) as port:
        yield port


@contextmanager
def _serving(handler: type[StreamRequestHandler]) -> Iterator[int]:
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
