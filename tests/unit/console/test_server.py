"""The listening socket of the console."""

import socket

from console.server import listen
from tests.servers.private import free_port


def test_accepted_connections_have_tcp_nodelay() -> None:
    """With Nagle's algorithm the second part of a response comes 40 ms later."""
    port = free_port()
    with listen("127.0.0.1", port) as listening, socket.create_connection(("127.0.0.1", port)):
        accepted, _address = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
