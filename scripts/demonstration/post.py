"""A post office on loopback: takes every mail, delivers none, and keeps each as a file."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller


class Office:
    """What came in; one answer in fifty is `try again`, as real ones say."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self.port = port
        self.taken = self.put_off = 0

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        if (self.taken + self.put_off) % 50 == 49:
            self.put_off += 1
            return "450 4.7.1 Greylisted, try again"
        self.taken += 1
        path = self._directory / f"{self.taken:05}-{envelope.rcpt_tos[0].replace('/', '_')}.eml"
        path.write_bytes(envelope.original_content or envelope.content)
        return "250 2.0.0 Taken"


@contextmanager
def post_office(directory: Path) -> Iterator[Office]:
    office = Office(directory, _free_port())
    controller = Controller(office, hostname="127.0.0.1", port=office.port)
    controller.start()
    try:
        yield office
    finally:
        controller.stop()


def _free_port() -> int:
    """Asked for beforehand: aiosmtpd wants to know where it will listen."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
