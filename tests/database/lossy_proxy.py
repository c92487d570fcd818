"""A proxy that can drop the answer to a COMMIT: it is committed, but the client does not know."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import make_url

COMMIT = re.compile(rb"COMMIT(?!TED)")  # psycopg's BEGIN contains READ COMMITTED


class Proxy:
    """Forwards everything; on demand it drops the answer to the next statement and closes the connection."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._doomed: re.Pattern[bytes] | None = None
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def lose_next_commit(self) -> None:
        self._doomed = COMMIT

    def lose_next(self, word: bytes) -> None:
        """A single statement commits by itself."""
        self._doomed = re.compile(word)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for clients
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        doomed = threading.Event()
        with client, socket.create_connection(self._server) as server:
            answers = threading.Thread(target=self._answer, args=(server, client, doomed), daemon=True)
            answers.start()
            with suppress(OSError):
                self._ask(client, server, doomed)
                server.shutdown(socket.SHUT_WR)
            answers.join()

    def _ask(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        while data := client.recv(65536):
            if self._doomed is not None and self._doomed.search(data):
                self._doomed = None
                doomed.set()
            server.sendall(data)

    def _answer(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        """When the server has answered the COMMIT, it is committed; the client sees a closed connection."""
        with suppress(OSError):
            while data := server.recv(65536):
                if doomed.is_set():
                    self.lost += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str) -> Iterator[tuple[Proxy, str]]:
    parsed = make_url(url)
    assert parsed.host is not None
    assert parsed.port is not None
    proxy = Proxy(parsed.host, parsed.port)
    yield proxy, parsed.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
    proxy.close()


def unanswered_connections(listener: socket.socket) -> int:
    """The number of connection attempts at a listener that accepts none of them."""
    listener.setblocking(False)
    found = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            found += 1
    return found
