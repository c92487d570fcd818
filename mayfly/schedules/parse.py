"""Read the lines of a schedule file: each is a schedule, or a column and the reason why it is none. Pure.

FIELDS TYPE [JSON] [option=value …]
FIELDS [option=value …] run: COMMAND
"""

import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from mayfly import jsontext
from mayfly.schedules import COMMAND
from mayfly.schedules.entry import Entry, default_name
from mayfly.schedules.fields import read_expression
from mayfly.schedules.options import OF_COMMANDS, Given, read_options
from mayfly.schedules.words import BadSchedule, Line, Word, refuse
from mayfly.settings.values import NAME_PATTERN, NAME_RULE


def is_meaningful(line: str) -> bool:
    """Neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def parse_line(text: str, where: str = "") -> Entry:
    """The schedule that a line says; BadSchedule with the column where it goes wrong."""
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
