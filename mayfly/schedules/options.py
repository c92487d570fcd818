"""The options of a schedule: how each is read, and in words what it may be. Pure."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from mayfly.schedules.entry import CATCH_UP, OVERLAP, read_duration
from mayfly.schedules.words import Line, refuse
from mayfly.settings.values import NAME_PATTERN, NAME_RULE

LONGEST_JITTER = 86_400
LONGEST_TIMEOUT = 86_400
MOST_ATTEMPTS = 1000


class Option(NamedTuple):
    read: Callable[[str], Any]  # raises a bare ValueError
    allowed: str


def _name(text: str) -> str:
    if not re.fullmatch(NAME_PATTERN, text):
        raise ValueError
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, OSError, ValueError) as error:  # not found; a directory; a path that leads out of the data
        raise ValueError from error
    return text


def _one_of(words: tuple[str, ...]) -> Option:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return Option(read, " or ".join([", ".join(words[:-1]), words[-1]]))


def _seconds(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        seconds = read_duration(text)
        if not low <= seconds <= high:
            raise ValueError
        return seconds

    return read


def _attempts(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MOST_ATTEMPTS:
        raise ValueError
    return int(text)


OPTIONS: Mapping[str, Option] = {
    "name": Option(_name, NAME_RULE),
    "lane": Option(_name, NAME_RULE),
    "tz": Option(_zone, "a time zone that this host knows, such as Europe/Berlin or UTC"),
    "catch_up": _one_of(CATCH_UP),
    "overlap": _one_of(OVERLAP),
    "jitter": Option(_seconds(0, LONGEST_JITTER), "a time such as 30s or 5m, a day at most"),
    "timeout": Option(_seconds(1, LONGEST_TIMEOUT), "a time such as 30s or 5m, from a second to a day"),
    "max_attempts": Option(_attempts, f"a whole number from 1 to {MOST_ATTEMPTS}"),
}
OF_COMMANDS = ("timeout",)

_WRITTEN = re.compile(r"([a-z_]+)=(\S*)")


class Given(NamedTuple):
    """An option's value, and where it stands."""

    value: Any
    column: int


def read_options(line: Line, before: Mapping[str, Given] = MappingProxyType({})) -> dict[str, Given]:
    """Those that come next, added to those before."""
    found = dict(before)
    while match := _WRITTEN.match(line.rest.text):
        name, text, column = match[1], match[2], line.rest.column
        if name in found:
            refuse(column, f"{name}= is given twice")
        found[name] = Given(_option(name, text, column), column)
        line.skip(match[0])
    return found


def _option(name: str, text: str, column: int) -> Any:
    if name not in OPTIONS:
        nearest = get_close_matches(name, OPTIONS, n=1)
        meant = f"; did you mean {nearest[0]}=?" if nearest else f"; there are {', '.join(OPTIONS)}"
        refuse(column, f"{name}= is not an option{meant}")
    try:
        return OPTIONS[name].read(text)
    except ValueError:
        refuse(column + len(name) + 1, f"{name}={text}: must be {OPTIONS[name].allowed}")
