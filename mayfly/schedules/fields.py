"""The five fields of a rule, or @daily and its friends: which of them is wrong, and in which column. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime

from cronsim import CronSim, CronSimError

from mayfly.schedules.words import Line, Word, refuse

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
LONGEST_FIELD = 300  # all sixty minutes, one by one, have 169 characters
SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - local times of no place in particular


def read_expression(line: Line) -> str:
    """The five fields that a line begins with."""
    first = line.word()
    if first.text.startswith("@"):
        return _macro(first)
    if re.match(r"[A-Za-z_]+ *=", first.text):
        refuse(
            first.column, "variables have no effect here: write tz=… and the like behind the schedule they are for"
        )
    fields = [first, *(line.word() for _ in FIELDS[1:])]
    _check(fields)
    return " ".join(field.text for field in fields)


def _macro(word: Word) -> str:
    if word.text not in MACROS:
        refuse(word.column, f"{word.text!r} is not one of {', '.join(MACROS)}")
    return MACROS[word.text]


def _check(fields: Sequence[Word]) -> None:
    """All together first, which is nearly always enough; then each by itself, so that the wrong one can be named."""
    together = " ".join(field.text for field in fields)
    too_long = any(len(field.text) > LONGEST_FIELD for field in fields)
    if not too_long and all(field.text for field in fields) and _is_understood(together):
        if next(CronSim(together, SOME_DAY), None) is not None:
            return
    else:
        for number, name in enumerate(FIELDS):
            _check_field(fields[number], number, name)
    refuse(fields[2].column, "there is no such day: it would never be due")


def _check_field(field: Word, number: int, name: str) -> None:
    if not field.text:
        refuse(field.column, f"the {name} is missing: five fields are needed, or @daily and the like")
    alone = ["*"] * len(FIELDS)
    alone[number] = field.text
    if len(field.text) > LONGEST_FIELD or not _is_understood(" ".join(alone)):
        refuse(field.column, f"{field.text[:LONGEST_FIELD]!r} is no {name}")


def _is_understood(expression: str) -> bool:
    try:
        CronSim(expression, SOME_DAY)
    except CronSimError:
        return False
    return True
