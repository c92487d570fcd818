"""An SMTP server on loopback: accepts every mail, delivers none, and writes each to a file."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller


class MailSink:
    """Counts mails; one in fifty is greylisted, as by real servers."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self.port = port
        self.accepted = self.greylisted = 0

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        if (self.accepted + self.greylisted) % 50 == 49:
            self.greylisted += 1
            return "450 4.7.1 Greylisted, try again"
        self.accepted += 1
        path = self._directory / f"{self.accepted:05}-{envelope.rcpt_tos[0].replace('/', '_')}.eml"
        path.write_bytes(envelope.original_content or envelope.content)
        return "250 2.0.0 Accepted"


@contextmanager
def smtp_server(directory: Path) -> Iterator[MailSink]:
    sink = MailSink(directory, _free_port())
    controller = Controller(sink, hostname="127.0.0.1", port=sink.port)
    controller.start()
    try:
        yield sink
    finally:
        controller.stop()


def _free_port() -> int:
    """aiosmtpd needs the number of the port beforehand."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
