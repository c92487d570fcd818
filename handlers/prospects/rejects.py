"""The file of rejected records: line number, reason, and the record itself.

A step that is repeated after a crash writes the same bytes to the same position, so no line is duplicated.
"""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

HEADER = ("line", "reason")


class RejectsFile:
    """Created with the first rejected record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, at: int, rejected: Sequence[Sequence[str]]) -> int:
        """Write and fsync at this offset; return the next offset."""
        text = io.StringIO()
        writer = csv.writer(text)
        if at == 0:
            writer.writerow(HEADER)
        writer.writerows(rejected)
        content = text.getvalue().encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            _write_all(descriptor, content, at)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return at + len(content)

    def end(self, at: int) -> None:
        """Remove lines that a killed run wrote after its last checkpoint."""
        if at:
            os.truncate(self.path, at)


def _write_all(descriptor: int, content: bytes, at: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, at)
        rest, at = rest[written:], at + written
