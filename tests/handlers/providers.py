"""A fake provider: an HTTP server that answers correctly, with errors, badly, or not at all."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

MIB = 1 << 20


@dataclass(frozen=True)
class ReceivedRequest:
    method: str
    path: str
    headers: Message
    body: bytes


@dataclass
class Provider:
    """Its requests and its answers, which tests can change."""

    port: int = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    mode: str = "answers"  # or: slowly, half, silent, drips, huge, garbage
    requests: list[ReceivedRequest] = field(default_factory=list)
    over: Event = field(default_factory=Event)
    sent: int = 0  # bytes of a body
    waited_too_long: bool = False  # a caller has waited longer than it should

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, given: Provider) -> None:
        super().__init__(("127.0.0.1", given.port), _Handler)
        self.given = given
        given.port = self.server_port


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.given.requests.append(ReceivedRequest(self.command, self.path, self.headers, body))
        with suppress(OSError):  # the caller may close the connection early
            getattr(self, self.server.given.mode)()

    do_POST = do_GET  # noqa: N815 - the name is http.server's

    def answers(self) -> None:
        self._begin(len(self.server.given.body))
        self._send(self.server.given.body)

    def slowly(self) -> None:
        self.server.given.over.wait(0.05)
        self.answers()

    def half(self) -> None:
        self._begin(len(self.server.given.body) + 100)
        self._send(self.server.given.body)
        self.connection.shutdown(socket.SHUT_RDWR)

    def garbage(self) -> None:
        self.connection.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        self.connection.shutdown(socket.SHUT_RDWR)

    def silent(self) -> None:
        self.server.given.waited_too_long = not self.server.given.over.wait(60)

    def drips(self) -> None:
        self._begin(100_000)
        while not self.server.given.over.wait(0.02):
            self._send(b" ")

    def huge(self) -> None:
        self._begin(50 * MIB)
        for _ in range(50):
            self._send(bytes(MIB))

    def _begin(self, length: int) -> None:
        self.send_response(self.server.given.status)
        self.send_header("Content-Length", str(length))
        for name, value in self.server.given.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, content: bytes) -> None:
        self.wfile.write(content)
        self.server.given.sent += len(content)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@contextmanager
def provider(port: int = 0) -> Iterator[Provider]:
    given = Provider(port)
    with _Server(given) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()  # seconds until it notices its end
        yield given
        given.over.set()
        server.shutdown()
