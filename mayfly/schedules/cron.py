"""Crontab rules: parse one from a line, list its due times in a time zone, describe it in words. Pure.

cronsim parses and matches the five fields, and treats daylight saving as Debian's cron does:

- A rule whose minute or hour begins with `*` follows real time: it is due in every minute whose local time matches.
  Where clocks change within an hour (Lord Howe, Chatham), minutes of the changed hour may be skipped.
- Any other rule names local times. One that does not exist is due at the next minute that does; one that occurs
  twice is due the first time only; two that fall on the same minute are due once.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, NoReturn
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

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
MAX_FIELD_LENGTH = 300  # a list of all sixty minutes has 169 characters
SAMPLE_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - cronsim takes a local time here
FIRST_LOOKBACK, LOOKBACK_FACTOR = timedelta(hours=1), 24

# --- read a rule -------------------------------------------------------------------------------------------


class BadSchedule(ValueError):
    """What is wrong with a line, and in which column, from 1."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason


class Word(NamedTuple):
    text: str
    column: int


class Line:
    """The words of a line, read one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0

    @property
    def rest(self) -> Word:
        """The unread part, without the space around it."""
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


def read_expression(line: Line) -> str:
    """The five fields at the start of a line."""
    first = line.word()
    if first.text.startswith("@"):
        if first.text not in MACROS:
            refuse(first.column, f"{first.text!r} is not one of {', '.join(MACROS)}")
        return MACROS[first.text]
    if re.match(r"[A-Za-z_]+ *=", first.text):
        refuse(first.column, "variables have no effect here: write options such as tz=… after the rule")
    fields = [first, *(line.word() for _ in FIELDS[1:])]
    _check(fields)
    return " ".join(field.text for field in fields)


def _check(fields: Sequence[Word]) -> None:
    """Check all fields together, which is nearly always enough; if that fails, each alone, to find the wrong one."""
    together = " ".join(field.text for field in fields)
    too_long = any(len(field.text) > MAX_FIELD_LENGTH for field in fields)
    if not too_long and all(field.text for field in fields) and _is_understood(together):
        if next(CronSim(together, SAMPLE_DAY), None) is not None:
            return
    else:
        for number, (field, name) in enumerate(zip(fields, FIELDS, strict=True)):
            if not field.text:
                refuse(field.column, f"the {name} is missing: five fields are needed, or @daily and the like")
            if not is_field(field.text, number):
                refuse(field.column, f"{field.text[:MAX_FIELD_LENGTH]!r} is not a valid {name}")
    refuse(fields[2].column, "there is no such day: the rule would never be due")


def is_field(text: str, number: int) -> bool:
    """Whether a text can be the field of this number, from 0."""
    alone = ["*"] * len(FIELDS)
    alone[number] = text
    return len(text) <= MAX_FIELD_LENGTH and _is_understood(" ".join(alone))


def _is_understood(expression: str) -> bool:
    try:
        CronSim(expression, SAMPLE_DAY)
    except CronSimError:
        return False
    return True


# --- due times ---------------------------------------------------------------------------------------------


def due_times(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Every due time later than `after`, in order, in UTC."""
    last = after
    rule = CronSim(expression, after.astimezone(zone))
    try:
        for local in rule:
            due = local.astimezone(UTC)
            if due > last and _is_real(rule, local, due.astimezone(zone)):
                yield due
                last = due
    except OverflowError:  # the end of the calendar
        return


def _is_real(rule: CronSim, local: datetime, shown: datetime) -> bool:
    """Where the clock skips midnight, cronsim also reaches that midnight; the clock shows another time then."""
    is_shown = local.replace(tzinfo=None) == shown.replace(tzinfo=None)
    return is_shown or (shown.hour in rule.hours and shown.minute in rule.minutes)


def next_due(expression: str, zone: ZoneInfo, after: datetime, number: int = 1) -> list[datetime]:
    """The next few due times; fewer where the rule has no more."""
    return list(islice(due_times(expression, zone, after), number))


def last_due(expression: str, zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The latest due time after `after` and not after `until`, without listing all of them."""
    look_back = FIRST_LOOKBACK
    while True:
        start = after if look_back >= until - after else until - look_back
        found = None
        for due in due_times(expression, zone, start):
            if due > until:
                break
            found = due
        if found is not None or start == after:
            return found
        look_back *= LOOKBACK_FACTOR


def describe_rule(expression: str) -> str:
    """In cronsim's words, from five valid fields."""
    rule = CronSim(expression, SAMPLE_DAY)
    words = rule.explain()
    if not rule.day_and:
        words = words.replace(" and on ", " or on ")  # if both days are restricted, one of them suffices
    return words[0].lower() + words[1:]
