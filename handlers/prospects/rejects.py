"""The file of what was not imported: the number of its line, the reason, and the record as it was.

A step of an import that is repeated after a crash writes the same bytes to the same place: no line is there twice.
"""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

HEADING = ("line", "reason")


class Rejects:
    """Made when there is something to say."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, at: int, rejected: Sequence[Sequence[str]]) -> int:
        """On the disk when it returns; where the next ones go."""
        text = io.StringIO()
        writer = csv.writer(text)
        if at == 0:
            writer.writerow(HEADING)
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
        """What a run left behind that had come further than anybody knows, by code of another version, goes."""
        if at:
            os.truncate(self.path, at)


def _write_all(descriptor: int, content: bytes, at: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, at)
        rest, at = rest[written:], at + written
