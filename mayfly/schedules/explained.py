"""A rule in plain words: "every 5 minutes", "at 03:00 on Mondays". Pure.

cronsim knows the words of crontab's fields; what people say otherwise than it does is said here.
"""

import re
from datetime import datetime

from cronsim import CronSim

SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - local times of no place in particular
EVERY_DAY = ["*", "*", "*"]
WEEKDAY = re.compile(r"(?<!it's on )\b((?:Sun|Mon|Tues|Wednes|Thurs|Fri|Satur)day)\b(?! of)")


def words_of(expression: str) -> str:
    """Of five fields that are understood."""
    minute, hour, *days = expression.upper().split()
    return _regular(minute, hour, days) or _said(CronSim(expression, SOME_DAY))


def _regular(minute: str, hour: str, days: list[str]) -> str | None:
    """What comes again after the same time, whatever the day: such a rule is not a list of times to anybody."""
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
    """Of `*/5`, where it divides the whole: every 7 minutes of an hour are not every 7 minutes."""
    match = re.fullmatch(r"\*/([0-9]{1,2})", field)
    number = int(match[1]) if match else 1
    return number if number > 1 and whole % number == 0 and number < whole else None


def _said(rule: CronSim) -> str:
    words = rule.explain()
    if "through" not in words:
        words = WEEKDAY.sub(r"\1s", words)
    if not rule.day_and:
        words = words.replace(" and on ", " or on ")  # where both days are restricted, either suffices
    return words[0].lower() + words[1:]
