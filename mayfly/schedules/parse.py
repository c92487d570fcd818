"""Read the lines of a schedule file: each is a schedule, or a column and the reason why it is none. Pure.

FIELDS TYPE [JSON] [option=value …]
FIELDS [option=value …] run: COMMAND
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

from mayfly import jsontext
from mayfly.schedules import COMMAND
from mayfly.schedules.entry import Entry, default_name
from mayfly.schedules.fields import FIELDS, BadSchedule, Word, check_fields, macro, refuse
from mayfly.schedules.options import OF_COMMANDS, OPTIONS
from mayfly.settings.values import NAME_PATTERN, NAME_RULE

_OPTION = re.compile(r"([a-z_]+)=(\S*)")


class Given(NamedTuple):
    """An option's value, and where it stands."""

    value: Any
    column: int


class Line:
    """The words of a line, taken one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0

    @property
    def rest(self) -> Word:
        """What is left, without the space around it."""
        left = self.text[self._at :]
        return Word(left.strip(), self._at + len(left) - len(left.lstrip()) + 1)

    def word(self) -> Word:
        rest = self.rest
        found = Word(re.match(r"\S*", rest.text)[0], rest.column)  # type: ignore[index]
        self.skip(found.text)
        return found

    def skip(self, text: str) -> None:
        self._at = self.rest.column - 1 + len(text)


def is_meaningful(line: str) -> bool:
    """Neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def parse_line(text: str, where: str = "") -> Entry:
    """The schedule that a line says; BadSchedule with the column where it goes wrong."""
    line = Line(text)
    expression = _expression(line)
    options = _options(line)
    if line.rest.text.startswith("run:"):
        return _command(line, expression, options, where)
    start = line.word()
    type_name = _type(start)
    payload = _payload(line)
    options = _options(line, options)
    if line.rest.text:
        refuse(line.rest.column, 'neither JSON ({"key": "value"}) nor an option (lane=mail) can be read here')
    for name in OF_COMMANDS:
        if name in options:
            refuse(options[name].column, f"{name}= is for commands (run: …); a handler declares its own")
    return _entry(start.column, where, options, expression=expression, type=type_name, payload=payload)


def _command(line: Line, expression: str, options: dict[str, Given], where: str) -> Entry:
    column = line.rest.column
    line.skip("run:")
    command = line.rest
    try:
        words = shlex.split(command.text)
    except ValueError as error:
        refuse(command.column, f"the command cannot be split into words: {error}")
    if not words or not words[0]:
        refuse(command.column, "a program must follow run:, as in run: scripts/nightly --all")
    said = {"type": COMMAND, "command": command.text}
    return _entry(column, where, options, expression=expression, **said)


def _entry(column: int, where: str, options: dict[str, Given], **fields: Any) -> Entry:
    values = {name: given.value for name, given in options.items()}
    name = values.pop("name", None) or default_name(fields["type"], fields.get("command"))
    if not re.fullmatch(NAME_PATTERN, name):
        refuse(column, f"{name!r} cannot be its name: give it one with name=, of {NAME_RULE}")
    return Entry(name=name, where=where, **fields, **values)


# --- the parts of a line ----------------------------------------------------------------------------------


def _expression(line: Line) -> str:
    first = line.word()
    if first.text.startswith("@"):
        return macro(first)
    if re.match(r"[A-Za-z_]+ *=", first.text):
        refuse(
            first.column, "variables have no effect here: write tz=… and the like behind the schedule they are for"
        )
    fields = [first, *(line.word() for _ in FIELDS[1:])]
    check_fields(fields)
    return " ".join(field.text for field in fields)


def _type(word: Word) -> str:
    if not word.text:
        refuse(word.column, "a type is missing: what is to be enqueued, or run: and a command")
    if not re.fullmatch(NAME_PATTERN, word.text):
        refuse(word.column, f"{word.text!r} is no type here: it must be {NAME_RULE}")
    if word.text == COMMAND:
        refuse(word.column, "commands are scheduled with run:, as in run: scripts/nightly --all")
    return word.text


def _payload(line: Line) -> str:
    rest = line.rest
    if not rest.text.startswith(("{", "[", '"')):
        return "{}"
    try:
        value, end = jsontext.decode_first(rest.text)
        text = jsontext.encode(value)
    except ValueError as error:
        refuse(rest.column + getattr(error, "pos", 0), f"the payload is no JSON: {getattr(error, 'msg', error)}")
    if not isinstance(value, dict):
        refuse(rest.column, 'the payload must be a JSON object, as in {"key": "value"}')
    line.skip(rest.text[:end])
    if rest.text[end : end + 1].strip():
        refuse(rest.column + end, "a space must follow the payload")
    return text


def _options(line: Line, before: Mapping[str, Given] = MappingProxyType({})) -> dict[str, Given]:
    found = dict(before)
    while match := _OPTION.match(line.rest.text):
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


# --- whole files ------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """A line that is refused, or a file that cannot be read (line 0)."""

    file: str
    line: int
    column: int
    reason: str

    def __str__(self) -> str:
        at = f", line {self.line}, column {self.column}" if self.line else ""
        return f"{self.file}{at}: {self.reason}"


def parse_text(text: str, file: str) -> Iterator[Entry | Problem]:
    """One for each line that says something."""
    for number, line in enumerate(text.split("\n"), start=1):
        if is_meaningful(line):
            try:
                yield parse_line(line, f"{file}, line {number}")
            except BadSchedule as error:
                yield Problem(file, number, error.column, error.reason)
