"""Read the records of a CSV file one at a time, from any byte offset, with little memory for files of any size.

If a record cannot be read, only its first line is skipped: an unclosed quote does not swallow the rest of the file.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

MAX_RECORD_BYTES = 1 << 20
CHUNK_BYTES = 64 << 10

csv.field_size_limit(MAX_RECORD_BYTES)  # for the whole process; the default is 128 KiB


@dataclass(frozen=True)
class CsvFormat:
    """Encoding and separators of a file."""

    encoding: str
    newline: str  # \n, or \r in files of old Macs
    delimiter: str

    @property
    def line_end(self) -> bytes:
        return self.newline.encode(self.encoding)


@dataclass(frozen=True)
class FilePosition:
    """The end of the last record, in bytes and lines from the beginning."""

    offset: int
    line: int


class CsvRecord(NamedTuple):
    line: int  # the first one
    fields: list[str]
    problem: str | None = None  # why it could not be read; then the only field is its first line


class UnreadableRecord(Exception):
    """The message is the reason."""


class CsvRecords:
    """`position` is the end of the last record."""

    def __init__(self, file: BinaryIO, form: CsvFormat, position: FilePosition) -> None:
        self._lines = _LineReader(file, form, position)
        self._form = form
        self._reader = self._make_reader()

    @property
    def position(self) -> FilePosition:
        return FilePosition(self._lines.offset, self._lines.number)

    def __iter__(self) -> Iterator[CsvRecord]:
        return self

    def __next__(self) -> CsvRecord:
        lines = self._lines
        lines.begin_record()
        first = lines.number + 1
        try:
            return CsvRecord(first, next(self._reader))
        except (csv.Error, UnreadableRecord) as error:
            lines.rewind_to_second_line()
            self._reader = self._make_reader()  # drop the part that was read
            return CsvRecord(first, [lines.first_text], str(error))

    def _make_reader(self) -> "Iterator[list[str]]":
        return csv.reader(self._lines, delimiter=self._form.delimiter, strict=True)


class _LineSource(Protocol):
    def readline(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> int: ...


class _LineReader:
    """The input of csv.reader. It reads no line beyond the record, so that the offset is the record's end."""

    def __init__(self, file: BinaryIO, form: CsvFormat, position: FilePosition) -> None:
        self._file: _LineSource = file if form.line_end == b"\n" else _LineSplitter(file, form.line_end)
        self._encoding, self._end = form.encoding, form.line_end
        self._file.seek(position.offset)
        self.offset, self.number = position.offset, position.line
        self.begin_record()

    def begin_record(self) -> None:
        self._began_at, self._second = self.offset, FilePosition(self.offset, self.number)
        self.first_text = ""

    def rewind_to_second_line(self) -> None:
        self.offset, self.number = self._second.offset, self._second.line
        self._file.seek(self.offset)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(MAX_RECORD_BYTES)
        if not line:
            raise StopIteration
        is_first = self.offset == self._began_at
        self.offset += len(line)
        self.number += 1
        is_whole = line.endswith(self._end) or len(line) < MAX_RECORD_BYTES
        if not is_whole:
            self._skip_rest()
        if is_first:
            self._second = FilePosition(self.offset, self.number)
            self.first_text = line[:CHUNK_BYTES].decode(self._encoding, "replace").rstrip("\r\n")
        if not is_whole or self.offset - self._began_at > MAX_RECORD_BYTES:
            raise UnreadableRecord(f"it has more than {MAX_RECORD_BYTES:,} bytes, or an unclosed quote")
        try:
            return line.decode(self._encoding)
        except UnicodeDecodeError:
            raise UnreadableRecord(f"it is not valid {self._encoding}") from None

    def _skip_rest(self) -> None:
        while rest := self._file.readline(CHUNK_BYTES):
            self.offset += len(rest)
            if rest.endswith(self._end):
                return


class _LineSplitter:
    """Lines that a file's own `readline` cannot split: UTF-16, or ended by \\r."""

    def __init__(self, file: BinaryIO, end: bytes) -> None:
        self._file, self._end = file, end
        self._held, self._at = b"", 0  # buffer, and position in it

    def seek(self, offset: int, /) -> int:
        self._held, self._at = b"", 0
        return self._file.seek(offset)

    def readline(self, size: int, /) -> bytes:
        while True:
            end = self._find_end()
            if end is not None or len(self._held) - self._at >= size:
                return self._take(size if end is None else min(size, end - self._at))
            more = self._file.read(CHUNK_BYTES)
            self._held, self._at = self._held[self._at :] + more, 0
            if not more:
                return self._take(size)

    def _find_end(self) -> int | None:
        """The position after the end of the line, on a character boundary."""
        width, start = len(self._end), self._at
        while (found := self._held.find(self._end, start)) >= 0:
            if (found - self._at) % width == 0:
                return found + width
            start = found + 1
        return None

    def _take(self, size: int) -> bytes:
        taken = self._held[self._at : self._at + size]
        self._at += len(taken)
        return taken
