"""A time as people say it: how long it is, and when it was. Pure."""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TextIO


def span(time: timedelta) -> str:
    """In the largest unit of which there are two: 90 s, 7 min, 3 h, 2 days."""
    seconds = max(0, round(time.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} days"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def plural(number: int, noun: str) -> str:
    """1 job, 2 jobs, 1,234 jobs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most similar, if any is similar enough to be meant."""
    from difflib import get_close_matches  # only where a name is wrong: every cycle imports this module

    return next(iter(get_close_matches(word, list(known), n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """For the end of a sentence about an unknown name: "; did you mean 'send_email'?", or nothing."""
    found = nearest(word, known)
    return f"; did you mean {found!r}?" if found else ""


GREEN, YELLOW, RED, DIM = "32", "33", "31", "2"


def has_colour(stream: TextIO) -> bool:
    """Only on a terminal, and not where somebody said NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def painted(text: str, colour: str, wanted: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if wanted else text


def plain(text: str) -> str:
    """What came from a job may hold control characters, and a terminal would obey them."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def one_line(text: str, width: int = 0) -> str:
    """In a cell of a table; cut to a width, if one is given."""
    line = " ".join(plain(text).split())
    return f"{line[: width - 1]}…" if width and len(line) > width else line


def table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the heading."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
