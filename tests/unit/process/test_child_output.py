"""What handlers print: whole lines, bounded, and nobody waits for anybody."""

import os
from collections.abc import Iterator

import pytest

from mayfly.process.fork import MAX_OUTPUT_BYTES, ChildOutput


class Pipe:
    """A runner's stdout, and what the dispatcher reads of it."""

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


def test_nothing_printed_is_nothing_read(pipe: Pipe) -> None:
    """And nobody waits for it."""
    assert pipe.output.lines() == ([], True)


def test_whole_lines_are_read(pipe: Pipe) -> None:
    """As many as have come in."""
    pipe.print("one\ntwo\n")

    assert pipe.output.lines() == (["one", "two"], True)


def test_a_line_is_whole_when_its_end_has_come(pipe: Pipe) -> None:
    """Half a line waits for the other half."""
    pipe.print("one\nfirst half, ")
    first = pipe.lines()
    pipe.print("second half\nthree")

    assert (first, pipe.lines()) == (["one"], ["first half, second half"])


def test_the_last_line_needs_no_end(pipe: Pipe) -> None:
    """When the runner is gone, what it began to say is said."""
    pipe.print("one\nlast words")
    pipe.hang_up()

    assert pipe.output.lines() == (["one", "last words"], False)


def test_words_from_before_the_end_are_not_lost(pipe: Pipe) -> None:
    """Also where they had been read already."""
    pipe.print("last words")
    before = pipe.lines()
    pipe.hang_up()

    assert (before, pipe.output.lines()) == ([], (["last words"], False))


def test_an_end_is_told_each_time(pipe: Pipe) -> None:
    """Whoever asks again hears the same, and no line twice."""
    pipe.print("one\n")
    pipe.hang_up()
    pipe.lines()

    assert pipe.output.lines() == ([], False)


def test_a_character_in_two_pieces_is_one(pipe: Pipe) -> None:
    """Writes end where they will."""
    bomb = "💥\n".encode()
    pipe.print(bomb[:2])
    first = pipe.lines()
    pipe.print(bomb[2:])

    assert (first, pipe.lines()) == ([], ["💥"])


def test_what_is_no_text_is_shown_as_such(pipe: Pipe) -> None:
    """Whatever bytes a handler prints, the log stays readable."""
    pipe.print(b"\xff\xfe ok\n")

    assert pipe.lines() == ["\ufffd\ufffd ok"]


def test_ten_megabytes_are_kept_to_the_bound(pipe: Pipe) -> None:
    """The beginning is kept, the rest is counted and dropped, and the printing handler is never blocked."""
    chunk = b"x" * 63 + b"\n"
    kept: list[str] = []
    for _ in range(160):
        pipe.print(chunk * 1024)  # 64 KiB: as much as a pipe holds
        kept += pipe.lines()

    assert kept == ["x" * 63] * (MAX_OUTPUT_BYTES // 64)
    assert pipe.output.dropped == 159 * 65536


def test_a_line_without_end_is_kept_to_the_bound(pipe: Pipe) -> None:
    """It takes no more memory than many short ones."""
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


def test_whoever_prints_without_end_does_not_hold_up_the_dispatcher() -> None:
    """A source that always has more is left after a while: there are deadlines to keep."""
    endless = ChildOutput(os.open("/dev/zero", os.O_RDONLY))
    lines, is_open = endless.lines()
    endless.close()

    assert (lines, is_open) == ([], True)
    assert endless.dropped > 0
