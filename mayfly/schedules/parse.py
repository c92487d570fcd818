"""Parse the lines of schedule files into entries. Pure."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from mayfly import json_text
from mayfly.format import did_you_mean, parse_duration
from mayfly.schedules import COMMAND
from mayfly.schedules.cron import BadSchedule, Line, Word, read_expression, refuse
from mayfly.settings.values import NAME_PATTERN, NAME_RULE

CATCH_UP = ("latest", "none", "all")  # the first is the default
OVERLAP = ("allow", "skip")
MAX_JITTER_SECONDS = 86_400
MAX_TIMEOUT_SECONDS = 86_400
MAX_ATTEMPTS = 1000

_WRITTEN = re.compile(r"([a-z_]+)=(\S*)")


@dataclass(frozen=True)
class ScheduleEntry:
    name: str  # its identity on all hosts and after edits
    expression: str  # five fields
    type: str
    payload: str = "{}"  # JSON
    command: str | None = None  # what type `command` runs
    lane: str = "default"
    tz: str = "UTC"
    catch_up: str = CATCH_UP[0]
    overlap: str = OVERLAP[0]
    jitter: int = 0  # seconds
    timeout: int | None = None  # seconds, of a command
    max_attempts: int | None = None
    where: str = field(default="", compare=False)  # "cron.d/schedule, line 3"
    written_at: datetime | None = field(default=None, compare=False)  # the time stamp of its file

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.tz)

    @property
    def rule(self) -> str:
        """When it is due. After a change of the rule, earlier due times do not fire."""
        return f"{self.expression} {self.tz}"

    @property
    def what(self) -> str:
        return self.type if self.command is None else f"run: {self.command}"


class ScheduleProblem(NamedTuple):
    """A line that is wrong, or a file that cannot be read (line 0)."""

    file: str
    line: int
    column: int
    reason: str

    def __str__(self) -> str:
        at = f", line {self.line}, column {self.column}" if self.line else ""
        return f"{self.file}{at}: {self.reason}"


# --- options -----------------------------------------------------------------------------------------------


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
    except (KeyError, OSError, ValueError) as error:  # not found; a directory; a path outside of the data
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
        seconds = parse_duration(text).total_seconds()
        if not low <= seconds <= high or seconds % 1:
            raise ValueError
        return int(seconds)

    return read


def _attempts(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= MAX_ATTEMPTS:
        raise ValueError
    return int(text)


OPTIONS: Mapping[str, Option] = {
    "name": Option(_name, NAME_RULE),
    "lane": Option(_name, NAME_RULE),
    "tz": Option(_zone, "a time zone that this host knows, such as Europe/Berlin or UTC"),
    "catch_up": _one_of(CATCH_UP),
    "overlap": _one_of(OVERLAP),
    "jitter": Option(_seconds(0, MAX_JITTER_SECONDS), "a duration such as 30s or 5m, at most a day"),
    "timeout": Option(_seconds(1, MAX_TIMEOUT_SECONDS), "a duration such as 30s or 5m, from a second to a day"),
    "max_attempts": Option(_attempts, f"an integer, 1–{MAX_ATTEMPTS}"),
}
COMMAND_OPTIONS = ("timeout",)


class GivenOption(NamedTuple):
    """The value of an option, and its column."""

    value: Any
    column: int


def read_options(line: Line, before: Mapping[str, GivenOption] = MappingProxyType({})) -> dict[str, GivenOption]:
    """The options at the current position, added to `before`."""
    found = dict(before)
    while match := _WRITTEN.match(line.rest.text):
        name, text, column = match[1], match[2], line.rest.column
        if name in found:
            refuse(column, f"{name}= is given twice")
        found[name] = GivenOption(_option(name, text, column), column)
        line.skip(match[0])
    return found


def _option(name: str, text: str, column: int) -> Any:
    if name not in OPTIONS:
        hint = did_you_mean(name, OPTIONS) or f" There are {', '.join(OPTIONS)}."
        refuse(column, f"{name}= is not an option.{hint}")
    try:
        return OPTIONS[name].read(text)
    except ValueError:
        refuse(column + len(name) + 1, f"{name}={text}: must be {OPTIONS[name].allowed}")


# --- parse -------------------------------------------------------------------------------------------------


def parse_text(text: str, file: str) -> Iterator[ScheduleEntry | ScheduleProblem]:
    """One result per line that is neither empty nor a comment."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                yield parse_line(line, f"{file}, line {number}")
            except BadSchedule as error:
                yield ScheduleProblem(file, number, error.column, error.reason)


def parse_line(text: str, where: str = "") -> ScheduleEntry:
    """The schedule of a line; raises BadSchedule, with a column, if it is invalid."""
    line = Line(text)
    expression = read_expression(line)
    options = read_options(line)
    if line.rest.text.startswith("run:"):
        return _command(line, expression, options, where)
    start = line.word()
    type_name = _type(start)
    payload = _payload(line)
    options = read_options(line, options)
    if line.rest.text:
        refuse(line.rest.column, 'neither JSON ({"key": "value"}) nor an option (lane=mail) can be read here')
    for name in COMMAND_OPTIONS:
        if name in options:
            refuse(options[name].column, f"{name}= is for commands (run: …); a handler declares its own")
    return _entry(start.column, where, options, expression=expression, type=type_name, payload=payload)


def _command(line: Line, expression: str, options: dict[str, GivenOption], where: str) -> ScheduleEntry:
    column = line.rest.column
    line.skip("run:")
    command = line.rest
    try:
        words = shlex.split(command.text)
    except ValueError as error:
        refuse(command.column, f"the command cannot be split into words: {error}")
    if not words or not words[0]:
        refuse(command.column, "a program must follow run:, as in run: scripts/nightly --all")
    return _entry(column, where, options, expression=expression, type=COMMAND, command=command.text)


def _entry(column: int, where: str, options: dict[str, GivenOption], **fields: Any) -> ScheduleEntry:
    values = {name: given.value for name, given in options.items()}
    # By default its type, or the name of its program: `nightly` for `run: scripts/nightly --all`.
    usual = fields.get("command", fields["type"]).split()[0].rpartition("/")[2]
    name = values.pop("name", None) or usual
    if not re.fullmatch(NAME_PATTERN, name):
        refuse(column, f"{name!r} cannot be its name: give it one with name=, of {NAME_RULE}")
    return ScheduleEntry(name=name, where=where, **fields, **values)


def _type(word: Word) -> str:
    if not word.text:
        refuse(word.column, "a type is missing: write the type of the job, or run: and a command")
    if not re.fullmatch(NAME_PATTERN, word.text):
        refuse(word.column, f"{word.text!r} is not a valid type: it must be {NAME_RULE}")
    if word.text == COMMAND:
        refuse(word.column, "commands are scheduled with run:, as in run: scripts/nightly --all")
    return word.text


def _payload(line: Line) -> str:
    rest = line.rest
    if not rest.text.startswith(("{", "[", '"')):
        return "{}"
    try:
        value, end = json_text.decode_first(rest.text)
        text = json_text.encode(value)
    except ValueError as error:
        at, message = getattr(error, "pos", 0), getattr(error, "msg", error)
        refuse(rest.column + at, f"the payload is not valid JSON: {message}")
    if not isinstance(value, dict):
        refuse(rest.column, 'the payload must be a JSON object, as in {"key": "value"}')
    line.skip(rest.text[:end])
    if rest.text[end : end + 1].strip():
        refuse(rest.column + end, "a space must follow the payload")
    return text
