"""Crontab rules: read one from a line, list its due times in a time zone, describe it in words. Pure.

cronsim parses the five fields and matches them against a calendar without time zones. Daylight saving is done here:

- A rule whose minute or hour begins with `*` follows real time: it is due in every minute whose local time matches.
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
MAX_FIELD_LENGTH = 300  # all sixty minutes, one by one, have 169 characters
SAMPLE_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - a local time without a place
EVERY_DAY = ["*", "*", "*"]
WEEKDAY = re.compile(r"(?<!it's on )\b((?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day)\b(?! of)")
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
OFFSET_STEP = timedelta(hours=6)  # no zone has ever changed its offset and back in less
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
        """What is unread, without the space around it."""
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
        return _macro(first)
    if re.match(r"[A-Za-z_]+ *=", first.text):
        refuse(first.column, "variables have no effect here: write options such as tz=… behind the rule")
    fields = [first, *(line.word() for _ in FIELDS[1:])]
    _check(fields)
    return " ".join(field.text for field in fields)


def _macro(word: Word) -> str:
    if word.text not in MACROS:
        refuse(word.column, f"{word.text!r} is not one of {', '.join(MACROS)}")
    return MACROS[word.text]


def _check(fields: Sequence[Word]) -> None:
    """All fields together first, which is nearly always enough; then each alone, to name the wrong one."""
    together = " ".join(field.text for field in fields)
    too_long = any(len(field.text) > MAX_FIELD_LENGTH for field in fields)
    if not too_long and all(field.text for field in fields) and _is_understood(together):
        if next(CronSim(together, SAMPLE_DAY), None) is not None:
            return
    else:
        for number, name in enumerate(FIELDS):
            _check_field(fields[number], number, name)
    refuse(fields[2].column, "there is no such day: the rule would never be due")


def _check_field(field: Word, number: int, name: str) -> None:
    if not field.text:
        refuse(field.column, f"the {name} is missing: five fields are needed, or @daily and the like")
    if not is_field(field.text, number):
        refuse(field.column, f"{field.text[:MAX_FIELD_LENGTH]!r} is no {name}")


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
    minute, hour, *_ = expression.split()
    follows_real_time = minute.startswith("*") or hour.startswith("*")
    last = after
    for due in (_real_times if follows_real_time else _named_times)(expression, zone, after):
        if due > last:
            yield due
            last = due


def next_due(expression: str, zone: ZoneInfo, after: datetime, number: int = 1) -> list[datetime]:
    """The next few due times; fewer where the rule has no more."""
    return list(islice(due_times(expression, zone, after), number))


def last_due(expression: str, zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The latest due time after `after` and not after `until`, without counting all of them."""
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


def _named_times(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """May repeat, or begin before `after`: local times have no offset."""
    for local in _local_times(expression, _local(after, zone)):
        yield _instant_of(local, zone)


def _real_times(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """From one change of the offset to the next: in between, local time runs like UTC."""
    at, start = after, _local(after, zone)
    while True:
        offset = _offset(at, zone)
        change: datetime | None = None
        for local in _local_times(expression, start):
            due = local.replace(tzinfo=UTC) - offset
            change = _next_change(zone, at, due)
            if change is not None:
                break
            yield due
            at = due
        if change is None:
            return
        at, start = change, _local(change, zone) - SECOND


def _local_times(expression: str, after: datetime) -> Iterator[datetime]:
    """The local times that match, in a calendar without offsets."""
    try:
        yield from CronSim(expression, after)
    except OverflowError:  # the end of the calendar
        return


def _instant_of(local: datetime, zone: ZoneInfo) -> datetime:
    """The first instant with this local time; if there is none, the first whole minute after the gap."""
    first = local.replace(tzinfo=zone).astimezone(UTC)
    if _local(first, zone) == local:
        return first
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)  # in a gap, fold=1 counts from its other end
    change = _change_between(zone, before, first)
    return change + (-timedelta(seconds=_local(change, zone).second)) % MINUTE


def _next_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The first instant, up to `until`, that has another offset than `after`."""
    offset = _offset(after, zone)
    while after < until:
        sample = min(after + OFFSET_STEP, until)
        if _offset(sample, zone) != offset:
            return _change_between(zone, after, sample)
        after = sample
    return None


def _change_between(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Offsets change on whole seconds."""
    offset = _offset(before, zone)
    low = before.replace(microsecond=0)
    seconds = -((low - after) // SECOND)
    known, changed = 0, seconds
    while changed - known > 1:
        middle = (known + changed) // 2
        if _offset(low + middle * SECOND, zone) == offset:
            known = middle
        else:
            changed = middle
    return low + changed * SECOND


def _local(at: datetime, zone: ZoneInfo) -> datetime:
    """The local time, without a zone."""
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


# --- in words ----------------------------------------------------------------------------------------------


def describe_rule(expression: str) -> str:
    """In words, from five valid fields."""
    minute, hour, *days = expression.upper().split()
    return _regular(minute, hour, days) or _phrase(CronSim(expression, SAMPLE_DAY))


def _regular(minute: str, hour: str, days: list[str]) -> str | None:
    """A rule that repeats at the same interval every day is described by the interval, not by a list of times."""
    if days != EVERY_DAY:
        return None
    if hour == "*":
        number = _step(minute, 60)
        return f"every {number} minutes" if number else None
    number = _step(hour, 24)
    if number is None or not minute.isdigit():
        return None
    past = int(minute)
    return f"every {number} hours" + (f", {past} minutes past" if past > 1 else ", 1 minute past" if past else "")


def _step(field: str, whole: int) -> int | None:
    """The 5 of `*/5`, if it divides the whole: `*/7` is not every 7 minutes."""
    match = re.fullmatch(r"\*/([0-9]{1,2})", field)
    number = int(match[1]) if match else 1
    return number if number > 1 and whole % number == 0 and number < whole else None


def _phrase(rule: CronSim) -> str:
    words = rule.explain()
    if "through" not in words:
        words = WEEKDAY.sub(r"\1s", words)
    if not rule.day_and:
        words = words.replace(" and on ", " or on ")  # if both days are restricted, one of them suffices
    return words[0].lower() + words[1:]
