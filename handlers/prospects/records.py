"""The records of a CSV file from any byte on, one at a time: however large the file, little of it is in memory.

A record that cannot be read costs its first line alone, and reading goes on with the next: a quote that is never
closed would swallow the rest of the file otherwise.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

MOST_RECORD = 1 << 20  # bytes
CHUNK = 64 << 10

csv.field_size_limit(MOST_RECORD)  # of the whole process: the usual 128 KiB are less than one record may have


@dataclass(frozen=True)
class Form:
    """How the file is written."""

    encoding: str
    newline: str  # what ends its lines: \n, or \r in files of old
    delimiter: str

    @property
    def line_end(self) -> bytes:
        return self.newline.encode(self.encoding)


@dataclass(frozen=True)
class Place:
    """The end of what was read: so many bytes, so many lines."""

    offset: int
    line: int


class Record(NamedTuple):
    line: int  # its first
    fields: list[str]
    problem: str | None = None  # why it could not be read: then the one field is its first line


class Unreadable(Exception):
    """What is wrong with a line."""


class Records:
    """`place` is where the record ends that came last."""

    def __init__(self, file: BinaryIO, form: Form, place: Place) -> None:
        self._lines = _Lines(file, form, place)
        self._form = form
        self._reader = self._make_reader()

    @property
    def place(self) -> Place:
        return Place(self._lines.offset, self._lines.number)

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        lines = self._lines
        lines.begin_record()
        first = lines.number + 1
        try:
            return Record(first, next(self._reader))
        except (csv.Error, Unreadable) as error:
            lines.go_back_to_the_second()
            self._reader = self._make_reader()  # what it has of the record is of no more use
            return Record(first, [lines.first_text], str(error))

    def _make_reader(self) -> "Iterator[list[str]]":
        return csv.reader(self._lines, delimiter=self._form.delimiter, strict=True)


class _Source(Protocol):
    def readline(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> int: ...


class _Lines:
    """What csv.reader reads. It asks for no more lines than the record has, so the offset is that of its end."""

    def __init__(self, file: BinaryIO, form: Form, place: Place) -> None:
        self._file: _Source = file if form.line_end == b"\n" else _Splitter(file, form.line_end)
        self._encoding, self._end = form.encoding, form.line_end
        self._file.seek(place.offset)
        self.offset, self.number = place.offset, place.line
        self.begin_record()

    def begin_record(self) -> None:
        self._began_at, self._second = self.offset, Place(self.offset, self.number)
        self.first_text = ""

    def go_back_to_the_second(self) -> None:
        self.offset, self.number = self._second.offset, self._second.line
        self._file.seek(self.offset)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(MOST_RECORD)
        if not line:
            raise StopIteration
        is_first = self.offset == self._began_at
        self.offset += len(line)
        self.number += 1
        is_whole = line.endswith(self._end) or len(line) < MOST_RECORD
        if not is_whole:
            self._skip_rest()
        if is_first:
            self._second = Place(self.offset, self.number)
            self.first_text = line[:CHUNK].decode(self._encoding, "replace").rstrip("\r\n")
        if not is_whole or self.offset - self._began_at > MOST_RECORD:
            raise Unreadable(f"it has more than {MOST_RECORD:,} bytes, or a quote in it is never closed")
        try:
            return line.decode(self._encoding)
        except UnicodeDecodeError:
            raise Unreadable(f"it is not written in {self._encoding}") from None

    def _skip_rest(self) -> None:
        while rest := self._file.readline(CHUNK):
            self.offset += len(rest)
            if rest.endswith(self._end):
                return


class _Splitter:
    """Lines that a file's own `readline` does not know: two bytes a character, or ended by \\r."""

    def __init__(self, file: BinaryIO, end: bytes) -> None:
        self._file, self._end = file, end
        self._held, self._at = b"", 0  # read already, and how much of that was given away

    def seek(self, offset: int, /) -> int:
        self._held, self._at = b"", 0
        return self._file.seek(offset)

    def readline(self, size: int, /) -> bytes:
        while True:
            end = self._find_end()
            if end is not None or len(self._held) - self._at >= size:
                return self._give(size if end is None else min(size, end - self._at))
            more = self._file.read(CHUNK)
            self._held, self._at = self._held[self._at :] + more, 0
            if not more:
                return self._give(size)

    def _find_end(self) -> int | None:
        """Behind it. The same two bytes may belong to two characters."""
        width, start = len(self._end), self._at
        while (found := self._held.find(self._end, start)) >= 0:
            if (found - self._at) % width == 0:
                return found + width
            start = found + 1
        return None

    def _give(self, size: int) -> bytes:
        given = self._held[self._at : self._at + size]
        self._at += len(given)
        return given
