"""Output of handlers: full lines, bounded, without blocking the handler or the dispatcher."""

import os
from collections.abc import Iterator

import pytest

from mayfly.process.fork import MAX_OUTPUT_BYTES, ChildOutput


class Pipe:
    """A runner's stdout, and the dispatcher's reading end."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self.output = ChildOutput(reading)

    def print(self, text: str | bytes) -> None:
        os.write(self._writing, text.encode() if isinstance(text, str) else text)

    def hang_up(self) -> None:
        os.close(self._writing)
        self._writing = -1

    def lines(self) -> list[str]:
        return self.output.lines()[0]

    def close(self) -> None:
        self.output.close()
        if self._writing >= 0:
            self.hang_up()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    opened = Pipe()
    yield opened
    opened.close()


def test_without_output_nothing_is_read(pipe: Pipe) -> None:
    """And the read does not block."""
    assert pipe.output.lines() == ([], True)


def test_full_lines_are_read(pipe: Pipe) -> None:
    """All that have arrived."""
    pipe.print("one\ntwo\n")

    assert pipe.output.lines() == (["one", "two"], True)


def test_a_line_is_read_when_its_newline_has_arrived(pipe: Pipe) -> None:
    """Half a line is kept for the next read."""
    pipe.print("one\nfirst half, ")
    first = pipe.lines()
    pipe.print("second half\nthree")

    assert (first, pipe.lines()) == (["one"], ["first half, second half"])


def test_the_last_line_needs_no_newline(pipe: Pipe) -> None:
    """It is returned when the runner has exited."""
    pipe.print("one\nlast words")
    pipe.hang_up()

    assert pipe.output.lines() == (["one", "last words"], False)


def test_output_before_the_end_is_not_lost(pipe: Pipe) -> None:
    """Also if it had been read before."""
    pipe.print("last words")
    before = pipe.lines()
    pipe.hang_up()

    assert (before, pipe.output.lines()) == ([], (["last words"], False))


def test_the_end_is_reported_at_every_read(pipe: Pipe) -> None:
    """No line is returned twice."""
    pipe.print("one\n")
    pipe.hang_up()
    pipe.lines()

    assert pipe.output.lines() == ([], False)


def test_a_character_split_over_two_writes_is_kept(pipe: Pipe) -> None:
    """A write can end inside a UTF-8 sequence."""
    bomb = "💥\n".encode()
    pipe.print(bomb[:2])
    first = pipe.lines()
    pipe.print(bomb[2:])

    assert (first, pipe.lines()) == ([], ["💥"])


def test_bytes_that_are_not_utf8_are_escaped(pipe: Pipe) -> None:
    """So the log stays readable."""
    pipe.print(b"\xff\xfe ok\n")

    assert pipe.lines() == ["\ufffd\ufffd ok"]


def test_ten_megabytes_are_cut_to_the_bound(pipe: Pipe) -> None:
    """The beginning is kept, the rest is counted and dropped, and the handler is never blocked."""
    chunk = b"x" * 63 + b"\n"
    kept: list[str] = []
    for _ in range(160):
        pipe.print(chunk * 1024)  # 64 KiB: the capacity of a pipe
        kept += pipe.lines()

    assert kept == ["x" * 63] * (MAX_OUTPUT_BYTES // 64)
    assert pipe.output.dropped == 159 * 65536


def test_a_line_without_end_is_cut_to_the_bound(pipe: Pipe) -> None:
    """It uses no more memory than many short lines."""
    for _ in range(4):
        pipe.print(b"x" * 60_000)
        assert pipe.lines() == []
    pipe.hang_up()

    assert pipe.output.lines() == (["x" * MAX_OUTPUT_BYTES], False)
    assert pipe.output.dropped == 240_000 - MAX_OUTPUT_BYTES


def test_nothing_is_dropped_within_the_bound(pipe: Pipe) -> None:
    """To the last byte."""
    pipe.print(b"x" * (MAX_OUTPUT_BYTES - 1) + b"\n")

    assert (pipe.lines(), pipe.output.dropped) == (["x" * (MAX_OUTPUT_BYTES - 1)], 0)


def test_endless_output_does_not_block_the_dispatcher() -> None:
    """Reading stops after a while even if there is more, because the dispatcher has deadlines."""
    endless = ChildOutput(os.open("/dev/zero", os.O_RDONLY))
    lines, is_open = endless.lines()
    endless.close()

    assert (lines, is_open) == ([], True)
    assert endless.dropped > 0
