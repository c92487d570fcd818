"""Parse and format values for people: durations, times, counts, names, tables. Pure, and fast to import."""

import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TextIO

# --- durations and times ----------------------------------------------------------------------------------

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([smhdw]?)"


def parse_duration(text: str) -> timedelta:
    """90, 90s, 5m, 1.5h, 2d or 1w. Anything else raises a ValueError without a text: the caller explains it."""
    match = re.fullmatch(_DURATION, text)
    if match is None:
        raise ValueError
    try:
        return float(match[1]) * timedelta(seconds=_UNITS[match[2]])
    except OverflowError as error:
        raise ValueError from error


def parse_time(text: str, zone: tzinfo | None = None) -> datetime:
    """An ISO time that can be converted to UTC; one without a zone is in `zone`. A ValueError says what is wrong."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at, zone = datetime.min, None  # noqa: DTZ901 - without a zone it is refused below
    at = at.replace(tzinfo=at.tzinfo or zone)
    if at.tzinfo is None:
        raise ValueError("must be a time with a zone, such as 2030-01-31T12:00:00Z")
    try:
        at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must be within the years 1 to 9999 in UTC") from error
    return at


def format_duration(time: timedelta | float, *, precise: bool = False) -> str:
    """In the largest unit that gives at least 2: 90 s, 7 min, 3 h, 2 days. A number is in seconds.

    `precise` is for measured times: below 2 min it gives 12 ms or 3.4 s.
    """
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if precise and 0 < seconds < 119.95:
        return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{round(seconds, 1):g} s"
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 172_800 else f"{whole // 86_400} days"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


# --- counts and names -------------------------------------------------------------------------------------


def plural(number: int, noun: str) -> str:
    """1 job, 2 jobs, 1,234 jobs."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known word, if any is similar enough."""
    from difflib import get_close_matches  # only needed after a mistake: an idle cycle must not import it

    return next(iter(get_close_matches(word, list(known), n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to a sentence, with a leading space; empty if no known word is similar."""
    found = nearest(word, known)
    return f" Did you mean {found!r}?" if found else ""


# --- terminals --------------------------------------------------------------------------------------------

GREEN, YELLOW, RED, DIM = "32", "33", "31", "2"


def has_colour(stream: TextIO) -> bool:
    """Only on a terminal, and not if NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def painted(text: str, colour: str, wanted: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if wanted else text


def plain(text: str) -> str:
    """Escape control characters: text that comes from a job must not control the terminal."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)


def one_line(text: str, width: int = 0) -> str:
    """For a cell of a table; cut to `width` if it is not 0."""
    line = " ".join(plain(text).split())
    return f"{line[: width - 1]}…" if width and len(line) > width else line


def table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the heading."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
