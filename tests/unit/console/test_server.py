"""How the console listens."""

import socket

from console.server import listen
from tests.servers.private import free_port


def test_no_answer_waits_for_the_other_side_to_acknowledge_its_first_part() -> None:
    """A small page has two parts; with Nagle's algorithm the second one comes 40 ms later."""
    port = free_port()
    with listen("127.0.0.1", port) as listening, socket.create_connection(("127.0.0.1", port)):
        accepted, _address = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
