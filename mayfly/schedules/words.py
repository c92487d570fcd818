"""The words of a line, each with its column, and how a line is refused. Pure."""

import re
from typing import NamedTuple, NoReturn


class BadSchedule(ValueError):
    """What is wrong with a line, and in which column, counted from 1."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason


class Word(NamedTuple):
    text: str
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


def refuse(column: int, reason: str) -> NoReturn:
    raise BadSchedule(column, reason) from None
