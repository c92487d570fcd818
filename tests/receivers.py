"""Real local servers that receive what Mayfly sends: they accept, refuse, delay or never answer."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any

from aiosmtpd.controller import Controller

DELAY = 40  # hundredths of a second; senders wait for a second, also on a busy machine


@dataclass(frozen=True)
class ReceiverRequest:
    """One request."""

    path: str
    headers: Message
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Receiver:
    """The received requests, and the answer to them: a status, or none until the test ends."""

    port: int = 0
    status: int = 200
    is_silent: bool = False
    delays_path: str | None = None  # a path whose answer is delayed, so that others may be answered first
    answered: list[str] = field(default_factory=list)  # in this order
    requests: list[ReceiverRequest] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [each.path for each in self.requests]


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append(ReceiverRequest(self.path, self.headers, body))
            if receiver.is_silent:
                receiver.over.wait(30)
                return
            for _ in range(DELAY if self.path == receiver.delays_path else 0):
                if not receiver.answered:
                    receiver.over.wait(0.01)
            receiver.answered.append(self.path)
            self.send_response(receiver.status)
            self.send_header("Location", f"{receiver.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_port
        Thread(target=server.serve_forever, daemon=True).start()
        yield receiver
        receiver.over.set()
        server.shutdown()


@dataclass
class Mailbox:
    port: int
    mails: list[EmailMessage] = field(default_factory=list)
    answer: str = "250 OK"

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        parsed = BytesParser(policy=default).parsebytes(envelope.content)
        assert isinstance(parsed, EmailMessage)
        if self.answer.startswith("250"):
            self.mails.append(parsed)
        return self.answer


@contextmanager
def smtp_receiver() -> Iterator[Mailbox]:
    mailbox = Mailbox(free_port())
    controller = Controller(mailbox, hostname="127.0.0.1", port=mailbox.port)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()


@contextmanager
def silent_port() -> Iterator[int]:
    """Accepts a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def dripping_port() -> Iterator[int]:
    """The answer never ends, so a timeout per read never fires."""
    over = Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.recv(4096)
                while not over.wait(0.1):
                    self.request.sendall(b"H")

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        over.set()
        server.shutdown()


def free_port() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
